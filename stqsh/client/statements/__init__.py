"""Statements: one module for each group of handlers."""
