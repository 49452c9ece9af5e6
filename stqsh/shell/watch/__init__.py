"""WATCH: the current answers, on the full screen."""
