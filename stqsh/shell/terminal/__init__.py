"""The terminal: what it can do, keys, signals, the screen."""
