"""Indexes of papers that a session may choose instead of the default ones, on arrays alone."""
