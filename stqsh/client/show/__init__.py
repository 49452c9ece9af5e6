"""The answers to SHOW."""
