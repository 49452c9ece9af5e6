"""Positions: what a batch takes, how it is cut for workers, and what is gone."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from stqsh.sources.live.protocol import (
    MessageRange,
    SourceState,
    advance,
    gone,
    ranges,
    split,
    with_new_parts,
)

PARTS = st.dictionaries(st.sampled_from(["a/0", "a/1", "a/10", "b/2"]), st.integers(0, 50), min_size=1)


@given(PARTS, st.integers(1, 5), st.integers(1, 100))
def test_slices_are_the_ranges_in_order(sizes: dict[str, int], pieces: int, start: int) -> None:
    first = dict.fromkeys(sizes, start)
    wanted = ranges(first, {part: start + size for part, size in sizes.items()})
    cut = split(wanted, pieces)
    assert len(cut) <= pieces
    places = [(each.part, at) for piece in cut for each in piece for at in range(each.start, each.stop)]
    assert places == [(each.part, at) for each in wanted for at in range(each.start, each.stop)]
    counts = [sum(each.size for each in piece) for piece in cut]
    fair = sum(counts) / max(1, min(pieces, sum(counts)))
    assert not counts or max(counts) <= max(1.25 * fair, math.ceil(fair))


@given(PARTS, st.integers(1, 60))
def test_a_batch_takes_all_or_about_what_there_is_room_for(ends: dict[str, int], room: int) -> None:
    position = dict.fromkeys(ends, 0)
    after = advance(position, SourceState({}, ends), room)
    assert all(position[part] <= after[part] <= ends[part] for part in ends)
    assert sum(after.values()) <= room + len(ends)
    assert sum(after.values()) == sum(ends.values()) or sum(after.values()) >= min(room, 1)


def test_a_source_that_has_fewer_messages_than_before_stands_still() -> None:
    assert advance({"a/0": 9}, SourceState({}, {"a/0": 3}), 10) == {"a/0": 9}


def test_new_parts_begin_at_their_first_place_and_lost_ones_are_named() -> None:
    state = SourceState({"a/0": 5, "a/1": 2}, {"a/0": 9, "a/1": 4})
    assert with_new_parts({"a/0": 1}, state) == {"a/0": 1, "a/1": 2}
    assert gone({"a/0": 1, "a/1": 2}, state) == [MessageRange("a/0", 1, 5)]
