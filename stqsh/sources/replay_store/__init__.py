"""The replay store: a prepared source on disk, in replay order."""
