"""The clock, which all of the core depends on."""
