"""The planner: what the next batch contains."""
