"""Completion at the prompt."""
