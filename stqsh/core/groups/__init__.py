"""The groups of continuous aggregate queries: what slots find out about them, and what Aggregate keeps."""
