"""The members of queries at a refresh, as of its instant, and their changes from refresh to refresh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.aggregates.states import States
from stqsh.core.base.clock import NEVER
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.groups.group_deltas import GroupDeltas, MemberChanges
from stqsh.core.groups.refresh_schedule import DueQueries, timing_at
from stqsh.core.kernels.events.transitions import Transitions, places_after, places_around, places_at
from stqsh.core.kernels.events.updates import LEFT, reasons
from stqsh.core.kernels.events.versions import gather
from stqsh.core.kernels.geometry.shapes import Box
from stqsh.core.kernels.index.static_rects import CandidatePairs
from stqsh.core.kernels.jit import frozen
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.query_context import QueryContext, context_of
from stqsh.core.objects.batch_objects import BatchObjects, ObjectPlaces
from stqsh.core.queries.query_table import QueryTable
from stqsh.spec.aggregate import AggregateSpec

FIRST_PORTION = 1 << 14
"""The number of queries in the first portion."""

PORTION = 1 << 23
"""The approximate number of members found at a time; each takes about 100 bytes until it is added up."""


class ObjectsAsOf(BatchObjects):
    """The objects of a batch as a refresh sees them; its instant decides which are present."""

    def __init__(self, objects: BatchObjects, due: DueQueries) -> None:
        self.table, self.rows, self.stored = objects.table, objects.rows, objects.stored
        self.sources, self.numbers, self.versions = objects.sources, objects.numbers, objects.versions
        self.removals = objects.removals
        self.timing = timing_at(objects.timing, due.refresh, due.seen)
        self._places, self.coded_columns = {}, objects.coded_columns
        self._objects, self._seen, self._instant = objects, due.seen, due.refresh.instant

    def at(self, step: int) -> ObjectPlaces:
        """Return all objects as of the instant; `step` is that of the refresh."""
        if step not in self._places:
            versions = self._objects.versions_at(self._seen)
            x, y = places_at(versions, step, self.rows.arrays, self.stored, self.timing)
            gone = self.removals.cover(versions, self._seen)
            x[gone] = y[gone] = np.nan
            self._places = {step: ObjectPlaces(versions, x, y)}
        return self._places[step]

    def around(self, box: Box) -> ObjectPlaces:
        """Return the objects that are in a box as of the instant."""
        versions = self._objects.versions_at(self._seen)
        gone = self.removals.cover(versions, self._seen)
        if gone.any():
            versions = np.where(gone, np.int32(-1), versions)
        step, sources = self.timing.first, (self.rows.arrays, self.stored)
        return ObjectPlaces(*places_around(frozen(versions), box, step, *sources, self.timing))

    def places(self, objects: Array, steps: Array) -> tuple[Array, Array]:
        """Return the place of each object as of the instant, float64 (n,) each; NaN if it is not present."""
        versions = self.versions_after(objects, steps)
        x, y = places_after(versions, steps.astype(np.int64), *self.sources, self.timing)
        gone = self.removals.cover(versions, self._seen)
        x[gone] = y[gone] = np.nan
        return x, y

    def versions_after(self, objects: Array, steps: Array) -> Array:
        """Return each object's version as the refresh sees it; each of `steps` is the step of the refresh."""
        return self._objects.versions_after(objects, np.full(len(objects), self._seen))

    def reasons(self, versions: Array, objects: Array, steps: Array) -> tuple[Array, Array]:
        """Return why objects left, and what to show, as of the instant; each of `steps` is the refresh's."""
        why, show = reasons(np.maximum(versions, 0), steps, self.sources, self.timing), versions
        why[versions < 0] = LEFT
        if self.removals.why is not None:
            removed = self.removals.cover(versions, self._seen) & (why == LEFT)
            why[removed] = self.removals.why[objects[removed]]
        return why, self.numbers.or_keys(show, objects)

    def are_too_old(self, versions: Array, window_us: Array) -> Array:
        """Return whether versions are older than their windows, -1 for no window; bool (n,)."""
        known = (versions >= 0) & (versions < self.versions) & (window_us >= 0)
        times = times_of(self, np.where(known, versions, 0)) if known.any() else np.zeros(len(versions))
        return known & (times < self._instant - window_us)

    def within(self, versions: Array, window_us: Array) -> Array:
        """Return whether versions lie in the windows before the instant; bool (n,).

        `window_us`, int64 (n,), is the length of each version's window; -1 for none.
        """
        times = times_of(self, versions)
        inside: Array = (window_us < 0) | ((times >= self._instant - window_us) & (times < self._instant))
        return inside


def times_of(objects: BatchObjects, versions: Array) -> Array:
    """Return the times of versions' records, µs, int64 (n,)."""
    times: Array = np.concatenate([objects.stored.ts[: objects.numbers.objects], objects.rows.arrays.ts])
    return times[versions]


def context_as_of(
    batch: StreamBatch, objects: ObjectsAsOf, queries: QueryTable, prefix: str, due: DueQueries
) -> QueryContext:
    """Return the context of the one step of a refresh."""
    focal = ObjectsAsOf(batch.focal, due)
    as_of = replace(batch, timing=objects.timing, objects=objects, focal=focal)
    return context_of(as_of, queries, QueryConditions(batch.state, prefix, queries, objects, focal), prefix)


