"""Numbers among distinct ones: by a table or by sorting, the places are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.core.aggregates.distinct_numbers import DistinctNumbers
from stqsh.core.groups.group_versions import PairIndex

NEAR = st.lists(st.integers(-50, 50))
FAR = st.lists(st.integers(-(1 << 40), 1 << 40))


@given(NEAR | FAR, NEAR | FAR)
def test_places_are_those_among_the_distinct_ones_in_order(some: list[int], wanted: list[int]) -> None:
    numbers = DistinctNumbers(np.array(some, np.int64))
    distinct = sorted(set(some))
    assert numbers.values.tolist() == distinct
    expected = [distinct.index(one) if one in distinct else -1 for one in wanted]
    assert numbers.find(np.array(wanted, np.int64)).tolist() == expected


@pytest.mark.parametrize("apart", [1, 1 << 20])
def test_groups_are_in_the_order_of_queries_and_keys(apart: int) -> None:
    query = np.array([7, 3, 7, 3, 3], np.int64) * apart
    key = np.array([1, 5, 0, 5, 2], np.int32) * apart
    groups = PairIndex(query, key)
    found = [(int(q), int(k)) for q, k in zip(groups.query, groups.key, strict=True)]
    assert found == sorted({(int(q), int(k)) for q, k in zip(query, key, strict=True)})
    assert groups.find(query, key).tolist() == [3, 1, 2, 1, 0]
    strangers = groups.find(np.array([3, 4, 7]) * apart, np.array([0, 5, 9]) * apart)
    assert strangers.tolist() == [-1, -1, -1]
