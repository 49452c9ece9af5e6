"""Queries with LIMIT over a case's stream, in place of those that show all members."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from support.cases import Case, Spec
from support.oracle import parts_of
from support.oracle.whole import changes_always, reads_now
from support.strategies.streams import Scope
from support.strategies.turning import may_turn, restless, timed


@st.composite
def top_n_cases(draw: st.DrawFn, cases: st.SearchStrategy[Case]) -> Case:
    """A case whose queries over regions have LIMIT; half of them are over all objects."""
    case = draw(cases)
    commands = []
    for step, command in case.commands:
        kinds = ("range", "nearest") if draw(st.booleans()) else ("range",)
        limited = command["op"] == "register" and command["query"]["kind"] in kinds
        commands.append(
            (step, command | {"query": draw(limited_query(case, command["query"]))} if limited else command)
        )
    return replace(case, commands=commands)


_LIMITS = [0, 1, 1, 2, 2, 3, 50]


@st.composite
def limited_neighbours(draw: st.DrawFn, spec: Spec, query: Spec) -> Spec:
    """The query for neighbours with an ORDER BY over what it shows, and a LIMIT of them."""
    values = [e for _, e in query["select"] if not parts_of([e], "distance")]
    values += [["distance"]] * spec["planar"]  # the oracle has distances to the last digit
    by = st.tuples(st.sampled_from(values), st.booleans(), st.booleans()).map(list)
    first = {"order": draw(st.lists(by, min_size=1, max_size=2)), "limit": draw(st.sampled_from(_LIMITS))}
    return query | {"kind": "nearest_first", "first": first}


@st.composite
def limited_query(draw: st.DrawFn, case: Case | Scope, query: Spec) -> Spec:
    """The query with an ORDER BY over what it shows, and a LIMIT."""
    if query["kind"] == "nearest":
        return draw(limited_neighbours(case.spec, query))
    if query["join"] is None and draw(st.booleans()):
        query = query | {"region": {"type": "all"}, "condition": None, "areas": []}
    shown: list[Any] = [column for column in query["select"] if not parts_of([column], "distance")]
    values: list[Any] = [e for _, e in shown]
    if case.spec["planar"]:  # the oracle has distances to the last digit
        near = [query["region"].get("x", 0.5), query["region"].get("y", 0.5)]
        shown.append(["far", ["distance_to", *map(float, near)]])
        values.append(shown[-1][1])
        if query["region"]["type"] == "moving_circle":
            values.append(["distance"])
            shown += [["farther", ["distance"]]] if draw(st.booleans()) else []
    if draw(st.integers(0, 2)) == 0:
        values = [draw(timed(case))]
    if may_turn(case) and draw(st.integers(0, 5)) == 0:
        query = draw(restless(case, query))
    by = st.tuples(st.sampled_from(values), st.booleans(), st.booleans()).map(list)
    order = draw(st.lists(by, max_size=2))
    each_step = bool(parts_of([order, shown], "distance") or reads_now(order))
    each_step |= changes_always(query["condition"])
    limit = draw(st.sampled_from(_LIMITS))
    first = {"order": order, "limit": limit, "each_step": each_step}
    return query | {"kind": "first", "select": shown, "first": first}
