"""The durable state of slots, and the arena that caches it."""
