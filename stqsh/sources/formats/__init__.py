"""File formats: from bytes to typed records."""
