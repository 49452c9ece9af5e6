"""Queries in the control log: one by one, many of one template, and as commands to slots."""
