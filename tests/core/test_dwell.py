"""Dwelling: what is told once it has lasted, against a short reference, and what commands make of it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.slots import UNIT, Slot, register
from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.kernels.events.dwell_changes import DwellChanges, find_lasting


def reference(states, dwell):
    """When changes are told: states[i] is whether an object is a member after step i + 1, a step a second."""
    told, changed, out = False, None, []
    for step, state in enumerate(states, start=1):
        changed = None if state == told else changed or step
        if changed is not None and step * 1_000_000 >= changed * 1_000_000 + dwell:
            told, changed = state, None
            out.append((step, 1 if state else -1))
    return out


@given(
    st.lists(st.booleans(), min_size=1, max_size=20), st.sampled_from([1, 1_000_000, 2_000_001, 5_000_000])
)
def test_changes_are_told_once_they_have_lasted(states, dwell):
    before = [False, *states[:-1]]
    steps = [i for i, (old, new) in enumerate(zip(before, states, strict=True), start=1) if old != new]
    count = len(steps)
    op = np.array([1, -1] * count, np.int8)[:count]
    toggles = DwellChanges(
        np.zeros(count, np.int32), np.zeros(count, np.int32), np.array(steps, np.int64), op
    )
    timing = BatchTiming(1, len(states), 1, 1_000_000, -1)
    never = np.full(count, NEVER)
    ripe, due, _ = find_lasting(toggles, never, np.array([dwell]), np.array([NEVER]), timing)
    assert list(zip(due.tolist(), op[ripe].tolist(), strict=True)) == reference(states, dwell)


def dwelling(id_, us, **more):
    command = register(id_, UNIT, **more)
    return command | {"query": command["query"] | {"options": {"dwell_us": us}}}


IN, OUT = (0.5, 0.5), (9.0, 9.0)


def test_jitter_at_a_border_is_not_told():
    slot = Slot()
    moves = [IN, OUT, IN, IN, IN, OUT, IN, OUT, OUT, OUT]
    rows = [(n, "a", *place, n) for n, place in enumerate(moves, start=1)]
    assert slot.updates(1, 12, rows, [dwelling(7, 2_000_000)]) == [
        (5, 7, "+", "a", "none"),
        (10, 7, "-", "a", "left"),
    ]


def test_what_waits_goes_on_waiting_in_the_next_batch():
    slot = Slot()
    slot.batch(1, 1, [(1, "a", *IN, 1)], [dwelling(7, 3_000_000)])
    assert slot.updates(2, 3) == []
    assert slot.updates(4, 4) == [(4, 7, "+", "a", "none")]


def test_the_row_is_that_of_the_step_in_which_it_is_told():
    slot = Slot(report_every_us=5_000_000)
    asked = [dwelling(7, 2_000_000)]
    assert slot.updates(1, 4, [(1, "a", *IN, 1), (4, "a", *OUT, 4)], asked) == [(3, 7, "+", "a", "none")]
    assert slot.updates(5, 9, [(5, "a", None, None, 5)]) == [(5, 7, "-", "a", "gone")]


def test_only_what_leaves_waits_what_goes_away_does_not():
    slot = Slot(report_every_us=5_000_000)
    rows = [(1, "mute", *IN, 1), (1, "gone", *IN, 1), (4, "gone", None, None, 4), (5, "gone", *IN, 5)]
    assert slot.updates(1, 5, rows, [dwelling(7, 2_000_000)]) == [
        (3, 7, "+", "gone", "none"),
        (3, 7, "+", "mute", "none"),
        (4, 7, "-", "gone", "gone"),
    ]
    assert slot.updates(6, 8) == [(7, 7, "+", "gone", "none"), (7, 7, "-", "mute", "disconnected")]


def test_only_what_was_told_is_taken_back():
    slot = Slot()
    rows = [(1, "told", *IN, 1), (1, "going", *IN, 1), (4, "going", *OUT, 4), (4, "coming", *IN, 4)]
    slot.batch(1, 4, rows, [dwelling(7, 2_000_000)])
    drop = [{"op": "drop", "id": 7}]
    assert slot.updates(5, 5, commands=drop) == [
        (5, 7, "-", "going", "dropped"),
        (5, 7, "-", "told", "dropped"),
    ]
    assert not len(slot.state.array("s1/range/dwell/query"))


def test_a_query_that_ends_tells_nothing_more():
    slot = Slot()
    rows = [(1, "a", *IN, 1), (3, "b", *IN, 3), (4, "a", *OUT, 4)]
    assert slot.updates(1, 9, rows, [dwelling(7, 2_000_000, for_us=4_000_000)]) == [
        (3, 7, "+", "a", "none"),
        (5, 7, "-", "a", "ended"),
    ]


def test_a_query_resumed_in_the_step_of_its_pause_goes_on_counting():
    slot = Slot()
    slot.batch(1, 1, [(1, "a", *IN, 1)], [dwelling(7, 3_000_000)])
    again = [{"op": "pause", "id": 7}, {"op": "resume", "id": 7}]
    assert slot.updates(2, 4, commands=again) == [(4, 7, "+", "a", "none")]


def test_a_resumed_query_counts_anew():
    slot = Slot()
    slot.batch(1, 3, [(1, "a", *IN, 1), (3, "b", *IN, 3)], [dwelling(7, 2_000_000)])
    slot.batch(4, 4, [(4, "a", *OUT, 4)], [{"op": "pause", "id": 7}])
    assert slot.updates(5, 20, commands=[{"op": "resume", "id": 7}]) == [
        (7, 7, "+", "b", "none"),
        (7, 7, "-", "a", "left"),
    ]


def test_what_has_gone_away_meanwhile_is_taken_back_at_once_when_the_query_resumes():
    slot = Slot(report_every_us=5_000_000)
    told = slot.updates(1, 3, [(1, "a", *IN, 1)], [dwelling(7, 2_000_000)])
    assert told == [(3, 7, "+", "a", "none")]
    slot.batch(4, 4, [], [{"op": "pause", "id": 7}])
    slot.batch(5, 8)
    assert slot.updates(9, 12, [], [{"op": "resume", "id": 7}]) == [(9, 7, "-", "a", "disconnected")]
