"""Kernels that decide which objects are kept."""
