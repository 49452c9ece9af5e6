"""NOW outside WHERE, and distances from moving objects: rows change as time passes, as the oracle says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share
from support.cases import Case
from support.group_updates import updates
from support.oracle.refreshes import run_refreshes
from support.strategies import cut, cuts, drawn_until, restarts, slots
from support.strategies.timely import timely_cases

pytestmark = pytest.mark.slow
FEATURES = {
    "rectangles": frozenset[str](),
    "circles": frozenset({"circles"}),
    "events": frozenset({"polygons", "inside", "events"}),
    "texts": frozenset({"events", "text"}),
    "neighbours": frozenset({"nearest", "events"}),
}


@share(4)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, slots, restarts)
def test_rows_change_as_time_passes(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case = data.draw(timely_cases(features))
    assert updates(case, count, cut(case, size), again) == run_refreshes(case)


@share(12, least=10)
@given(timely_cases(FEATURES["events"]), cuts, slots)
def test_the_end_refreshes_them_once_more(case: Case, size: int | None, count: int) -> None:
    # The end has a step of its own only where a query with SYNC lives.
    _, command = case.commands[0]
    form = command["query"]["aggregates"] | {"sync_us": 5 * case.clock.tick_us, "each_step": False}
    synced = command | {"query": command["query"] | {"id": 901, "name": "synced", "aggregates": form}}
    case = replace(case, commands=[(1, synced), *case.commands])
    assert updates(case, count, cut(case, size), ends=True) == run_refreshes(case, case.steps + 1)


@pytest.mark.hunt
def test_cases_bring_updates_that_time_alone_causes() -> None:
    def changed_by_time(case: Case) -> bool:
        busy = {step for step, _ in (*case.records, *case.commands)}
        return any(u.step not in busy and u.why == "changed" for u in run_refreshes(case))

    found: list[Case] = []

    def enough(newest: list[Case]) -> bool:
        found.extend(filter(changed_by_time, newest))
        return len(found) >= 8

    drawn_until(timely_cases(FEATURES["rectangles"]), enough)
    assert len(found) >= 8
