"""The first law of queries with LIMIT: their updates are the oracle's, to the byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import memory, oracle
from support.budget import share
from support.crowds import limited_crowd
from support.strategies import cases, cut, cuts, restarts, slots
from support.strategies.top_n import top_n_cases

FEATURES = {
    "rectangles": frozenset(),
    "circles": frozenset({"circles", "nearest", "expressions"}),
    "polygons": frozenset({"polygons", "inside", "events"}),
    "around": frozenset({"around", "circles", "nearest"}),
    "texts": frozenset({"events", "text"}),
    "dwell": frozenset({"circles", "nearest", "events", "dwell"}),
    "joins": frozenset({"joins", "expressions", "text"}),
    "all": frozenset({"circles", "polygons", "inside", "events", "text", "joins", "expressions", "nearest"}),
}


@share(4)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, slots, restarts)
def test_updates_are_the_oracles(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case = data.draw(top_n_cases(cases(features)))
    expected = oracle.run(case)
    outcome = memory.run(case, count, cut(case, size), again)
    assert outcome.updates == expected
    sizes = {query: len(keys) for query, keys in oracle.fold(expected).items() if keys}
    assert {query: size for query, size in outcome.sizes.items() if size} == sizes


@pytest.mark.slow
@pytest.mark.parametrize("event", [False, True], ids=["objects", "events"])
def test_a_crowd_pushes_and_is_pushed_out(event: bool) -> None:
    case = limited_crowd(int(event), objects=150, queries=60, steps=16, event=event)
    expected = oracle.run(case)
    limited = {query["id"] for query in case.queries if query["kind"] == "first"}
    assert sum(u.why == "overtaken" and u.query in limited for u in expected) > 20
    for many, size in ((1, None), (3, 7), (7, 1)):
        updates = memory.run(case, many, cut(case, size), restarts={3}).updates
        assert len(updates) == len(expected)
        for told, right in zip(updates, expected, strict=True):
            assert oracle.alike(told, right), (told, right)
