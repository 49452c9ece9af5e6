"""The first n members of answers by an order: on one slot, and of all slots."""
