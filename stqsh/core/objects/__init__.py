"""The objects of a stream on a slot, and what a batch does to them."""
