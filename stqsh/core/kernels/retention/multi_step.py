"""Evaluate several steps of a stream of significant objects at once (SOLE section 5.3).

A record of a forgotten object is like that of a new object: it is never stale, and the object's previous
place is unknown. So one kernel finds both which records count and which objects are forgotten. Invariant:
after each step the state holds exactly the objects that some query needs, as if each step were a piece of its
own. The cost follows the rows, the expiring records and the pairs of the moving join, not the number of
objects.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.kernels.events.transitions import (
    AcceptedRows,
    RowArrays,
    StoredArrays,
    Transitions,
    accept_row,
    ages_of,
    expiry,
    first_of,
    room_for,
)
from stqsh.core.kernels.geometry.shapes import IndexRange
from stqsh.core.kernels.index.moving_boxes import MovingQueries
from stqsh.core.kernels.index.object_grid import ObjectGrid, move_object
from stqsh.core.kernels.index.static_rects import IS, WAS
from stqsh.core.kernels.jit import Int, kernel
from stqsh.core.kernels.join.moving_join import (
    JoinOutput,
    JoinStep,
    MovingJoin,
    MovingJoinParams,
    begin_join,
    empty_output,
    end_of_step,
    join_step,
    step_at,
)


class MultiStepPlan(NamedTuple):
    """The data that is known before the first step.

    Attributes:
        order: Rows by step, and by log order within a step, int64 (rows,).
        counts: The number of static regions that hold the place of a version, for rows and for stored objects
            that have an event; int32 (versions,).
        focal: Objects that always stay, bool (objects,).
        due_step: The steps in which versions expire, int64 (n,), ascending.
        due_version: These versions, int32 (n,).
    """

    order: Array
    counts: Array
    focal: Array
    due_step: Array
    due_version: Array


class MultiStepState(NamedTuple):
    """The state of objects and queries, updated from step to step.

    Attributes:
        version: int32 (objects,), -1 for objects that are not kept.
        x, y: float64 (objects,), NaN if not present.
        event: The position of an object's latest event, int32 (objects,).
        refs: The number of queries that need each object, int32 (objects,).
        held: The number of objects in each query's region, int64 (queries,), without static regions.
        out: The step in which a version was forgotten, NEVER if it was not; int64 (versions,).
    """

    version: Array
    x: Array
    y: Array
    event: Array
    refs: Array
    held: Array
    out: Array


class BatchSource(NamedTuple):
    """The rows of a batch, the objects as stored before it, and its clock."""

    rows: RowArrays
    stored: StoredArrays
    timing: BatchTiming


class MovingInput(NamedTuple):
    """Focal transitions, the cells of objects, and moving queries, as they are before the first step."""

    turns: Transitions
    cells: ObjectGrid
    movers: MovingQueries
    params: MovingJoinParams


class _Run(NamedTuple):
    """The data that steps read and update; `events` has space for all events."""

    source: BatchSource
    plan: MultiStepPlan
    state: MultiStepState
    accepted: AcceptedRows
    events: Transitions
    moving: MovingInput


@kernel
def evaluate_steps(
    source: BatchSource,
    plan: MultiStepPlan,
    state: MultiStepState,
    accepted: AcceptedRows,
    moving: MovingInput,
) -> tuple[Transitions, Int]:
    """Evaluate all steps of a batch, and return its events and the number of stale rows.

    Events equal those of `stqsh.core.kernels.events.transitions.build`, ascending by step, with one
    difference: a forgotten object leaves from its current place, and arrives from no place when it reports
    again.

    Args:
        source: The batch.
        plan: What is known before the first step.
        state: The state before the first step; updated.
        accepted: Its arrays are filled; a forgotten row ends in the step in which it is forgotten.
        moving: The input of the moving join; updated.
    """
    rows, events = source.rows, room_for(_most_events(source, plan))
    run = _Run(source, plan, state, accepted, events, moving)
    join = MovingJoin(events, moving.turns, moving.movers, moving.params)
    joined, out = begin_join(moving.movers, moving.cells, moving.params.frame), empty_output()
    none, number, stale = np.int64(0), np.int64(0), np.int64(0)
    i, j, d, k = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while True:
        step = min(_step_of(rows.step, plan.order, i), step_at(moving.turns, j), _due_step(plan, d))
        if step >= NEVER:
            break
        row, due, turned, begin = i, d, j, k
        while _step_of(rows.step, plan.order, i) == step:
            i += 1
        while _due_step(plan, d) == step:
            d += 1
        j = end_of_step(moving.turns, j, step)
        stale += _accept(run, IndexRange(row, i))
        k = _arrive(run, IndexRange(row, i), k)
        k = _expire(run, IndexRange(due, d), step, k)
        if len(moving.movers.query):
            now = JoinStep(step, number, IndexRange(begin, k), IndexRange(turned, j))
            out = JoinOutput(out.pairs, none, out.unchanged, none)
            joined, out = join_step(join, now, joined, out)
            _count(run, out)
        k = _forget(run, out, step, begin, k)
        number += 1
    return first_of(events, k), stale


@kernel
def _most_events(source: BatchSource, plan: MultiStepPlan) -> Int:
    """Return an upper bound of the number of events."""
    return 2 * len(source.rows.obj) + len(plan.due_step) + len(source.stored.known)


@kernel
def _step_of(steps: Array, order: Array, i: Int) -> Int:
    return steps[order[i]] if i < len(order) else np.int64(NEVER)


@kernel
def _due_step(plan: MultiStepPlan, d: Int) -> Int:
    return plan.due_step[d] if d < len(plan.due_step) else np.int64(NEVER)


@kernel
def _accept(run: _Run, span: IndexRange) -> Int:
    """Accept or reject a step's rows, and return how many are stale."""
    rows, stored, version, stale = run.source.rows, run.source.stored, run.state.version, 0
    for at in range(span.begin, span.end):
        stale += accept_row(run.plan.order[at], rows, stored, version, run.accepted)
    return stale


