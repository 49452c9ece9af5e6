"""Read file formats: from bytes to typed records."""
