"""What all of the core stands on."""
