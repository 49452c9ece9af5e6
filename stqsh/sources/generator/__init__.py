"""GENERATOR sources, and the sample data that they make."""
