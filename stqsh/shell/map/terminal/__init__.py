"""The map on a terminal."""
