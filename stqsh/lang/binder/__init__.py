"""The pieces that bind.py puts together: what is not built yet, streams, queries, conditions, commands."""
