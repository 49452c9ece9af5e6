"""Ingest: the Spark data source and what its tasks read."""
