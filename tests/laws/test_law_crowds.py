"""The first law with hundreds of objects and queries, where grids, buffers and tables have to grow."""

from __future__ import annotations

import pytest
from support import memory, oracle
from support.crowds import crowd, crowd_of_kinds
from support.strategies import cut

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(3))
def test_a_crowd_gets_the_oracles_updates(seed: int) -> None:
    case = crowd(seed, objects=200, queries=120, steps=24, planar=seed != 2)
    expected = oracle.run(case)
    assert len(expected) > 1000
    for slots, size in ((1, None), (4, 7), (7, 1)):
        assert memory.run(case, slots, cut(case, size), restarts={3}).updates == expected


@pytest.mark.parametrize("event", [False, True], ids=["objects", "events"])
@pytest.mark.parametrize("seed", range(2))
def test_a_crowd_is_asked_in_all_ways(seed: int, event: bool) -> None:
    case = crowd_of_kinds(seed, objects=150, queries=90, steps=16, event=event)
    expected = oracle.run(case)
    assert len(expected) > 1000
    for slots, size in ((1, None), (4, 7), (7, 1)):
        updates = memory.run(case, slots, cut(case, size), restarts={3}).updates
        assert len(updates) == len(expected)
        for told, right in zip(updates, expected, strict=True):
            assert oracle.alike(told, right), (told, right)
