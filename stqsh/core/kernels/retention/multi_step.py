"""Several steps of a stream of significant objects in a row: who is kept after each (SOLE section 5.3).

A record whose object has been forgotten is as that of a new object: it is never stale, and the place where
the object was before is not known any more. So which records count, and who is forgotten, is found together.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.kernels.events.transitions import (
    AcceptedRows,
    RowArrays,
    StoredArrays,
    Transitions,
    accept_row,
    expiry,
    first_of,
    room_for,
)
from stqsh.core.kernels.index.moving_boxes import lay
from stqsh.core.kernels.index.object_grid import ObjectGrid, move_object
from stqsh.core.kernels.index.static_rects import IS, WAS, GridFrame
from stqsh.core.kernels.jit import Array, Int, kernel
from stqsh.core.kernels.join.moving_join import end_of_step, pass_step, step_at
from stqsh.core.kernels.join.moving_params import (
    MovingJoinParams,
    MovingQueries,
    UnchangedObjects,
    ground_of,
    no_lone,
)
from stqsh.core.kernels.join.pair_buffer import PairBuffer, no_sightings


class MultiStepPlan(NamedTuple):
    """What is known before the first step.

    order: int64 (rows,), rows by step, those of a step in log order. counts: int32 (versions,), in how many
    regions that stand still the place of a version is, for rows, and for those objects as stored that do
    anything. focal: bool (objects,), who stays whoever asks. due_step int64 and due_version int32, (n,): when
    versions become too old, ascending by step.
    """

    order: Array
    counts: Array
    focal: Array
    due_step: Array
    due_version: Array


class MultiStepState(NamedTuple):
    """How things stand; moved on from step to step.

    version: int32 (objects,), -1 of those that are not kept. x, y: float64 (objects,), NaN: not present.
    event: int32 (objects,), where an object's latest event is. refs: int32 (objects,); held: int64
    (queries,), without regions that stand still. out: int64 (versions,), the step in which a version was
    forgotten, NEVER where it was not.
    """

    version: Array
    x: Array
    y: Array
    event: Array
    refs: Array
    held: Array
    out: Array


Source: TypeAlias = tuple[RowArrays, StoredArrays, BatchTiming]
Moving: TypeAlias = tuple[Transitions, ObjectGrid, MovingQueries, MovingJoinParams]
Span: TypeAlias = tuple[Int, Int]


@kernel
def go_through(
    source: Source, plan: MultiStepPlan, course: MultiStepState, accepted: AcceptedRows, moving: Moving
) -> tuple[Transitions, Int]:
    """Go through the steps; the events, and how many rows were stale.

    Events are as of `stqsh.core.kernels.events.transitions.build`, ascending by step, but that an object
    which is forgotten goes from where it is, and comes from nowhere when it reports again. accepted: of which
    the arrays are filled in; a row that is forgotten ends then. moving: turns of focal objects, the objects'
    cells, and regions that move, as before the first step; moved on, too.
    """
    rows, stored, _ = source
    turns, cells, movers, field = moving
    events = room_for(2 * len(rows.obj) + len(plan.due_step) + len(stored.known))
    homes, ground = lay(movers, field.lattice), ground_of(cells)
    changed, none = np.empty(len(movers.query), np.int32), np.int64(0)
    seen, used, lone = no_sightings(np.int64(1024)), none, no_lone(np.int64(256))
    i, j, d, k, number, stale = np.int64(0), np.int64(0), np.int64(0), np.int64(0), 0, 0
    while True:
        step = min(_step_of(rows.step, plan.order, i), step_at(turns, j), _due(plan, d))
        if step >= NEVER:
            break
        before, begin, first = i, k, d
        while _step_of(rows.step, plan.order, i) == step:
            i += 1
        while _due(plan, d) == step:
            d += 1
        turned, j = j, end_of_step(turns, j, step)
        stale += _accept(source, plan, (before, i), course, accepted)
        k = _arrive(source, (before, i), (plan, course, accepted), (events, k))
        k = _fade(rows, (first, d), (plan, course), step, (events, k))
        if len(movers.query):
            spans = (begin, k), (turned, j), (step, number)
            homes, (seen, used, lone, _) = pass_step(
                (events, turns), spans, (homes, ground, changed), (movers, field), (seen, none, lone, none)
            )
            _count((seen, used, lone), events, course)
        found = seen, used, lone
        k = _forget(found, (plan, course, accepted), (step, begin), (events, k), (cells, field.lattice))
        number += 1
    return first_of(events, k), stale


@kernel
def _step_of(steps: Array, order: Array, i: Int) -> Int:
    return steps[order[i]] if i < len(order) else np.int64(NEVER)


@kernel
def _due(plan: MultiStepPlan, d: Int) -> Int:
    return plan.due_step[d] if d < len(plan.due_step) else np.int64(NEVER)


@kernel
def _accept(
    source: Source, plan: MultiStepPlan, span: Span, course: MultiStepState, accepted: AcceptedRows
) -> Int:
    """Which of a step's rows count; how many are stale."""
    rows, stored, _ = source
    stale = 0
    for at in range(span[0], span[1]):
        stale += accept_row(plan.order[at], rows, stored, course.version, accepted)
    return stale


