"""Static regions of queries: rectangles in grids, and polygons."""
