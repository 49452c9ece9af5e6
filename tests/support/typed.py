"""Nested lists and dicts, as JSON has them, as the structs of `stqsh.spec`, and back.

Queries are written as layouts before 16 stored them, in one object; so each test with a query also tests the
upgrade of older sessions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from stqsh.spec.expression import Expr
from stqsh.spec.older_queries import composed
from stqsh.spec.query import QuerySpec, SelectColumn, SlotQuery, SnapshotSpec


def expression(value: Any) -> Any:
    """Return the expression that nested lists stand for."""
    return msgspec.convert(value, Expr)


def snapshot_spec(value: Any) -> SnapshotSpec:
    """Return the snapshot that a JSON object stands for."""
    return msgspec.convert(composed(value), SnapshotSpec)


def query_spec(value: Any) -> QuerySpec:
    """Return the query that a JSON object stands for; what it lacks has a plain value."""
    least = {"stream": "", "stream_id": 1, "text": "", "kind": "range", "region": {"type": "all"}}
    return msgspec.convert(composed(least | value), QuerySpec)


def select_list(value: Any) -> tuple[SelectColumn, ...]:
    """Return the select list that [name, expression] pairs stand for."""
    return msgspec.convert(value, tuple[SelectColumn, ...])


def slot_query(value: Any) -> SlotQuery:
    """Return the query that a JSON object stands for."""
    return msgspec.convert(composed(value), SlotQuery)


def composed_commands(commands: Iterable[Any]) -> list[Any]:
    """Return commands to slots, as JSON objects, with queries as slots read them."""
    queries = [(command, command.get("query")) for command in commands]
    return [
        command if query is None or "members" in query else command | {"query": composed(query)}
        for command, query in queries
    ]


def plain(value: Any) -> Any:
    """Return what JSON makes of a struct: dicts, lists and constants."""
    return msgspec.json.decode(msgspec.json.encode(value))
