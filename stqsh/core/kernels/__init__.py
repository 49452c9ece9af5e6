"""Numba kernels on plain arrays; each module one topic. `kernel` is the only way they are compiled."""
