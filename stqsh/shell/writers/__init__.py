"""Output formats: one module per format, one protocol for all."""
