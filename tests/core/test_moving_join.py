"""Moving regions agree with brute force, whatever their sizes, and however often they move."""

from __future__ import annotations

import numpy as np
import pytest

from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.geometry.boxes import extended_boxes
from stqsh.core.kernels.index.moving_boxes import MovingQueries
from stqsh.core.kernels.index.object_grid import BLOCK, ObjectGrid, blocks_for, fill_objects
from stqsh.core.kernels.index.static_rects import IS, WAS, QueryLifetimes
from stqsh.core.kernels.join.moving_join import MovingJoin, MovingJoinParams, by_focal, join_moving
from stqsh.core.regions.grid_layout import frame_over

OBJECTS, FOCALS, MOVERS = 300, 40, 120


def walk(draw, places, share, far):
    """One step of a walk: who does something, and where everybody is then; some go, come, or leap."""
    acts = np.flatnonzero(draw.random(len(places)) < share)
    after = places.copy()
    after[acts] += draw.normal(0, far, (len(acts), 2))
    leaps = acts[draw.random(len(acts)) < 0.05]
    after[leaps] = draw.random((len(leaps), 2)) * 1.4 - 0.2
    after[acts[draw.random(len(acts)) < 0.05]] = np.nan
    back = acts[np.isnan(after[acts, 0]) & (draw.random(len(acts)) < 0.8)]
    after[back] = draw.random((len(back), 2))
    return acts, after


def events_of(steps):
    """Events of (step, who acts, places before, places after); versions are numbers of steps."""
    columns = []
    for step, acts, before, after in steps:
        now = np.full(len(acts), step)
        columns.append((now, acts, now - 1, now, before[acts].T, after[acts].T))
    step, obj, old, new = (np.concatenate([row[i] for row in columns]) for i in range(4))
    # In rows, as they come in a batch: kernels are compiled anew for columns.
    (ox, oy), (nx, ny) = (np.ascontiguousarray(np.hstack([row[i] for row in columns])) for i in (4, 5))
    return Transitions(step.astype(np.int64), *(c.astype(np.int32) for c in (obj, old, new)), ox, oy, nx, ny)


def inside(movers, focals, places):
    """Which objects each region holds; bool (movers, objects)."""
    centre = focals[movers["focal"]]
    far = np.abs(places[None] - centre[:, None])
    boxed = (far <= movers["half"][:, None]).all(axis=2)
    rounds = movers["radius"] >= 0
    boxed[rounds] = np.hypot(*np.moveaxis(far[rounds], 2, 0)) <= movers["radius"][rounds, None]
    return boxed & ~np.isnan(far).any(axis=2)


def drawn(draw):
    half = 2.0 ** -draw.integers(0, 12, (MOVERS, 1)) * draw.uniform(0.5, 1, (MOVERS, 2))
    radius = np.where(draw.random(MOVERS) < 0.2, half[:, 0], -1.0)
    half[0] = np.inf
    radius[0] = -1
    return {"focal": draw.integers(0, FOCALS, MOVERS).astype(np.int32), "half": half, "radius": radius}


def as_movers(some, focals, checked):
    x, y = focals[some["focal"]].T.copy()
    sides = 2 * some["half"][:, 0], 2 * some["half"][:, 1]
    sides = tuple(np.where(some["radius"] >= 0, 2 * some["radius"], side) for side in sides)
    nothing = np.full(MOVERS, np.nan)
    now = np.column_stack([extended_boxes(x, y, *sides, nothing, True), x, y])
    now[np.isnan(x), :4] = np.nan
    number, (start, member) = np.arange(MOVERS, dtype=np.int32), by_focal(some["focal"], FOCALS)
    own = np.where(number % 3 == 0, number, -1).astype(np.int32)
    return MovingQueries(
        number, own, *sides, nothing, some["radius"], checked, now, now.copy(), start, member
    )  # fmt: skip


