"""The first law of aggregates that follow every step: their updates are the oracle's, to the byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share
from support.group_updates import updates
from support.oracle.groups import run_groups
from support.strategies import cases, chosen, cut, cuts, restarts, slots
from support.strategies.groups import FEATURES, group_cases


@share(6)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, slots, restarts, chosen)
def test_updates_of_groups_are_the_oracles(
    features: frozenset[str],
    data: st.DataObject,
    size: int | None,
    count: int,
    again: set[int],
    indexes: dict[int, str | int],
) -> None:
    case = data.draw(group_cases(cases(features)))
    assert updates(case, count, cut(case, size), again, chosen=indexes) == run_groups(case)


@share(6)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, slots, restarts)
def test_groups_that_show_equal_values_are_one_row_of_a_distinct_query(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case = data.draw(group_cases(cases(features), distinct=True))
    assert updates(case, count, cut(case, size), again) == run_groups(case)
