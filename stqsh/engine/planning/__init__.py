"""The planner: what the next batch holds."""
