"""NOW at any place of a query: its updates are the oracle's also where no record comes for many steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import memory, oracle
from support.budget import share
from support.group_updates import updates
from support.oracle.refreshes import run_refreshes
from support.strategies import cases, cut, cuts, restarts, slots
from support.strategies.groups import group_cases
from support.strategies.turning import restless_cases, restless_groups, restless_rows

FEATURES = {
    "objects": frozenset({"circles", "nearest"}),
    "events": frozenset({"events", "text", "polygons", "inside", "nearest"}),
    "around": frozenset({"around", "circles", "nearest"}),
    "joins": frozenset({"joins", "expressions", "nearest"}),
}


@share(2)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, slots, restarts)
def test_rows_follow_the_clock(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case = data.draw(restless_cases(cases(features), restless_rows))
    assert memory.run(case, count, cut(case, size), again).updates == oracle.run(case)


@share(2)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, slots, restarts)
def test_groups_follow_the_clock(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case = data.draw(restless_cases(group_cases(cases(features)), restless_groups))
    assert updates(case, count, cut(case, size), again) == run_refreshes(case)
