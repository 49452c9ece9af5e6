"""The sinks of a session: which there are, and how far each has written."""
