"""The parts of the binder, which bind.py combines."""
