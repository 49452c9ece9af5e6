"""Routing: which slots get a record or a query; one module a strategy."""
