"""Routing: which slots get a record or a query; one module a strategy."""

VERSION = 1
"""The version of the routing in force. Logs of slots name it beside the records that it dealt."""
