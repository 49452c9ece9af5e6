"""The first law under any routing: whatever the tables, and whenever they change, updates are the same."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import oracle
from support.budget import share
from support.cases import Case
from support.memory import Batches, MemoryEngine, memory_engine
from support.oracle.groups import run_groups
from support.oracle.refreshes import run_refreshes
from support.strategies import cases, cut, cuts
from support.strategies.first import first_cases
from support.strategies.groups import group_cases
from test_law_groups import read
from test_law_refreshes import refreshed_cases

from stqsh.core.retention import object_retention
from stqsh.routing.cells import Cells
from stqsh.routing.table import HASHED, RoutingTable
from stqsh.spec.log import StreamRouted
from stqsh.storage.stream_routes import append_route

SLOTS = [1, 2, 3, 7]
BOUNDS = [(-1.0, -1.0, 1.0, 1.0), (0.0, 0.0, 4.0, 2.0), (-180.0, -90.0, 180.0, 90.0)]
FEATURES = {
    "rectangles": frozenset({"events"}),
    "circles": frozenset({"events", "circles", "nearest"}),
    "polygons": frozenset({"events", "polygons", "inside"}),
    "texts": frozenset({"events", "text", "expressions"}),
}

MOVING = {
    "rectangles": frozenset[str](),
    "shapes": frozenset({"circles", "polygons", "inside", "expressions"}),
    "nearest": frozenset({"nearest", "circles"}),
    "texts": frozenset({"text", "joins", "expressions"}),
    "dwell": frozenset({"dwell", "circles", "inside", "changes"}),
}


@st.composite
def tables(draw: st.DrawFn) -> RoutingTable:
    """Arbitrary tables, not only those that strategies make."""
    side = draw(st.sampled_from([1, 2, 4, 8]))
    slots = draw(st.integers(1, 9))
    leaves = draw(st.integers(1, 12))
    leaf = draw(st.lists(st.integers(0, leaves - 1), min_size=side * side, max_size=side * side))
    slot = draw(st.lists(st.integers(HASHED, slots - 1), min_size=leaves, max_size=leaves))
    if draw(st.integers(0, 3)) == 0:
        slot = [HASHED] * leaves
    bounds = draw(st.sampled_from(BOUNDS))
    cells = np.array(leaf, np.int32).reshape(side, side)
    return RoutingTable("grid", Cells(bounds, side), cells, np.array(slot, np.int16), slots)


def events(drawn: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    """Cases of event streams that have events."""
    return drawn.filter(lambda case: case.spec["kind"] == "event" and bool(case.records))


def movements(drawn: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    """Cases of moving streams that have records."""
    return drawn.filter(lambda case: case.spec["kind"] == "moving" and bool(case.records))


def remembering(drawn: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    """Cases with queries for which slots have to remember objects."""
    return movements(drawn).filter(
        lambda case: (
            any(query["options"].get("dwell_us") for query in case.queries)
            or any(command["op"] == "pause" for _, command in case.commands)
        )
    )


GROUPS = {
    **{name: group_cases(events(cases(features))) for name, features in FEATURES.items()},
    **{f"moving {name}": movements(group_cases(cases(features))) for name, features in MOVING.items()},
}
"""Cases of aggregates, of events and where objects cross."""
changes = st.dictionaries(st.integers(0, 8), tables(), max_size=4)
early = st.dictionaries(st.integers(0, 3), tables(), min_size=1, max_size=3)
restarts = st.sets(st.integers(0, 12), max_size=2)


def route(engine: MemoryEngine, case: Case, table: RoutingTable) -> None:
    append_route(engine.control, StreamRouted(case.spec["id"], strategy=table.strategy), table)


def run_under(
    engine: MemoryEngine, case: Case, batches: Batches, routes: dict[int, RoutingTable], again: set[int]
) -> None:
    """Run a case; before each batch in `routes` its routing changes, before each in `again` all restarts."""
    for number, (first, last) in enumerate(batches):
        if number in again:
            engine.restart(arena=number % 2 == 1)
        if number in routes:
            route(engine, case, routes[number])
        engine.take(first, last)


@share(6)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, st.sampled_from(SLOTS), changes, restarts)
def test_changes_of_the_routing_change_no_update(
    features: frozenset[str],
    data: st.DataObject,
    size: int | None,
    count: int,
    routes: dict[int, RoutingTable],
    again: set[int],
) -> None:
    case = data.draw(events(cases(features)))
    with memory_engine([case], count) as engine:
        run_under(engine, case, cut(case, size), routes, again)
        assert engine.delivered().updates == oracle.run(case)


@share(6)
@pytest.mark.parametrize("features", MOVING.values(), ids=MOVING)
@given(st.data(), cuts, st.sampled_from(SLOTS), changes, restarts)
def test_objects_that_cross_change_no_update(
    features: frozenset[str],
    data: st.DataObject,
    size: int | None,
    count: int,
    routes: dict[int, RoutingTable],
    again: set[int],
) -> None:
    case = data.draw(movements(st.one_of(cases(features), first_cases(cases(features)))))
    with mock.patch.object(object_retention, "_SPARE", -1), memory_engine([case], count) as engine:
        run_under(engine, case, cut(case, size), routes, again)
        delivered = engine.delivered()
    assert delivered.updates == oracle.run(case)
    assert delivered.stats["records"] == len(case.records)


@share(4)
@pytest.mark.parametrize("features", MOVING.values(), ids=MOVING)
@given(st.data(), cuts, st.sampled_from(SLOTS), early, restarts)
def test_what_is_remembered_of_objects_that_cross_changes_no_update(
    features: frozenset[str],
    data: st.DataObject,
    size: int | None,
    count: int,
    routes: dict[int, RoutingTable],
    again: set[int],
) -> None:
    case = data.draw(remembering(st.one_of(cases(features), first_cases(cases(features)))))
    with memory_engine([case], count) as engine:
        run_under(engine, case, cut(case, size), routes, again)
        delivered = engine.delivered()
    assert delivered.updates == oracle.run(case)
    assert delivered.stats["records"] == len(case.records)


@share(6)
@pytest.mark.parametrize("drawn", GROUPS.values(), ids=GROUPS)
@given(st.data(), cuts, st.sampled_from(SLOTS), changes, restarts)
def test_changes_of_the_routing_change_no_group(
    drawn: st.SearchStrategy[Case],
    data: st.DataObject,
    size: int | None,
    count: int,
    routes: dict[int, RoutingTable],
    again: set[int],
) -> None:
    case = data.draw(drawn)
    with memory_engine([case], count) as engine:
        run_under(engine, case, cut(case, size), routes, again)
        assert read(engine, case) == run_groups(case)


@share(4)
@given(st.data(), cuts, st.sampled_from(SLOTS), early, restarts)
def test_what_is_remembered_of_objects_that_cross_changes_no_group(
    data: st.DataObject, size: int | None, count: int, routes: dict[int, RoutingTable], again: set[int]
) -> None:
    case = data.draw(remembering(group_cases(cases(MOVING["nearest"]))))
    with memory_engine([case], count) as engine:
        run_under(engine, case, cut(case, size), routes, again)
        assert read(engine, case) == run_groups(case)


@share(6)
@given(
    movements(refreshed_cases(frozenset({"circles", "nearest"}))),
    cuts,
    st.sampled_from(SLOTS),
    changes,
    restarts,
)
def test_objects_that_cross_change_no_refresh(
    case: Case, size: int | None, count: int, routes: dict[int, RoutingTable], again: set[int]
) -> None:
    with memory_engine([case], count) as engine:
        run_under(engine, case, cut(case, size), routes, again)
        assert read(engine, case) == run_refreshes(case)


@share(6)
@given(refreshed_cases(frozenset({"events", "text"})), cuts, st.sampled_from(SLOTS), changes, restarts)
def test_changes_of_the_routing_change_no_refresh(
    case: Case, size: int | None, count: int, routes: dict[int, RoutingTable], again: set[int]
) -> None:
    assume(case.spec["kind"] == "event")
    with memory_engine([case], count) as engine:
        run_under(engine, case, cut(case, size), routes, again)
        assert read(engine, case) == run_refreshes(case)
