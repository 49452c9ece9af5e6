"""kNN queries on a slot: circles that are monitored, who is in them, and what the slot offers of them."""
