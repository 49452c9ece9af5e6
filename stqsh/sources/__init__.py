"""Prepare the sources of streams as replay stores, which the engine reads by row."""
