"""Client caches for snapshots of aggregates: events by time slot and cell, and views (STAR)."""
