"""The map as an HTML page."""
