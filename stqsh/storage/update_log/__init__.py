"""The update log: writing, reading, compaction, leases."""
