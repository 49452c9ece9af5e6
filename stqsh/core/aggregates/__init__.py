"""Aggregates: groups, the exact states of their measures, and the answers shown from these."""
