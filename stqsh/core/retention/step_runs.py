"""Evaluate runs of steps that contain only records as one piece of a batch.

After each step objects may be forgotten, and this determines whether the next step's records are new, moved
or stale. While retention follows from places alone, one kernel evaluates many steps and finds both
(`stqsh.core.kernels.retention.multi_step`); the query kinds then process all steps as they would without
retention. Commands, ends of queries, neighbours (circles follow from the previous step), DWELL and load
shedding need single steps, see `stqsh.core.retention.retention_step`.

Costs, relative to the same records of a stream that retains all objects (one slot, 100 000 objects, 1000
queries, within one run): 20 steps per batch with 5000 records each: 0.6 with static rectangles, 1.2 with
moving ones; with 1000 records each: 0.8 and 2.4; one step per batch: 1.4 and 1.5. The same in single steps:
4.3 and 5.0; 8.7 and 9.8; 2.0 and 2.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.contract.batch_pieces import BatchPiece, between, single_steps
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.events.transitions import Transitions, none_accepted, places_at
from stqsh.core.kernels.index.static_rects import GridFrame, QueryLifetimes
from stqsh.core.kernels.join.moving_join import MovingJoinParams
from stqsh.core.kernels.retention.multi_step import (
    BatchSource,
    MovingInput,
    MultiStepPlan,
    MultiStepState,
    evaluate_steps,
)
from stqsh.core.kinds import KINDS
from stqsh.core.matching.moving_index import ObjectCellStore, by_step_and_cell, lay_cells, movers_of
from stqsh.core.objects.batch_objects import BatchObjects, Removals, by_step, silent_from
from stqsh.core.queries.query_table import ACTIVE
from stqsh.core.retention.dropped_objects import dropped_count
from stqsh.core.retention.interest_counts import InterestTracker
from stqsh.core.retention.interest_table import InterestTable
from stqsh.core.retention.row_filter import drop_far_rows
from stqsh.core.state.retention_mode import memory_of
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.stream import StreamSpec


def cut_batch(state: SlotState, spec: StreamSpec, whole: BatchPiece) -> Iterator[BatchPiece]:
    """Cut a batch of a significant stream into pieces; yield each after the one before was processed.

    A step with commands is a separate piece, and so is each step in which queries end. The steps between them
    form one piece, or single steps if each step matters.
    """
    first, last = whole.timing.first, whole.timing.last
    if last < first:
        yield whole
        return
    if whole.commands.any:
        yield between(whole, first, first)
        first += 1
    if first > last:
        return
    rest = between(whole, first, last)
    if not can_run(state, spec.id):
        yield from single_steps(rest, partial(needs_quiet_steps, state, spec.id))
        return
    rest = drop_far_rows(state, spec, rest)
    until = InterestTable(state, spec.id).until
    for end in np.unique(until[(until >= first) & (until <= last)]).tolist():
        if first < end:
            yield between(rest, first, end - 1)
        yield between(rest, end, end)
        first = end + 1
    if first <= last:
        yield between(rest, first, last)


def can_run(state: SlotState, stream: int) -> bool:
    """Return whether retention follows only from places and from the objects that were kept before."""
    shed = memory_of(state, stream).k > 1 or dropped_count(state, stream) > 0
    return not (shed or _needs_each_step(state, stream))


def needs_quiet_steps(state: SlotState, stream: int) -> bool:
    """Return whether it matters in which of the steps without records an object is forgotten.

    It matters for kNN queries, because their circles follow from the previous step, and for changes that wait
    for `dwell`, because they depend on whether a record exists. It does not matter if no object is kept.
    """
    known = f"s{stream}/objects/known"
    if known not in state or not state.array(known).any():
        return False
    return _needs_each_step(state, stream)


def _needs_each_step(state: SlotState, stream: int) -> bool:
    """Return whether queries of some kind must be evaluated step by step."""
    used = [kind for kind in KINDS.values() if kind.is_used(state, stream)]
    return any(kind.needs_each_step(kind.queries(state, stream)) for kind in used)


def is_run(batch: StreamBatch) -> bool:
    """Return whether `evaluate_run` can evaluate a piece of a batch."""
    until = InterestTable(batch.state, batch.spec.id).until
    return (
        can_run(batch.state, batch.spec.id)
        and not batch.commands.any
        and not bool((until <= batch.timing.last).any())
    )


class ObjectArrivals(NamedTuple):
    """Places of versions: of stored objects with an event in the batch, then of all rows.

    Attributes:
        events: Arrivals at these places.
        versions: int32 (n,).
    """

    events: Transitions
    versions: Array


def evaluate_run(batch: StreamBatch, interest: InterestTracker) -> Array:
    """Evaluate a run of steps: update reference counts, and remove objects from the batch.

    Returns:
        The objects that are kept after the last step, bool (objects,).
    """
    objects, queries = batch.objects, interest.queries
    x, y = _places_before(objects)
    arrivals = _arrivals(objects, x, y)
    query, version = _at_rest(interest, arrivals)
    plan = _plan(interest, arrivals, np.bincount(version, minlength=objects.versions))
    course = MultiStepState(
        version=np.where(objects.stored.known, np.arange(len(x)), -1).astype(np.int32),
        x=x,
        y=y,
        event=np.full(len(x), -1, np.int32),
        refs=interest.refs,
        held=queries.held,
        out=np.full(objects.versions, NEVER),
    )
    before = course.version.copy(), ~np.isnan(x)
    accepted = none_accepted(len(objects.rows), len(x))
    source = BatchSource(*objects.sources, batch.timing)
    events, stale = evaluate_steps(source, plan, course, accepted, _moving(interest, arrivals.events))
    objects.set_course(accepted._replace(stale=int(stale)), events, Removals(course.out))
    kept: Array = ~np.isnan(course.x)
    signs = _counted(course.version, kept, objects.versions) - _counted(*before, objects.versions)
    change = np.bincount(query, weights=signs[version], minlength=len(queries))
    queries.held[:] += change.astype(np.int64)
    return kept


def _at_rest(interest: InterestTracker, arrivals: ObjectArrivals) -> tuple[Array, Array]:
    """Find the pairs of queries with static regions and the versions whose places are inside."""
    if not len(interest.queries):  # there may never have been a query
        return np.empty(0, np.int32), np.empty(0, np.int32)
    pairs, events, order = interest.still.join(arrivals.events)
    pairs = interest.context.filter_pairs(pairs, events)
    inside = pairs.flags != 0
    versions = arrivals.versions if order is None else arrivals.versions[order]
    return pairs.query[inside], versions[pairs.event[inside]]


def _places_before(objects: BatchObjects) -> tuple[Array, Array]:
    """Return the places of objects before the first step."""
    every = np.arange(len(objects.table), dtype=np.int32)
    versions = np.where(objects.stored.known, every, np.int32(-1))
    return places_at(versions, objects.timing.first - 1, *objects.sources, objects.timing)


def _arrivals(objects: BatchObjects, x: Array, y: Array) -> ObjectArrivals:
    rows, stored = objects.sources
    acting = np.zeros(len(x), np.bool_)
    acting[rows.obj] = True
    acting |= silent_from(stored.ts, objects.timing) <= objects.timing.last
    acting &= ~np.isnan(x)
    at = np.flatnonzero(acting).astype(np.int32)
    versions = np.concatenate([at, np.arange(len(x), objects.versions, dtype=np.int32)])
    count = len(versions)
    nowhere, none = np.full(count, np.nan), np.full(count, -1, np.int32)
    events = Transitions(
        step=np.full(count, objects.timing.last, np.int64),
        obj=np.concatenate([at, rows.obj]).astype(np.int32),
        old=none,
        new=versions,
        ox=nowhere,
        oy=nowhere,
        nx=np.concatenate([x[at], rows.x]),
        ny=np.concatenate([y[at], rows.y]),
    )
    return ObjectArrivals(events, versions)


def _plan(interest: InterestTracker, arrivals: ObjectArrivals, counts: Array) -> MultiStepPlan:
    objects = interest.batch.objects
    rows, stored = objects.sources
    versions = arrivals.versions
    known = len(stored.known)
    own = versions[versions < known]
    ends = np.concatenate([silent_from(stored.ts[own], objects.timing), silent_from(rows.ts, objects.timing)])
    begins = np.concatenate([np.full(len(own), objects.timing.first - 1), rows.step])
    due = np.flatnonzero((ends > begins) & (ends <= objects.timing.last))
    due = due[np.argsort(ends[due], kind="stable")]
    return MultiStepPlan(
        order=np.argsort(rows.step, kind="stable"),
        counts=counts.astype(np.int32),
        focal=interest.focals(),
        due_step=ends[due],
        due_version=versions[due],
    )


def _moving(interest: InterestTracker, arrivals: Transitions) -> MovingInput:
    """Return the input of the moving join; without moving regions it has no cells."""
    batch, queries = interest.batch, interest.queries
    at = np.flatnonzero((queries.focal >= 0) & (queries.mode == ACTIVE)).astype(np.int32)
    store = ObjectCellStore(batch, interest.prefix)
    if len(at):
        frame, cells = store.open(arrivals)
    else:
        store.release()
        frame = GridFrame(0.0, 0.0, 1.0, 1.0, 1)
        cells = lay_cells(SlotState.fresh(0), interest.prefix, frame, (np.empty(0), np.empty(0)))
    lives = QueryLifetimes(np.full(len(queries), batch.timing.first - 1), queries.until)
    turns = batch.focal.events if len(at) else by_step(batch.focal.events, np.empty(0, np.int64))
    turns = by_step(turns, by_step_and_cell(turns, batch.timing.first, frame))
    return MovingInput(
        turns,
        cells,
        movers_of(interest.context, at),
        MovingJoinParams(frame, lives, batch.spec.planar),
    )


def _counted(versions: Array, present: Array, size: int) -> Array:
    """Return 1 for each present version, 0 for others; (size,)."""
    out = np.zeros(size)
    out[versions[present]] = 1
    return out
