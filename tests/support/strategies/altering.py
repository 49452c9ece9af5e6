"""Cases in which queries get other regions, conditions and numbers of neighbours as they run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from support.cases import Case, Command, Spec
from support.oracle import parts_of
from support.strategies.queries import areas_in, whole_conditions
from support.strategies.regions import neighbourhoods, regions
from support.strategies.streams import Scope


@st.composite
def altered_cases(
    draw: st.DrawFn, cases: st.SearchStrategy[Case], features: frozenset[str] = frozenset()
) -> Case:
    """A case with ALTER at random places among its commands, for queries that can have it."""
    case = draw(cases)
    used = sorted({row[case.spec["key"]] for _, row in case.records})
    if not used:
        return case
    scope = Scope(case.spec, case.clock, used, features, case.tables, case.areas)
    last, commands = case.steps, list(case.commands)
    likely = sorted({1, *(step for step, _ in case.records), *(step for step, _ in case.commands)})
    for query in case.queries:
        for step in draw(st.lists(st.sampled_from(likely), max_size=3)):
            at = _place(commands, query["id"], min(step, last))
            if at is not None:
                commands.insert(at, (step, draw(_alterations(scope, query))))
    return replace(case, commands=commands)


@st.composite
def _alterations(draw: st.DrawFn, scope: Scope, query: Spec) -> Command:
    """ALTER of a query: another region or place, another condition, or both."""
    region, condition = query["region"], query["condition"]
    changes = draw(st.sampled_from(["region", "condition", "both"] if can_move(query) else ["condition"]))
    if changes != "condition":
        region = draw(_regions(scope, query))
    if changes != "region":
        condition = draw(whole_conditions(scope, region, query["join"]))
    areas = areas_in(region, condition, *_shown(query))
    return {"op": "alter", "id": query["id"], "region": region, "condition": condition, "areas": areas}


def can_move(query: Spec) -> bool:
    """Whether what a query selects of members that stay does not follow from its region."""
    return not (query["options"].get("changes") and _asks_distance(query))


def _asks_distance(query: Spec) -> bool:
    return bool(parts_of(_shown(query), "distance"))


def _shown(query: Spec) -> list[Any]:
    """What a query selects, adds up, and orders by."""
    return [query["select"], *(list((query.get(name) or {}).values()) for name in ("aggregates", "first"))]


def _place(commands: list[tuple[int, Command]], id_: int, step: int) -> int | None:
    """Where in the log an ALTER of a query may be in a step: while it lives; None if nowhere."""
    at = sum(1 for when, _ in commands if when <= step)
    born = next(i for i, (_, c) in enumerate(commands) if c["op"] == "register" and c["query"]["id"] == id_)
    gone = [i for i, (_, c) in enumerate(commands) if c["op"].startswith("drop") and c.get("id", id_) == id_]
    return at if born < at and not any(i < at for i in gone) else None


def _regions(scope: Scope, query: Spec) -> st.SearchStrategy[Spec]:
    """Other regions of a query, for which it means the same."""
    before = query["region"]
    found: st.SearchStrategy[Spec]
    if before["type"] == "nearest":
        return neighbourhoods(scope).filter(lambda region: ("focal" in region) == ("focal" in before))
    found = regions(scope).filter(lambda region: region["type"] != "all")
    if not _asks_distance(query):
        return found
    return st.just(before) | found.filter(lambda region: _centre(region) == _centre(before))


def _centre(region: Spec) -> list[bool] | None:
    """What distances are measured from; None for nothing."""
    return None if region["type"] == "moving_rect" else [name in region for name in ("focal", "x")]
