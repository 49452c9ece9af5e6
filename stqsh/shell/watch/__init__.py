"""WATCH: answers as they stand, on the full screen."""
