"""Cases of queries with DWELL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from support.cases import Case
from support.oracle import parts_of
from support.strategies.groups import dwelling, group_cases
from support.strategies.refreshes import refreshed_cases
from support.strategies.timely import timely_cases
from support.strategies.top_n import limited_query
from support.strategies.turning import may_turn, restless, timed
from support.strategies.whole import cases


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
    shown, is_nearest = draw(timed(case)), query["region"]["type"] == "nearest"
    order = [[["distance"], False, False]] if is_nearest else []
    first = {"order": order, "limit": 2**31 - 1, "each_step": True, "timed": [shown]}
    select = [["oid", ["col", "oid"]], ["fresh", shown]]
    query = draw(restless(case, query)) if may_turn(case) and draw(st.booleans()) else query
    options = query["options"] | {"changes": True}
    options |= {"dwell_us": draw(_durations(case.clock.tick_us))} if draw(st.booleans()) else {}
    kind = "refreshed_nearest_first" if is_nearest else "first"
    return query | {"kind": kind, "select": select, "first": first, "options": options}


def dwelling_aggregates(features: frozenset[str]) -> st.SearchStrategy[Case]:
    """Cases of aggregates that follow each step, are refreshed, or change as time passes; most have DWELL."""
    return held_cases(
        st.one_of(refreshed_cases(features), timely_cases(features), group_cases(cases(features)))
    )


@st.composite
def held_cases(draw: st.DrawFn, some: st.SearchStrategy[Case]) -> Case:
    """A case of aggregates, of which most have DWELL."""
    case = draw(some)
    commands = []
    for step, command in case.commands:
        dwells = command["op"] == "register" and case.spec["keep_us"] != 0 and draw(st.integers(0, 3))
        dwell_us = draw(_durations(case.clock.tick_us) | st.just(6 * case.clock.tick_us))
        query = {"query": dwelling(command["query"], dwell_us)} if dwells else {}
        commands.append((step, command | query))
    return replace(case, commands=commands)
