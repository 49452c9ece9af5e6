"""The engine: one Spark query that folds the control log and the streams into updates."""
