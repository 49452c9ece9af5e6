"""Kernels over sets of terms."""
