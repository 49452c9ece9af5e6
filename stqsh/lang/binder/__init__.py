"""The parts of the binder, which bind.py puts together."""
