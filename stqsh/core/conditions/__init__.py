"""Conditions and expressions over columns, evaluated for many rows and queries at once."""
