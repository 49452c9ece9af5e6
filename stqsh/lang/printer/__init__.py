"""The pieces that printer.py puts together: values, expressions, definitions and queries as text."""
