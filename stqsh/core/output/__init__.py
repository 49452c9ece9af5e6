"""From updates to chunks, and the slots' partial answers merged."""
