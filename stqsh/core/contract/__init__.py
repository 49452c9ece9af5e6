"""The contract between a slot's evaluation and a query kind."""
