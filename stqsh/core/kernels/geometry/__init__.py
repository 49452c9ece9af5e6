"""Kernels of geometry: distances, boxes, circles, polygons."""