class EventsAsOf(BatchObjects):
    """The events of a batch, with the reasons for leaving an answer as of the instants of refreshes.

    Events never change, so each has the same record at all refreshes.
    """

    def __init__(self, objects: BatchObjects, dues: Sequence[DueQueries]) -> None:
        self.table, self.rows, self.stored = objects.table, objects.rows, objects.stored
        self.sources, self.numbers, self.versions = objects.sources, objects.numbers, objects.versions
        self.removals, self.timing, self._places = objects.removals, objects.timing, {}
        self.coded_columns = objects.coded_columns
        self.events = objects.events
        self._steps = np.array([due.refresh.step for due in dues])
        self._instants = np.array([due.refresh.instant for due in dues])
        self._floors = self.timing.floors.at(np.array([due.seen for due in dues]))

    def reasons(self, versions: Array, objects: Array, steps: Array) -> tuple[Array, Array]:
        """Return why events left at refreshes, given by their steps, and what to show."""
        lasts = np.full(len(versions), self.timing.report)
        late = self.are_too_old(versions, lasts, steps) | self._are_below_floors(versions, steps)
        why = np.where(late, self.timing.silent, LEFT).astype(np.int8)
        return why, self.numbers.or_keys(versions, objects)

    def _are_below_floors(self, versions: Array, steps: Array) -> Array:
        """Return whether versions are older than the floors at refreshes, given by step; bool (n,)."""
        floors = self._floors[np.searchsorted(self._steps, steps)]
        below: Array = (versions >= 0) & (times_of(self, np.maximum(versions, 0)) < floors)
        return below

    def are_too_old(self, versions: Array, ages_us: Array, steps: Array) -> Array:
        """Return whether versions exceed ages at refreshes, given by step; -1 for no age; bool (n,)."""
        instants = self._instants[np.searchsorted(self._steps, steps)]
        known = (versions >= 0) & (ages_us >= 0)
        late: Array = known & (times_of(self, np.maximum(versions, 0)) < instants - ages_us)
        return late


class RefreshedMembers:
    """Finds the members of queries at one refresh of a batch.

    Attributes:
        refresh: The refresh.
        objects: The objects as of its instant.
        context: The context of its one step.
        deltas: Adds up members.
    """

    def __init__(self, batch: StreamBatch, queries: QueryTable, prefix: str, due: DueQueries) -> None:
        self.refresh = refresh = due.refresh
        self.objects = objects = ObjectsAsOf(batch.objects, due)
        self.context = context_as_of(batch, objects, queries, prefix, due)
        records, timing, now_us = self.context.conditions, objects.timing, refresh.instant
        self.deltas = GroupDeltas(records, objects.versions, timing, queries.id, self._distances, now_us)

    def _distances(self, query: Array, versions: Array) -> Array:
        return self.context.distances(query, versions, self.refresh.step)

    def of(self, positions: Array, window_us: Array) -> MemberChanges:
        """Return the members of queries, all as members that come.

        Args:
            positions: The positions of the queries.
            window_us: The WINDOW of each query of the table by position, µs; -1 for none.
        """
        step = self.refresh.step
        found = self.context.members(positions, step)
        inside = self.objects.within(found.version, window_us[found.query])
        query, version = found.query[inside], found.version[inside]
        count = len(query)
        return MemberChanges(query, np.full(count, step), version, np.ones(count, np.int8))

    def in_portions(self, positions: Array, window_us: Array) -> Iterator[MemberChanges]:
        """Yield the members of queries, some queries at a time, so that memory is bounded."""
        done, count = 0, FIRST_PORTION
        while done < len(positions):
            found = self.of(positions[done : done + count], window_us)
            yield found
            done += count
            each = max(len(found.query) / count, 1e-3)
            count = int(min(max(PORTION / each, 1.0), 4.0 * count))

    def groups(self, spec: AggregateSpec, members: MemberChanges) -> States | None:
        """Return the groups of members of queries of one spec; None if there are none."""
        return self.deltas.of_members(spec, members, lasting=False)


class _Spans(NamedTuple):
    """Members of queries, and the numbers of the first refresh with each and the first without it; (n,)."""

    query: Array
    version: Array
    begin: Array
    end: Array


class _Looks(NamedTuple):
    """The instants of refreshes, and the floors as of them; µs, int64 (n,) each, ascending."""

    instants: Array
    floors: Array


