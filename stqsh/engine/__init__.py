"""The engine: Spark runs the fold over the log of steps; planner, data source, operators, Deliver."""
