"""Evaluate and Aggregate as Spark runs them."""
