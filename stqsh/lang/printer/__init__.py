"""The parts of the printer, which printer.py combines."""
