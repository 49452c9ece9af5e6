"""The terminal: its capabilities, keys, signals, and the screen."""
