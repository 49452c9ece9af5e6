"""Output formats: one module a format, one protocol for all."""
