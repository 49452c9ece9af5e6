"""The kernel of LIMIT against sorting after every step."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stqsh.core.kernels.top_n.ranks import RankedChanges, TopNTerms, first_changes

BASE = 0
turns = st.lists(st.lists(st.integers(0, 9), unique=True, max_size=10), min_size=1, max_size=12)
"""The ranks whose members come, or leave if they are there, in steps 0, 1, 2, …"""


@given(st.lists(turns, max_size=3), st.integers(0, 11))
def test_changes_are_those_of_sorting_after_each_step(queries: list[list[list[int]]], limit: int) -> None:
    rows, expected = [], set()
    for q, steps in enumerate(queries):
        present: set[int] = set()
        first: set[int] = set()
        for step, ranks in enumerate(steps):
            rows += [(q, step, rank, -1 if rank in present else 1) for rank in ranks]
            present ^= set(ranks)
            now = set(sorted(present)[:limit])
            if step > BASE:
                expected |= {(q, step, rank, 1 if rank in now else -1) for rank in now ^ first}
            first = now
    table = np.array(rows, np.int64).reshape(-1, 4)
    start = np.searchsorted(table[:, 0], np.arange(len(queries) + 1))
    changes = RankedChanges(start, table[:, 1].copy(), table[:, 2].copy(), table[:, 3].astype(np.int8))
    sizes, limits = np.full(len(queries), 10), np.full(len(queries), limit)
    found = first_changes(changes, TopNTerms(sizes, limits, BASE))
    told = list(zip(*(column.tolist() for column in found), strict=True))
    assert len(told) == len(set(told))
    assert set(told) == expected
