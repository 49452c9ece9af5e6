"""The matching of events with queries, and the answers of range queries."""