def member_changes(
    context: QueryContext, dues: Sequence[DueQueries], positions: Array, windows_us: Array
) -> MemberChanges | None:
    """Return the member changes of queries over events at all refreshes with one duration in a batch.

    Idea: an event never moves, so it is a member in one run of refreshes: from the first refresh that sees it
    to the last one before it expires or leaves the window. A comparison with NOW may cut a run into several.
    Cost: the changes, not the members at each refresh. At the refresh after the last one, if the batch has
    one, all members leave, because a later piece may find them in another way.

    Args:
        context: The context of the batch.
        dues: The refreshes, in order.
        positions: The queries, whose regions do not move.
        windows_us: The WINDOW of each query of the table by position, µs; -1 for none.

    Returns:
        The changes; None if records replace others, or if there are too many members.
    """
    arrivals, since = _all_arrivals(context.batch.objects)
    if arrivals is None or len(arrivals.new) * len(positions) > PORTION:
        return None
    timed = context.conditions.read_now[positions]
    first, steps = context.batch.timing.first, np.array([due.refresh.step for due in dues])
    instants = np.array([due.refresh.instant for due in dues])
    floors = context.batch.timing.floors.at(np.array([due.seen for due in dues]))
    looks = _Looks(instants, floors)
    begin = np.searchsorted(steps, since, side="right")
    found = []
    if not timed.all():
        pairs = context.holders(positions[~timed], arrivals, first)
        found.append(_spans(context, arrivals, pairs, begin, looks, windows_us))
    if timed.any():
        pairs = context.in_fixed_regions(positions[timed], arrivals, first)
        there = _spans(context, arrivals, pairs, begin, looks, windows_us)
        if (there.end - there.begin).sum() > PORTION:
            return None
        found.append(_while_they_hold(context, there, instants))
    spans = _Spans(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
    ends = np.append(steps, dues[-1].end)
    step = np.concatenate([steps[spans.begin], ends[spans.end]])
    query, version = np.tile(spans.query, 2), np.tile(spans.version, 2)
    sign = np.repeat(np.array([1, -1], np.int8), len(spans.query))
    there_is = (step < context.queries.until[query]) & (step < NEVER)
    return MemberChanges(query[there_is], step[there_is], version[there_is], sign[there_is])


def _spans(
    context: QueryContext,
    arrivals: Transitions,
    pairs: CandidatePairs,
    begin: Array,
    looks: _Looks,
    windows_us: Array,
) -> _Spans:
    """Return during which refreshes, as of their instants, events of pairs are present and in the windows.

    `begin` has the number of the first refresh that sees each arrival.
    """
    times, windows = times_of(context.batch.objects, arrivals.new)[pairs.event], windows_us[pairs.query]
    report, begin, instants = context.batch.timing.report, begin[pairs.event], looks.instants
    end = np.searchsorted(looks.floors, times, side="right")
    if report >= 0:
        end = np.minimum(end, np.searchsorted(instants, times + report, side="right"))
    inside = np.flatnonzero(windows >= 0)
    entered = np.searchsorted(instants, times[inside], side="right")
    left = np.searchsorted(instants, times[inside] + windows[inside], side="right")
    begin[inside] = np.maximum(begin[inside], entered)
    end[inside] = np.minimum(end[inside], left)
    held = np.flatnonzero(begin < end)
    return _Spans(pairs.query[held], arrivals.new[pairs.event[held]], begin[held], end[held])


def _while_they_hold(context: QueryContext, spans: _Spans, instants: Array) -> _Spans:
    """Return the parts of spans in which the conditions, which read NOW, hold."""
    lengths = spans.end - spans.begin
    owner = np.repeat(np.arange(len(lengths)), lengths)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths - spans.begin, lengths)
    query, version = spans.query[owner], spans.version[owner]
    hold = context.conditions.hold_as_of(query, version, instants[number])
    follows = np.zeros(len(owner) + 1, np.bool_)  # holds at this and the previous refresh of a span
    follows[1:-1] = hold[1:] & hold[:-1] & (owner[1:] == owner[:-1])
    begins, ends = np.flatnonzero(hold & ~follows[:-1]), np.flatnonzero(hold & ~follows[1:])
    return _Spans(query[begins], version[begins], number[begins], number[ends] + 1)


def _all_arrivals(objects: BatchObjects) -> tuple[Transitions | None, Array]:
    """Return all events, stored and of the batch, as arrivals, and the step after which each is seen.

    The arrivals are None if a record replaces another one or moves to another slot.
    """
    events, first = objects.events, objects.timing.first
    new = np.flatnonzero((events.new >= 0) & (events.new != events.old))
    known = np.flatnonzero(objects.stored.known)
    since = np.concatenate([np.full(len(known), first - 1), events.step[new]])
    if (events.old[new] >= 0).any() or len(objects.rows.roles) or objects.removals.since is not None:
        return None, since
    versions = np.concatenate([known, events.new[new]]).astype(np.int32)
    rows, stored = objects.sources
    x, y = (
        gather(frozen(old), frozen(late), versions.astype(np.int64))
        for old, late in ((stored.x, rows.x), (stored.y, rows.y))
    )
    there = ~np.isnan(x)
    versions, since, x, y = versions[there], since[there], x[there], y[there]
    none, nowhere = np.full(len(versions), -1, np.int32), np.full(len(versions), np.nan)
    steps, numbers = np.full(len(versions), first, np.int64), objects.numbers.objects_of(versions)
    return Transitions(steps, numbers, none, versions, nowhere, nowhere, x, y), since
