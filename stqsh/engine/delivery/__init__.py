"""Delivery of a batch, and the decisions that follow it."""
