"""Kernels that join events with queries."""