def cells_of(places, frame):
    """The cells of a grid with objects in them."""
    count, blocks = frame.side**2, blocks_for(len(places), frame.side**2)
    lengths = (count, count, len(places), blocks, blocks * BLOCK, blocks * BLOCK * 2, 2)
    cells = ObjectGrid(*(np.zeros(n, kind) for n, kind in zip(lengths, "iiiiidl", strict=True)))
    fill_objects(cells, *places.T.copy(), frame)
    return cells


def expected(some, walked, checked, own):
    """The changes of answers, step by step: step, query, object, was and is as flags."""
    found = set()
    for step, acts, before, after, focals_before, focals_after in walked:
        was, now = inside(some, focals_before, before), inside(some, focals_after, after)
        acted = np.zeros(OBJECTS, np.bool_)
        acted[acts] = True
        told = (was != now) | (was & now & acted & checked[:, None])
        told[own >= 0, own[own >= 0]] = False
        flags = WAS * was + IS * now
        found |= {(step, int(q), int(o), int(flags[q, o])) for q, o in zip(*np.nonzero(told), strict=True)}
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("share", "far"), [(0.02, 0.003), (0.5, 0.02)])
def test_regions_gain_and_lose_what_brute_force_says(seed, share, far):
    draw = np.random.default_rng([seed, int(100 * share)])
    places, focals = draw.random((OBJECTS, 2)), draw.random((FOCALS, 2))
    some, checked = drawn(draw), draw.random(MOVERS) < 0.3
    frame = frame_over(places[:, 0], places[:, 1], 20, [0.1, 0.1, 0.9, 0.9])
    cells = cells_of(places, frame)
    movers = as_movers(some, focals, checked)
    walked = []
    for step in range(1, 61):
        (acts, after), (turns, turned) = walk(draw, places, share, far), walk(draw, focals, share, far)
        walked.append((step, acts, places, after, focals, turned, turns))
        places, focals = after, turned
    events = events_of([(step, acts, before, after) for step, acts, before, after, _, _, _ in walked])
    turns = events_of([(step, acts, before, after) for step, _, _, _, before, after, acts in walked])
    lives = QueryLifetimes(np.zeros(MOVERS, np.int64), np.full(MOVERS, 99))
    own = movers.own.copy()
    seen, lone = join_moving(MovingJoin(events, turns, movers, MovingJoinParams(frame, lives, True)), cells)
    objects = np.concatenate([events.obj, lone.obj[::-1]])[seen.event].tolist()
    steps = np.concatenate([events.step, lone.step[::-1]])[seen.event].tolist()
    found = list(zip(steps, seen.query.tolist(), objects, seen.flags.tolist(), strict=True))
    assert len(found) == len(set(found)) > 0
    assert set(found) == expected(some, [row[:6] for row in walked], checked, own)


def test_an_object_that_many_regions_come_upon_is_named_once_a_step():
    focals, places = np.array([[0.1, 0.1]]), np.array([[0.5, 0.5]])
    draw = np.random.default_rng(1)
    some = drawn(draw) | {"half": np.full((MOVERS, 2), 0.1), "focal": np.zeros(MOVERS, np.int32)}
    some["radius"][:] = -1
    frame = frame_over(places[:, 0], places[:, 1], 4, [0.0, 0.0, 1.0, 1.0])
    cells = cells_of(places, frame)
    movers = as_movers(some, focals, np.zeros(MOVERS, np.bool_))._replace(own=np.full(MOVERS, -1, np.int32))
    who, nobody = np.array([0]), np.array([], np.int64)
    turns = events_of([(1, who, focals, focals + 0.4), (2, who, focals + 0.4, focals)])
    events = events_of([(1, nobody, places, places)])
    lives = QueryLifetimes(np.zeros(MOVERS, np.int64), np.full(MOVERS, 99))
    seen, lone = join_moving(MovingJoin(events, turns, movers, MovingJoinParams(frame, lives, True)), cells)
    assert lone.step.tolist() == [1, 2]
    assert sorted(zip(seen.event.tolist(), seen.flags.tolist(), strict=True)) == sorted(
        [(-1, IS)] * MOVERS + [(-2, WAS)] * MOVERS
    )
