"""The clock, on which all of the core depends."""
