"""Kernels of k nearest queries."""
