"""Snapshots: answers at one moment, read from the state of slots between two batches."""
