"""The newest update of each query and member."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stqsh.core.kernels.events.latest_updates import latest_updates

UPDATES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=60)


@given(UPDATES, st.randoms(use_true_random=False))
def test_of_each_query_and_member_the_newest_is_found(pairs, chance) -> None:
    times = list(range(len(pairs)))
    chance.shuffle(times)
    last: dict[tuple[int, int], int] = {}
    for (pair, time), number in zip(zip(pairs, times, strict=True), range(len(pairs)), strict=True):
        if pair not in last or time > times[last[pair]]:
            last[pair] = number
    query, member = (
        np.array([pair[i] for pair in pairs], kind) for i, kind in ((0, np.int64), (1, np.int32))
    )
    found = latest_updates(query, member, np.array(times, np.int64), 6)
    assert sorted(found.tolist()) == sorted(last.values())
    assert (np.diff(query[found]) >= 0).all()
