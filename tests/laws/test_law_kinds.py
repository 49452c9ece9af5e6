"""The first law, kind by kind: circles, polygons, neighbours, events, keywords, joins, dwell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import memory, oracle
from support.budget import share
from support.cases import Case
from support.strategies import BATCHES, EVERY, SLOTS, cases, chosen, cut, cuts, sessions, slots
from support.worked_kinds import KINDS

FEATURES: dict[str, frozenset[str]] = {
    "circles": frozenset({"circles", "expressions"}),
    "polygons": frozenset({"polygons", "inside", "events"}),
    "neighbours": frozenset({"nearest"}),
    "neighbours among events": frozenset({"nearest", "events", "text"}),
    "around": frozenset({"around", "circles", "inside"}),
    "neighbours around": frozenset({"around", "nearest", "expressions"}),
    "texts": frozenset({"events", "text"}),
    "joins": frozenset({"joins", "expressions", "text"}),
    "dwell": frozenset({"dwell", "circles", "polygons", "events"}),
    "functions": frozenset({"expressions", "functions"}),
    "functions of events": frozenset({"events", "text", "expressions", "functions"}),
    "all": EVERY,
    "forgotten": frozenset({"events", "forgotten", "text", "circles", "expressions"}),
}


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@share(5)
@given(data=st.data(), size=cuts, count=slots, restarts=st.sets(st.integers(0, 12)), indexes=chosen)
def test_updates_are_the_oracles(
    features: frozenset[str],
    data: st.DataObject,
    size: int | None,
    count: int,
    restarts: set[int],
    indexes: dict[int, str | int],
) -> None:
    case: Case = data.draw(cases(features))
    agree(memory.run(case, count, cut(case, size), restarts, chosen=indexes), [case])


@share(10)
@given(sessions(EVERY), cuts, slots, st.sets(st.integers(0, 12)))
def test_two_streams_share_the_clock_and_nothing_else(
    both: list[Case], size: int | None, count: int, restarts: set[int]
) -> None:
    agree(memory.run(both, count, cut(both, size), restarts), both)


@share(10)
@given(cases(EVERY), cuts, st.sampled_from(SLOTS[1:]))
def test_neither_slots_nor_cuts_change_the_last_digit(case: Case, size: int | None, count: int) -> None:
    one = memory.run(case, SLOTS[0], cut(case, BATCHES[0]))
    assert memory.run(case, count, cut(case, size)).updates == one.updates


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("size", BATCHES)
def test_examples_worked_out_by_hand(name: str, size: int | None) -> None:
    example, expected = KINDS[name]
    for count in (1, 2):
        updates = memory.run(example, count, cut(example, size)).updates
        assert [(u.step, u.op, u.key, u.why) for u in updates] == expected


def agree(outcome: memory.Outcome, cases: list[Case]) -> None:
    """Raise AssertionError unless the updates and the sizes of the answers are the oracle's."""
    expected = oracle.in_log_order([update for case in cases for update in oracle.run(case)])
    assert len(outcome.updates) == len(expected)
    for told, right in zip(outcome.updates, expected, strict=True):
        assert oracle.alike(told, right), (told, right)
    forgotten = {query["id"] for case in cases if case.spec["keep_us"] == 0 for query in case.queries}
    folding = [update for update in expected if update.query not in forgotten]
    sizes = {query: len(keys) for query, keys in oracle.fold(folding).items() if keys}
    assert {query: size for query, size in outcome.sizes.items() if size} == sizes
