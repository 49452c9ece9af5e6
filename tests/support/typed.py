"""Nested lists and dicts, as JSON has them, as the structs of `stqsh.spec`, and back."""

from __future__ import annotations

from typing import Any

import msgspec

from stqsh.spec.expression import Expr
from stqsh.spec.query import SlotQuery, SnapshotSpec


def expression(value: Any) -> Any:
    """Return the expression that nested lists stand for."""
    return msgspec.convert(value, Expr)


def snapshot_spec(value: Any) -> SnapshotSpec:
    """Return the snapshot that a JSON object stands for."""
    return msgspec.convert(value, SnapshotSpec)


def slot_query(value: Any) -> SlotQuery:
    """Return the query that a JSON object stands for."""
    return msgspec.convert(value, SlotQuery)


def plain(value: Any) -> Any:
    """Return what JSON makes of a struct: dicts, lists and constants."""
    return msgspec.json.decode(msgspec.json.encode(value))