@kernel
def _add_departure(run: _Run, step: Int, obj: Int, old: Int, new: Int, k: Int) -> Int:
    """Add an event in which an object leaves its place, and return the number of events."""
    events, state = run.events, run.state
    events.step[k], events.obj[k], events.old[k], events.new[k] = step, obj, old, new
    events.ox[k], events.oy[k] = state.x[obj], state.y[obj]
    events.nx[k] = events.ny[k] = np.nan
    state.x[obj] = state.y[obj] = np.nan
    state.event[obj] = k
    return k + 1


@kernel
def _arrive(run: _Run, span: IndexRange, k: Int) -> Int:
    """Add the events of the step's accepted rows, and return the number of events."""
    rows, stored, timing = run.source
    plan, state, accepted, events = run.plan, run.state, run.accepted, run.events
    known, ages, (floor_steps, floors) = len(stored.known), ages_of(timing), timing.floors
    for at in range(span.begin, span.end):
        r = plan.order[at]
        if not accepted.live[r]:
            continue
        o, old = rows.obj[r], accepted.old[r]
        if not np.isnan(state.x[o]):
            state.refs[o] -= plan.counts[old]
        k = _add_departure(run, rows.step[r], o, old, known + r, k)
        if expiry(rows.ts[r], ages, floor_steps, floors) > rows.step[r] and not np.isnan(rows.x[r]):
            state.x[o], state.y[o] = rows.x[r], rows.y[r]
            state.refs[o] += plan.counts[known + r]
            events.nx[k - 1], events.ny[k - 1] = rows.x[r], rows.y[r]
    return k


@kernel
def _expire(run: _Run, span: IndexRange, step: Int, k: Int) -> Int:
    """Add the events of objects whose records expire, and return the number of events."""
    rows, plan, state = run.source.rows, run.plan, run.state
    known = len(state.version)
    for d in range(span.begin, span.end):
        v = plan.due_version[d]
        o = v if v < known else rows.obj[v - known]
        if state.version[o] == v and not np.isnan(state.x[o]):
            state.refs[o] -= plan.counts[v]
            k = _add_departure(run, step, np.int32(o), v, v, k)
    return k


@kernel
def _object_of(out: JoinOutput, pair: Int, events: Transitions) -> Int:
    """Return the object of a pair."""
    e = out.pairs.event[pair]
    return events.obj[e] if e >= 0 else out.unchanged.obj[-1 - e]


@kernel
def _count(run: _Run, out: JoinOutput) -> None:
    """Count the objects that entered and that left moving regions."""
    pairs, state = out.pairs, run.state
    for s in range(out.used):
        change = (pairs.flags[s] & IS != 0) - (pairs.flags[s] & WAS != 0)
        state.refs[_object_of(out, s, run.events)] += change
        state.held[pairs.query[s]] += change


@kernel
def _forget(run: _Run, out: JoinOutput, step: Int, begin: Int, k: Int) -> Int:
    """Forget the objects of the step's events and pairs that no query needs; return the number of events.

    The step's events are those from `begin` to before `k`.
    """
    for e in range(begin, k):
        k = _forget_object(run, run.events.obj[e], step, begin, k)
    for s in range(out.used):
        k = _forget_object(run, _object_of(out, s, run.events), step, begin, k)
    return k


@kernel
def _forget_object(run: _Run, o: Int, step: Int, begin: Int, k: Int) -> Int:
    """Forget an object if no query needs it, or it is not present; return the number of events."""
    events, state, cells = run.events, run.state, run.moving.cells
    v, present = state.version[o], not np.isnan(state.x[o])
    if v < 0 or (present and (state.refs[o] != 0 or run.plan.focal[o])):
        return k
    if present and state.event[o] >= begin:
        e = state.event[o]
        events.nx[e] = events.ny[e] = state.x[o] = state.y[o] = np.nan
    elif present:
        k = _add_departure(run, step, np.int32(o), v, v, k)
    if present and len(cells.slot):
        move_object(cells, o, np.nan, np.nan, run.moving.params.frame)
    state.version[o] = -1
    state.out[v] = step
    if v >= len(state.version):
        run.accepted.until[v - len(state.version)] = step
    return k
