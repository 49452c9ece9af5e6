"""Kernels of queries for the first n members."""
