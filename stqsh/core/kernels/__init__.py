"""Numba kernels on plain arrays, one topic for each module; all are compiled by `kernel`."""
