"""The objects of a stream on a slot, and how a batch changes them."""
