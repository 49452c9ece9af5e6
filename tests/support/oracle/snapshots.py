"""Snapshots: what a SELECT answers on the state after a step."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

from support.cases import Row, Spec
from support.oracle.expressions import value
from support.oracle.fold import Oracle


def snapshot(state: Oracle, select: Spec, n: int) -> list[Row]:
    """The rows in order: by ORDER BY (NULLs last, ties by key), else by key; then LIMIT."""
    members = sorted(state.answer(select, n), key=state.key)
    if select["aggregate"] == "count":
        return [{select.get("output", "count"): len(members)}]

    def of(e: Any, name: Any) -> Any:
        centre = state.centre(select["region"], n)
        return value(e, state.stored[name], state.clock.at(n), state.world, centre)

    for e, descending in reversed(select["order"]):
        members.sort(key=cmp_to_key(lambda a, b, e=e, down=descending: _compare(of(e, a), of(e, b), down)))
    return [{out: of(e, name) for out, e in select["select"]} for name in members[: select["limit"]]]


def _compare(a: Any, b: Any, descending: bool) -> int:
    if a is None or b is None:
        return (a is None) - (b is None)
    return ((a > b) - (a < b)) * (-1 if descending else 1)
