"""The first law of queries that change: after ALTER only the difference of the answers is sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import memory, oracle
from support.budget import share
from support.cases import Case
from support.examples import at, case, rect
from support.group_updates import updates
from support.oracle.groups import run_groups
from support.oracle.refreshes import run_refreshes
from support.strategies import cases, cut, cuts, restarts, slots
from support.strategies.altering import altered_cases
from support.strategies.dwelling import dwelling_aggregates, dwelling_cases
from support.strategies.groups import group_cases
from support.strategies.refreshes import refreshed_cases
from support.strategies.top_n import top_n_cases
from support.worked_kinds import dwelling

FEATURES = {
    "rectangles": frozenset[str](),
    "circles": frozenset({"circles", "expressions"}),
    "nearest": frozenset({"nearest", "circles", "text"}),
    "polygons": frozenset({"polygons", "inside", "events"}),
    "events": frozenset({"events", "text", "circles", "nearest"}),
    "forgotten": frozenset({"events", "forgotten", "text", "circles"}),
    "dwell": frozenset({"dwell", "circles", "events"}),
    "joins": frozenset({"joins", "expressions", "text"}),
}

DWELLING = {
    "circles": frozenset({"circles", "expressions"}),
    "neighbours": frozenset({"nearest", "text"}),
    "events": frozenset({"events", "circles", "nearest", "polygons", "inside"}),
}


def has_the_oracles_updates(case: Case, count: int, size: int | None, again: set[int]) -> None:
    expected = oracle.run(case)
    outcome = memory.run(case, count, cut(case, size), again)
    assert outcome.updates == expected
    if case.spec["keep_us"] != 0:
        sizes = {query: len(keys) for query, keys in oracle.fold(expected).items() if keys}
        assert {query: size for query, size in outcome.sizes.items() if size} == sizes


@share(6)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, slots, restarts)
def test_updates_are_the_oracles(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case = data.draw(altered_cases(cases(features), features))
    has_the_oracles_updates(case, count, size, again)


@share(6)
@pytest.mark.parametrize("name", ["circles", "nearest", "polygons", "events"])
@given(st.data(), cuts, slots, restarts)
def test_updates_of_queries_with_limit_are_the_oracles(
    name: str, data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case = data.draw(altered_cases(top_n_cases(cases(FEATURES[name])), FEATURES[name]))
    has_the_oracles_updates(case, count, size, again)


@share(6)
@pytest.mark.parametrize("name", ["circles", "nearest", "polygons", "events"])
@given(st.data(), cuts, slots, restarts)
def test_updates_of_groups_are_the_oracles(
    name: str, data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case = data.draw(altered_cases(group_cases(cases(FEATURES[name])), FEATURES[name]))
    assert updates(case, count, cut(case, size), again) == run_groups(case)


@share(6)
@pytest.mark.parametrize("features", DWELLING.values(), ids=DWELLING)
@given(st.data(), cuts, slots, restarts)
def test_updates_of_rows_that_dwell_are_the_oracles(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case = data.draw(altered_cases(dwelling_cases(features), features))
    has_the_oracles_updates(case, count, size, again)


@share(6)
@pytest.mark.parametrize("features", DWELLING.values(), ids=DWELLING)
@given(st.data(), cuts, slots, restarts)
def test_updates_of_groups_that_dwell_are_the_oracles(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case = data.draw(altered_cases(dwelling_aggregates(features), features))
    assert updates(case, count, cut(case, size), again) == run_refreshes(case)


@share(6)
@pytest.mark.parametrize("name", ["circles", "nearest", "events"])
@given(st.data(), cuts, slots, restarts)
def test_updates_of_refreshed_groups_are_the_oracles(
    name: str, data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case = data.draw(altered_cases(refreshed_cases(FEATURES[name]), FEATURES[name]))
    assert updates(case, count, cut(case, size), again) == run_refreshes(case)


def test_a_row_that_dwells_changes_in_the_step_in_which_its_region_does() -> None:
    command = dwelling(2, rect(0, 0, 1, 1), 1)
    command["query"]["options"]["changes"] = True
    command["query"]["select"] = [["x", ["col", "x"]]]
    other = {"op": "alter", "id": 2, "region": rect(0, 0, 2, 1), "condition": None, "areas": []}
    records = [(1, at("a", 0, 0, 0)), (5, at("a", 1, 0, 4)), (8, at("a", 2, 0, 7))]
    altered = case(10, [(1, command), (5, other)], records)
    told = memory.run(altered, 2, cut(altered, None)).updates
    changed = ["-", "+"]
    assert [(u.step, u.op) for u in told] == [(2, "+"), *((step, op) for step in (5, 8) for op in changed)]
    assert told == oracle.run(altered)
