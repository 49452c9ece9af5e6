"""Kernels over object transitions and updates."""
