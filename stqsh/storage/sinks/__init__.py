"""The sinks of a session, and how far each has written."""
