"""The first law of queries WITH (dwell => …): of regions, of neighbours, with LIMIT and changes, added up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import memory, oracle
from support.budget import share
from support.cases import Case
from support.group_updates import updates
from support.oracle.groups import run_groups
from support.oracle.refreshes import run_refreshes
from support.strategies import cases, cut, cuts, restarts, slots
from support.strategies.dwelling import dwelling_aggregates, dwelling_cases, held_cases
from support.strategies.groups import group_cases
from support.strategies.refreshes import refreshed_cases

FEATURES: dict[str, frozenset[str]] = {
    "regions": frozenset({"circles", "expressions"}),
    "neighbours": frozenset({"nearest", "expressions"}),
    "events": frozenset({"events", "text", "nearest"}),
    "joins": frozenset({"joins", "nearest", "circles", "polygons", "inside", "expressions"}),
}


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


HELD: dict[str, frozenset[str]] = {
    "objects": frozenset({"circles"}),
    "events": frozenset({"polygons", "inside", "events"}),
    "texts": frozenset({"events", "text", "nearest"}),
    "neighbours": frozenset({"nearest", "circles", "around"}),
    "joins": frozenset({"joins", "expressions", "nearest"}),
}


@pytest.mark.slow
@share(6)
@pytest.mark.parametrize("features", HELD.values(), ids=HELD)
@given(st.data(), cuts, slots, restarts)
def test_rows_that_are_held_are_added_up(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case = data.draw(dwelling_aggregates(features))
    assert updates(case, count, cut(case, size), again) == run_refreshes(case)


@pytest.mark.slow
@share(12, least=10)
@given(held_cases(refreshed_cases(HELD["texts"])), cuts, slots)
def test_the_end_refreshes_what_is_added_up(case: Case, size: int | None, count: int) -> None:
    assert updates(case, count, cut(case, size), ends=True) == run_refreshes(case, case.steps + 1)
