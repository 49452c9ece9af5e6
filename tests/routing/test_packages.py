"""Packages of a change: between them each cell has its old or its new owner, and no package is too large."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stqsh.routing.cells import Cells
from stqsh.routing.packages import MOST_PACKAGES, packages_of, table_between
from stqsh.routing.table import HASHED, RoutingTable, slots_of
from stqsh.routing.table_payload import Move, pack_table, unpack_move, unpack_table

BOUNDS = (0.0, 0.0, 8.0, 8.0)
_RNG = np.random.default_rng(3)
X, Y = _RNG.uniform(-1, 9, (2, 400))
HASHES = _RNG.integers(0, 1 << 63, 400).astype(np.uint64)
corners = st.tuples(*[st.floats(-1, 9)] * 4)


@st.composite
def tables(draw: st.DrawFn, least: int = HASHED) -> RoutingTable:
    slots, side = draw(st.integers(1, 4)), draw(st.sampled_from([1, 4, 8]))
    slot = draw(arrays(np.int16, side * side, elements=st.integers(least, slots - 1)))
    leaf = np.arange(side * side, dtype=np.int32).reshape(side, side)
    return RoutingTable("grid", Cells(BOUNDS, side), leaf, slot, slots)


def boxes_of(found: list[tuple[float, float, float, float]]) -> np.ndarray:
    boxes = np.array(found).reshape(-1, 4)
    return np.concatenate(
        [np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], axis=1
    )


def touched(table: RoutingTable, boxes: np.ndarray) -> np.ndarray:
    return np.pad(table.slots_touching(boxes), ((0, 0), (0, 4 - table.slots)))


@given(tables(), tables(), st.lists(corners, max_size=20), st.integers(1, 12))
def test_between_packages_each_record_has_its_old_or_its_new_slot(old, new, found, size) -> None:
    boxes = boxes_of(found)
    packages = packages_of(old, new, boxes, size)
    assert packages is not None
    before, after = (table.slots_of(X, Y, HASHES) for table in (old, new))
    more = slots_of(HASHES, max(old.slots, new.slots))  # cells dealt by hash are dealt over all slots
    table, known = old, touched(old, boxes)
    for cut, learned in zip(packages.cuts, packages.learned, strict=True):
        table = unpack_table(pack_table(table_between(table, new, cut)))
        slots = table.slots_of(X, Y, HASHES)
        assert ((slots == before) | (slots == after) | (slots == more)).all()
        known = known | touched(table, boxes)
        count = int((known & ~touched(old, boxes)).sum())
        assert count == learned or (count <= learned and (new.slot == HASHED).any())
    if packages.cuts and old.slots <= new.slots:
        assert (slots == after).all()


@given(tables(), tables(), st.lists(corners, max_size=40), st.integers(1, 12))
def test_no_slot_learns_of_a_query_that_is_not_in_its_package(old, new, found, size) -> None:
    boxes = boxes_of(found)
    packages = packages_of(old, new, boxes, size)
    assert packages is not None and len(packages.cuts) <= MOST_PACKAGES
    assert len(packages.queries) == max(len(packages.cuts), 1)
    stages = [table_between(old, new, cut) for cut in packages.cuts[:-1]]
    known = touched(old, boxes)
    for table, queries in zip([*stages, new], packages.queries, strict=True):
        learning = np.flatnonzero((touched(table, boxes) & ~known).any(axis=1))
        assert np.isin(learning, queries).all()
        known |= touched(table, boxes)
    missing = touched(new, boxes) & ~touched(old, boxes)
    if (new.slot >= 0).all() and (old.slot >= 0).all():
        assert (missing.sum() <= size) == (not packages.cuts) or len(packages.queries) == 1
        assert (np.unique(np.concatenate(packages.queries)) == np.flatnonzero(missing.any(axis=1))).all()


def test_a_change_of_many_queries_is_divided_evenly() -> None:
    rng = np.random.default_rng(1)
    low = rng.uniform(0, 8, (10_000, 2))
    boxes = np.concatenate([low, low + 0.01], axis=1)
    leaf = np.arange(256 * 256, dtype=np.int32).reshape(256, 256)
    cells, columns = Cells(BOUNDS, 256), np.tile(np.arange(256) // 64, 256)
    old = RoutingTable("grid", cells, leaf, columns.astype(np.int16), 4)
    new = old.with_owners((3 - columns).astype(np.int16))
    divided = packages_of(old, new, boxes, 1_000)
    assert divided is not None
    each = np.diff([0, *divided.learned])
    assert 10 <= len(each) <= 12 and each.max() <= 1_100 and each.sum() >= 10_000
    most, whole = packages_of(old, new, boxes, 1), packages_of(old, new, boxes, 50_000)
    assert most is not None and len(most.cuts) == MOST_PACKAGES
    assert whole is not None and not whole.cuts and len(whole.queries[0]) > 9_900


@pytest.mark.parametrize("slots", [2, 3])
def test_cells_dealt_by_hash_are_not_dealt_to_more_slots_at_once(slots: int) -> None:
    leaf = np.arange(16, dtype=np.int32).reshape(4, 4)
    new = RoutingTable("grid", Cells(BOUNDS, 4), leaf, (np.arange(16) % 3).astype(np.int16), 3)
    boxes = np.tile([0.0, 0.0, 8.0, 8.0], (5, 1))
    packages = packages_of(RoutingTable.by_object(slots), new, boxes, 1)
    assert packages is not None and not packages.cuts
    assert len(packages.queries[0]) == (5 if slots == 2 else 0)


@given(st.lists(st.sets(st.integers(1, 1 << 40), max_size=5), max_size=4), st.booleans())
def test_a_payload_keeps_what_moves(found: list[set[int]], has_goal: bool) -> None:
    leaf = np.arange(16, dtype=np.int32).reshape(4, 4)
    goal = RoutingTable("grid", Cells(BOUNDS, 4), leaf, (np.arange(16) % 3).astype(np.int16), 3)
    table, queries = RoutingTable.by_object(3), [np.array(sorted(some), np.int64) for some in found]
    assert unpack_move(pack_table(table)) is None
    move = unpack_move(pack_table(table, Move(queries, goal if has_goal else None)))
    assert move is not None and (move.goal is not None) == has_goal
    assert [some.tolist() for some in move.queries] == [some.tolist() for some in queries]
    assert move.goal is None or (move.goal.owners == goal.owners).all()
