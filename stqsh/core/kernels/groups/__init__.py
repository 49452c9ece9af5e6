"""Kernels of the groups of continuous aggregate queries."""