@kernel
def _happen(out: tuple[Transitions, Int], what: tuple[Int, Int, Int, Int], course: MultiStepState) -> Int:
    """Note an event at which an object goes from where it is; how many there are then."""
    events, k = out
    o = what[1]
    events.step[k], events.obj[k], events.old[k], events.new[k] = what
    events.ox[k], events.oy[k] = course.x[o], course.y[o]
    events.nx[k] = events.ny[k] = np.nan
    course.x[o] = course.y[o] = np.nan
    course.event[o] = k
    return k + 1


@kernel
def _arrive(
    source: Source,
    span: Span,
    what: tuple[MultiStepPlan, MultiStepState, AcceptedRows],
    out: tuple[Transitions, Int],
) -> Int:
    """Events of the step's rows that count; how many events there are then."""
    rows, stored, timing = source
    plan, course, accepted = what
    events, k = out
    known = len(stored.known)
    for at in range(span[0], span[1]):
        r = plan.order[at]
        if not accepted.live[r]:
            continue
        o, old = rows.obj[r], accepted.old[r]
        if not np.isnan(course.x[o]):
            course.refs[o] -= plan.counts[old]
        k = _happen((events, k), (rows.step[r], o, old, known + r), course)
        if expiry(rows.ts[r], timing) > rows.step[r] and not np.isnan(rows.x[r]):
            course.x[o], course.y[o] = rows.x[r], rows.y[r]
            course.refs[o] += plan.counts[known + r]
            events.nx[k - 1], events.ny[k - 1] = rows.x[r], rows.y[r]
    return k


@kernel
def _fade(
    rows: RowArrays,
    span: Span,
    what: tuple[MultiStepPlan, MultiStepState],
    step: Int,
    out: tuple[Transitions, Int],
) -> Int:
    """Events of objects whose records have become too old; how many events there are then."""
    plan, course = what
    events, k = out
    known = len(course.version)
    for d in range(span[0], span[1]):
        v = plan.due_version[d]
        o = v if v < known else rows.obj[v - known]
        if course.version[o] == v and not np.isnan(course.x[o]):
            course.refs[o] -= plan.counts[v]
            k = _happen((events, k), (step, np.int32(o), v, v), course)
    return k


@kernel
def _object_of(seen: PairBuffer, s: Int, lone: UnchangedObjects, events: Transitions) -> Int:
    """Whom a pair is about."""
    e = seen.event[s]
    return events.obj[e] if e >= 0 else lone.obj[-1 - e]


@kernel
def _count(
    found: tuple[PairBuffer, Int, UnchangedObjects], events: Transitions, course: MultiStepState
) -> None:
    """Add who came into regions that move, and take away who went out."""
    seen, used, lone = found
    for s in range(used):
        change = (seen.flags[s] & IS != 0) - (seen.flags[s] & WAS != 0)
        course.refs[_object_of(seen, s, lone, events)] += change
        course.held[seen.query[s]] += change


@kernel
def _forget(
    found: tuple[PairBuffer, Int, UnchangedObjects],
    what: tuple[MultiStepPlan, MultiStepState, AcceptedRows],
    when: tuple[Int, Int],
    out: tuple[Transitions, Int],
    ground: tuple[ObjectGrid, GridFrame],
) -> Int:
    """Forget those that something happened to and that nobody asks for any more; how many events there are.

    when: the step, and where its events begin.
    """
    (seen, used, lone), (events, k) = found, out
    for e in range(when[1], k):
        k = _let_go(events.obj[e], what, when, (events, k), ground)
    for s in range(used):
        o = _object_of(seen, s, lone, events)
        k = _let_go(o, what, when, (events, k), ground)
    return k


@kernel
def _let_go(
    o: Int,
    what: tuple[MultiStepPlan, MultiStepState, AcceptedRows],
    when: tuple[Int, Int],
    out: tuple[Transitions, Int],
    ground: tuple[ObjectGrid, GridFrame],
) -> Int:
    """Forget an object if nobody asks for it, or it is not present; how many events there are then."""
    plan, course, accepted = what
    events, k = out
    v, present = course.version[o], not np.isnan(course.x[o])
    if v < 0 or (present and (course.refs[o] != 0 or plan.focal[o])):
        return k
    if present and course.event[o] >= when[1]:
        e = course.event[o]
        events.nx[e] = events.ny[e] = course.x[o] = course.y[o] = np.nan
    elif present:
        k = _happen((events, k), (when[0], np.int32(o), v, v), course)
    if present and len(ground[0].slot):
        move_object(ground[0], o, np.nan, np.nan, ground[1])
    course.version[o] = -1
    course.out[v] = when[0]
    if v >= len(course.version):
        accepted.until[v - len(course.version)] = when[0]
    return k
