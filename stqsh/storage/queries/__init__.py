"""Queries in the control log: registered singly or from a template, and as commands to slots."""
