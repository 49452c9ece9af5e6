"""The join kernels agree with brute force, wherever the grid lies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.events.versions import number
from stqsh.core.kernels.geometry.boxes import extended_boxes
from stqsh.core.kernels.index.object_grid import (
    BLOCK,
    ObjectGrid,
    blocks_for,
    fill_objects,
    move_object,
)
from stqsh.core.kernels.index.static_rects import build_rect_grid, cell_of
from stqsh.core.kernels.join.static_join import by_cell, join, join_in_order
from stqsh.core.regions import grid_layout as module
from stqsh.core.regions.grid_layout import frame_over, rect_lists

halves = st.integers(-6, 6).map(lambda n: n / 2)
maybe = st.one_of(halves, halves, halves, st.just(float("nan")), st.sampled_from([-1e9, 1e9]))
boxes = st.tuples(halves, halves, st.sampled_from([0, 0.5, 1, 6, np.inf]), st.sampled_from([0, 0.5, 1, 6]))


def events_of(places):
    ox, oy, nx, ny = np.array(places, np.float64).reshape(-1, 4).T.copy()
    ox[np.isnan(oy)], nx[np.isnan(ny)] = np.nan, np.nan
    oy[np.isnan(ox)], ny[np.isnan(nx)] = np.nan, np.nan
    number = np.arange(len(ox), dtype=np.int32)
    return Transitions(np.ones(len(ox), np.int64), number, number, number, ox, oy, nx, ny)


def places_in(cells):
    """The places of all objects, (objects, 2); NaN for those that are not there."""
    found, there = np.full((len(cells.slot), 2), np.nan), cells.slot > 0
    found[there] = cells.place.reshape(-1, 2)[cells.slot[there].astype(np.int64) - 1]
    return found


def inside(rects, x, y):
    return (rects[:, 0] <= x) & (x <= rects[:, 2]) & (rects[:, 1] <= y) & (y <= rects[:, 3])


@given(
    st.lists(st.tuples(maybe, maybe, maybe, maybe), max_size=30),
    st.lists(boxes, max_size=12),
    st.sampled_from([None, [-3.0, -3.0, 3.0, 3.0], [0.0, 0.0, 0.1, 0.1]]),
    st.integers(1, 40),
    st.sampled_from([0, 4, 10_000]),
)
def test_each_pair_comes_once(places, some, bounds, side, large):
    rects = np.array([[x, y, x + w, y + h] for x, y, w, h in some], np.float64).reshape(-1, 4)
    tag = np.arange(len(rects), dtype=np.int32) * 2 + np.arange(len(rects), dtype=np.int32) % 2
    events = events_of(places)
    frame = frame_over(rects[:, 0], rects[:, 1], side, bounds)
    pairs = join(events, frame, build_rect_grid(rects, tag, frame, large))
    want = set()
    for e in range(len(places)):
        was = inside(rects, events.ox[e], events.oy[e])
        now = inside(rects, events.nx[e], events.ny[e])
        for q in np.flatnonzero((was != now) | (was & (tag % 2 == 1))).tolist():
            want.add((e, q, int(was[q]) + 2 * int(now[q])))
    found = list(zip(*(column.tolist() for column in pairs), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == want


def test_regions_of_all_sizes_are_found_cell_by_cell_as_in_any_order():
    draw = np.random.default_rng(4)
    events = events_of(draw.random((3000, 4)))
    corners, side = draw.random((2000, 2)), 10 ** draw.uniform(-4, 0, (2000, 1))
    frame, lists = rect_lists(np.hstack([corners, corners + side]), np.arange(2000, dtype=np.int32) * 2)
    order, ordered = by_cell(events, frame)
    pairs, there = join_in_order(ordered, frame, lists), join_in_order(events, frame, lists)
    for given_, arranged in zip(events, ordered, strict=True):
        assert np.array_equal(given_[order], arranged)
    found = {*zip(order[pairs.event].tolist(), pairs.query.tolist(), pairs.flags.tolist(), strict=True)}
    assert found == {*zip(*(column.tolist() for column in there), strict=True)}
    assert found == {*zip(*(column.tolist() for column in join(events, frame, lists)), strict=True)}
    assert len(found) == len(pairs.event) == len(there.event)


def test_who_stays_in_a_cell_is_looked_at_only_with_regions_that_end_there():
    draw = np.random.default_rng(5)
    old = draw.random((2000, 2))
    events = events_of(np.hstack([old, old + draw.normal(0, 0.002, (2000, 2))]))
    corners, side = draw.random((2000, 2)) * 0.7, draw.uniform(0.2, 0.3, (2000, 1))
    rects, tag = np.hstack([corners, corners + side]), np.arange(2000, dtype=np.int32) * 2
    tag[::9] += 1
    frame, lists = rect_lists(rects, tag)
    partly, all_of_it = np.sum(lists.whole - lists.start[:-1]), np.sum(lists.start[1:] - lists.whole)
    assert 2 * all_of_it > partly
    was, now = (inside(rects, *place[:, :, None]) for place in (np.array(events[4:6]), np.array(events[6:8])))
    event, query = np.nonzero((was != now) | (was & now & (tag & 1 == 1)))
    pairs = join(events, frame, lists)
    found = {*zip(pairs.event.tolist(), pairs.query.tolist(), strict=True)}
    assert found == {*zip(event.tolist(), query.tolist(), strict=True)}
    assert len(found) == len(pairs.event)


def test_where_all_regions_are_alike_those_elsewhere_are_not_asked_about_them():
    rect = np.tile([0.5, 0.5, 0.5001, 0.5001], (1000, 1))
    frame, lists = rect_lists(rect, np.arange(1000, dtype=np.int32) * 2, [0.0, 0.0, 1.0, 1.0])
    cells = {cell_of(x, y, frame) for x in (0.1, 0.9) for y in (0.1, 0.9)}
    assert all(lists.start[cell] == lists.start[cell + 1] for cell in cells)


def test_codes_are_numbered_as_they_first_come():
    scratch = np.full(10, -1, np.int32)
    numbers, distinct = number(np.array([7, 3, 7, 9, 3]), scratch)
    assert numbers.tolist() == [0, 1, 0, 2, 1]
    assert distinct.tolist() == [7, 3, 9]
    assert (scratch == -1).all()


@given(st.lists(st.tuples(st.integers(0, 29), maybe, maybe), max_size=60), st.integers(1, 9))
def test_objects_are_in_the_cell_of_their_place(moves, side):
    frame = frame_over(np.array([-3.0, 3.0]), np.array([-3.0, 3.0]), side)
    fields = {"head": side * side, "size": side * side, "slot": 30, "next": blocks_for(30, side * side)}
    seats = fields["next"] * BLOCK
    lengths = {"owner": seats, "place": 2 * seats, "free": 2}
    kinds = {"place": np.float64, "free": np.int64}
    cells = ObjectGrid(**{f: np.zeros(n, kinds.get(f, np.int32)) for f, n in (fields | lengths).items()})
    places = np.where(np.arange(30) < 25, 0.0, np.nan)[:, None].repeat(2, 1)
    fill_objects(cells, *places.T.copy(), frame)
    for o, x, y in moves:
        places[o] = (np.nan, np.nan) if np.isnan(x + y) else (x, y)
        move_object(cells, o, *places[o], frame)
    assert np.array_equal(places_in(cells), places, equal_nan=True)
    listed = {}
    for cell, count in enumerate(cells.size.tolist()):
        block, taken = int(cells.head[cell]), (count - 1) % BLOCK + 1
        while block:
            for seat in range((block - 1) * BLOCK, (block - 1) * BLOCK + taken):
                listed[int(cells.owner[seat])] = cell
                assert cells.slot[cells.owner[seat]] == seat + 1
            block, taken = int(cells.next[block - 1]), BLOCK
    there = np.flatnonzero(~np.isnan(places[:, 0])).tolist()
    assert listed == {o: cell_of(*places[o], frame) for o in there}
    assert cells.size.sum() == len(there)


def test_heavy_tails_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(module, "MAX_ENTRIES", 5_000)
    corners = np.random.default_rng(1).random((1000, 2))
    size = np.where(np.arange(1000) % 3, 0.001, 0.2)[:, None]
    _, lists = rect_lists(np.hstack([corners, corners + size]), np.arange(1000, dtype=np.int32) * 2)
    assert len(lists.tag) < 10_000


@pytest.mark.parametrize("planar", [True, False])
def test_regions_are_those_of_the_formula(planar):
    import math

    draw = np.random.default_rng(5)
    x, y = draw.uniform(-180, 180, 500), draw.uniform(-89.9, 89.9, 500)
    w, h = draw.uniform(0, 9000, 500), draw.uniform(0, 9000, 500)
    found = extended_boxes(x, y, w, h, np.full(len(x), np.nan), planar)
    for i in range(500):
        dx, dy = w[i] / 2, h[i] / 2
        if not planar:
            dx = math.degrees(w[i] / 2 / (6371008.8 * math.cos(math.radians(y[i]))))
            dy = math.degrees(h[i] / 2 / 6371008.8)
        x1, x2 = x[i] - dx, x[i] + dx
        if not planar and (x1 <= -180 or x2 >= 180):  # it goes on at the other side
            x1, x2 = -math.inf, math.inf
        assert tuple(found[i]) == (x1, y[i] - dy, x2, y[i] + dy)
