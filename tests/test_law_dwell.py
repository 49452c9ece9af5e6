"""The first law of queries WITH (dwell => …): of regions, of neighbours, with LIMIT and changes, added up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import memory, oracle
from support.budget import share
from support.cases import Case
from support.group_updates import updates
from support.oracle import parts_of
from support.oracle.groups import run_groups
from support.strategies import cases, cut, cuts, restarts, slots
from support.strategies.groups import group_cases
from support.strategies.top_n import elapsed, limited_query

FEATURES: dict[str, frozenset[str]] = {
    "regions": frozenset({"circles", "expressions"}),
    "neighbours": frozenset({"nearest", "expressions"}),
    "events": frozenset({"events", "text", "nearest"}),
    "joins": frozenset({"joins", "nearest", "circles", "polygons", "inside", "expressions"}),
}


@st.composite
def dwelling_cases(draw: st.DrawFn, features: frozenset[str]) -> Case:
    """A case whose queries all have DWELL; many of them have LIMIT or send changes."""
    case = draw(cases(features | {"dwell"}))
    commands = []
    for step, command in case.commands:
        dwells = command["op"] == "register" and case.spec["keep_us"] != 0
        query = {"query": draw(_dwelling(case, command["query"]))} if dwells else {}
        commands.append((step, command | query))
    return replace(case, commands=commands)


@st.composite
def _dwelling(draw: st.DrawFn, case: Case, query: dict[str, Any]) -> dict[str, Any]:
    form = draw(st.sampled_from(["plain", "limited", "limited", "timed"]))
    if form == "timed":
        return draw(_timed(case, query))
    if form == "limited":
        query = draw(limited_query(case, query))
    tick = case.clock.tick_us
    options = query["options"] | {"dwell_us": draw(_durations(tick))}
    far = parts_of(query["select"], "distance")
    strays = far and query["region"]["type"] == "moving_circle"
    # Whether distances change depends on their last digits, which the oracle has on the plane.
    if (not far or case.spec["planar"]) and (not strays or query["kind"] == "first") and draw(st.booleans()):
        options["changes"] = True
    return query | {"options": options}


def _durations(tick: int) -> st.SearchStrategy[int]:
    return st.sampled_from([1, tick, 2 * tick, 2 * tick + 1, 4 * tick])


@st.composite
def _timed(draw: st.DrawFn, case: Case, query: dict[str, Any]) -> dict[str, Any]:
    """A query with changes that shows what depends on NOW; it looks at its members in each step."""
    shown, is_nearest = draw(elapsed(case)), query["region"]["type"] == "nearest"
    order = [[["distance"], False, False]] if is_nearest else []
    first = {"order": order, "limit": 2**31 - 1, "each_step": True, "timed": [shown]}
    select = [["oid", ["col", "oid"]], ["fresh", shown]]
    options = query["options"] | {"changes": True}
    options |= {"dwell_us": draw(_durations(case.clock.tick_us))} if draw(st.booleans()) else {}
    kind = "refreshed_nearest_first" if is_nearest else "first"
    return query | {"kind": kind, "select": select, "first": first, "options": options}


@share(6)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, slots, st.sets(st.integers(0, 12)))
def test_updates_are_the_oracles(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case = data.draw(dwelling_cases(features))
    expected = oracle.run(case)
    outcome = memory.run(case, count, cut(case, size), again)
    assert len(outcome.updates) == len(expected)
    for told, right in zip(outcome.updates, expected, strict=True):
        assert oracle.alike(told, right), (told, right)
    sizes = {query: len(keys) for query, keys in oracle.fold(expected).items() if keys}
    assert {query: size for query, size in outcome.sizes.items() if size} == sizes


ADDED_UP: dict[str, frozenset[str]] = {
    "objects": frozenset({"dwell", "circles", "expressions"}),
    "events": frozenset({"dwell", "events", "text", "polygons", "inside"}),
}


@share(6)
@pytest.mark.parametrize("features", ADDED_UP.values(), ids=ADDED_UP)
@given(st.data(), cuts, slots, restarts)
def test_members_of_aggregates_dwell(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    some = group_cases(cases(features))
    case = data.draw(some.filter(lambda one: any("dwell_us" in query["options"] for query in one.queries)))
    assert updates(case, count, cut(case, size), again) == run_groups(case)
