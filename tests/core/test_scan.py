"""Scans over all objects list what numpy finds, whatever runs of them a box has."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stqsh.core.kernels.events.transitions import StoredArrays
from stqsh.core.kernels.index.scan import EVER, count_in_box, in_box


@given(st.data(), st.integers(0, 2**32 - 1), st.integers(0, 300) | st.integers(4000, 8300))
def test_the_objects_in_a_box_are_listed_in_order(data: st.DataObject, seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 4, (2, count)).astype(float)
    x[: data.draw(st.integers(0, count))] = data.draw(st.sampled_from([0.0, 9.0, np.nan]))
    ts = rng.integers(-1, data.draw(st.sampled_from([1, 3])), count)
    known = rng.random(count) < data.draw(st.sampled_from([0.5, 1.0]))
    stored, since = StoredArrays(x, y, ts, known), data.draw(st.integers(0, 2) | st.just(EVER))
    box = np.array(
        data.draw(st.sampled_from([(0, 0, 3, 3), (1, 1, 2, 3), (-np.inf, -np.inf, np.inf, np.inf)]))
    )
    x1, y1, x2, y2 = box.astype(float)
    inside = (x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2) & known & (ts >= since)
    found = in_box(stored, since, box.astype(float))
    assert found.dtype == np.int32
    assert found.tolist() == np.flatnonzero(inside).tolist()
    assert count_in_box(stored, since, box.astype(float)) == len(found)
