"""Spatial, text and hash indexes as arrays."""
