"""The user interface: the prompt, completion, live views, batch mode and output formats."""
