"""Numba kernels on plain arrays, with one topic per module; `kernel` compiles all of them."""
