"""The first law of queries WITH (changes => true): of regions, of neighbours, with LIMIT, over pauses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import memory, oracle
from support.budget import share
from support.cases import Case
from support.oracle import parts_of
from support.strategies import cases, cut, cuts, slots
from support.strategies.top_n import limited_query

FEATURES: dict[str, frozenset[str]] = {
    "regions": frozenset({"circles", "expressions"}),
    "neighbours": frozenset({"nearest", "expressions"}),
    "events": frozenset({"events", "text", "nearest"}),
    "dwell": frozenset({"dwell", "circles", "events"}),
    "dwelling neighbours": frozenset({"dwell", "circles", "nearest", "expressions"}),
    "joins": frozenset({"joins", "nearest", "circles", "polygons", "inside", "expressions"}),
}


@st.composite
def changing_cases(draw: st.DrawFn, features: frozenset[str]) -> Case:
    """A case whose queries all send changes; some of them have LIMIT."""
    case = draw(cases(features))
    commands = []
    for step, command in case.commands:
        if command["op"] != "register":
            commands.append((step, command))
            continue
        query: dict[str, Any] = command["query"]
        if draw(st.booleans()):
            query = draw(limited_query(case, query))
        if parts_of(query["select"], "distance") and not case.spec["planar"]:
            commands.append((step, command))  # the oracle has distances to the last digit on the plane only
            continue
        if query["region"]["type"] == "moving_circle":
            all_of_them = {"order": [], "limit": 2**31 - 1, "each_step": True}
            strays = query["kind"] == "range" and parts_of(query["select"], "distance")
            query |= {"kind": "first", "first": all_of_them} if strays else {}
        query = query | {"options": query["options"] | {"changes": True}}
        commands.append((step, command | {"query": query}))
    return replace(case, commands=commands)


@share(6)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, slots, st.sets(st.integers(0, 12)))
def test_updates_are_the_oracles(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, restarts: set[int]
) -> None:
    case = data.draw(changing_cases(features))
    expected = oracle.run(case)
    outcome = memory.run(case, count, cut(case, size), restarts)
    assert len(outcome.updates) == len(expected)
    for told, right in zip(outcome.updates, expected, strict=True):
        assert oracle.alike(told, right), (told, right)
    sizes = {query: len(keys) for query, keys in oracle.fold(expected).items() if keys}
    assert {query: size for query, size in outcome.sizes.items() if size} == sizes
