"""Queries with LIMIT over a case's stream, in place of those that show all members."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from support.cases import Case, Spec
from support.oracle import parts_of


@st.composite
def first_cases(draw: st.DrawFn, cases: st.SearchStrategy[Case]) -> Case:
    """A case whose queries over regions have LIMIT; half of them are over all objects."""
    case = draw(cases)
    commands = []
    for step, command in case.commands:
        limited = command["op"] == "register" and command["query"]["kind"] == "range"
        commands.append(
            (step, command | {"query": draw(limited_query(case, command["query"]))} if limited else command)
        )
    return replace(case, commands=commands)


@st.composite
def limited_query(draw: st.DrawFn, case: Case, query: Spec) -> Spec:
    """The query with an ORDER BY over what it shows, and a LIMIT."""
    shown: list[Any] = [column for column in query["select"] if not parts_of([column], "distance")]
    if case.spec["planar"]:  # the oracle has distances to the last digit
        near = [query["region"].get("x", 0.5), query["region"].get("y", 0.5)]
        shown.append(["far", ["distance_to", *map(float, near)]])
    by = st.tuples(st.sampled_from([e for _, e in shown]), st.booleans(), st.booleans()).map(list)
    order = draw(st.lists(by, max_size=2))
    options = {name: value for name, value in query["options"].items() if name not in ("dwell_us", "changes")}
    first = {"order": order, "limit": draw(st.sampled_from([0, 1, 1, 2, 2, 3, 50]))}
    if query["join"] is None and draw(st.booleans()):
        query |= {"region": {"type": "all"}, "condition": None, "areas": []}
    return query | {"kind": "first", "select": shown, "options": options, "first": first}
