"""The groups of continuous aggregate queries: what slots compute, and what Aggregate keeps."""
