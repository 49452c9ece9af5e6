"""What users meet: the prompt, completion, live view, batch mode and output formats."""
