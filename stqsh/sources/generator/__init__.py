"""Generate streams, and the sample data."""
