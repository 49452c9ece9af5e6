"""Answers of one moment, read from slots that stand still."""
