"""Kernels of aggregates."""
