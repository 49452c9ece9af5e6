"""Which queries an event concerns, and the answers of range queries."""
