"""Live views of updates as they arrive."""
