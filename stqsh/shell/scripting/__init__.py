"""Scripts and backslash commands."""
