"""The queries of a slot, as arrays."""
