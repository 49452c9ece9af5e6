"""Sources: whatever a stream's records come from, prepared as a replay store that the engine reads by row."""
