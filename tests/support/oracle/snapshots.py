"""Snapshots: what a SELECT answers on the state after a step."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

from support.cases import Row, Spec
from support.oracle.expressions import value
from support.oracle.fold import Oracle, compare
from support.oracle.geometry import distance


def snapshot(state: Oracle, select: Spec, n: int) -> list[Row]:
    """The rows in order: by ORDER BY (NULLs last or first, ties by key), else by distance and key.

    LIMIT comes last. Only the nearest have a distance here.
    """
    members = list(state.answer(select, n))
    members.sort(key=lambda name: (_far(state, select, n, name), state.key(name)))
    if select["aggregate"] == "count":
        return [{select.get("output", "count"): len(members)}]

    def of(e: Any, name: Any) -> Any:
        centre = state.centre(select["region"], n)
        return value(e, state.stored[name], state.clock.at(n), state.world, centre)

    if select["order"]:
        members.sort(key=state.key)
    for e, *how in reversed(select["order"]):
        members.sort(key=cmp_to_key(lambda a, b, e=e, how=how: compare(of(e, a), of(e, b), *how)))
    return [{out: of(e, name) for out, e in select["select"]} for name in members[: select["limit"]]]


def _far(state: Oracle, select: Spec, n: int, name: Any) -> float:
    centre, place = state.centre(select["region"], n), state.world.place(state.stored[name])
    if select["kind"] != "nearest" or centre is None or place is None:
        return 0.0
    return distance(centre, place, state.world.planar)
