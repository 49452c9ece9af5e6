"""The k nearest objects of a slot at a refresh, among what was stored before its step, as of its instant."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.groups.refresh_schedule import DueQueries
from stqsh.core.groups.refreshed_members import ObjectsAsOf, context_as_of
from stqsh.core.kernels.geometry.distance import distances_between
from stqsh.core.kernels.index.static_rects import IS, CandidatePairs
from stqsh.core.nearest.candidate_changes import CandidateChanges
from stqsh.core.nearest.circle_search import CircleSearch, SearchCircles
from stqsh.core.nearest.near_extents import within_kth
from stqsh.core.objects.batch_objects import ObjectPlaces, arrivals_at
from stqsh.core.queries.query_table import QueryTable

_MOST_PAIRS = 1 << 20
"""The most pairs of changed objects and queries that are compared, rather than searching again."""


class Neighbours(NamedTuple):
    """Neighbours of queries, (n,) each.

    Attributes:
        query: The position of the query, int64.
        obj: The object, int32.
        version: Its record, int32.
        distance: The distance from the centre, float64.
    """

    query: Array
    obj: Array
    version: Array
    distance: Array

    def where(self, chosen: Array) -> Neighbours:
        """Return the chosen rows, given by a mask or by positions."""
        return Neighbours(*(column[chosen] for column in self))


NOBODY = Neighbours(
    np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float64)
)


def _have_changed(before: ObjectPlaces, now: ObjectPlaces) -> Array:
    """Return which objects have another record, or have come or gone; bool (n,)."""
    changed: Array = (now.versions != before.versions) | (np.isnan(now.x) != np.isnan(before.x))
    return changed


class RefreshedNeighbours:
    """Finds the k nearest objects of queries at one refresh of a batch."""

    def __init__(self, batch: StreamBatch, queries: QueryTable, prefix: str, due: DueQueries) -> None:
        self._step, self._queries = due.refresh.step, queries
        self._objects = ObjectsAsOf(batch.objects, due)
        self._context = context_as_of(batch, self._objects, queries, prefix, due)

    @property
    def seen(self) -> tuple[ObjectPlaces, ObjectPlaces]:
        """The objects and the focal objects as the refresh sees them."""
        return self._objects.at(self._step), self._context.batch.focal.at(self._step)

    def may_differ(
        self, positions: Array, found: CandidateChanges, seen: tuple[ObjectPlaces, ObjectPlaces]
    ) -> Array:
        """Return which queries may have other neighbours than at an earlier refresh of the piece, bool (n,).

        Idea: over extents most records are farther away than the k-th neighbour. A query keeps its neighbours
        if neither they nor its focal object have changed since, and the box of no changed object is as near
        as the farthest. Cost: the changed objects times the queries, instead of all objects.

        Args:
            positions: The queries: without windows, and with conditions on records alone.
            found: The neighbours at the earlier refresh.
            seen: What it has seen, see `seen`.
        """
        from stqsh.core.conditions import extents  # shapely: only when needed

        (now, focal_now), (before, focal_before) = self.seen, seen
        changed = _have_changed(before, now)
        differs: Array = np.isin(positions, found.query[changed[found.obj]])
        focal = self._queries.focal[positions]
        differs[focal >= 0] |= _have_changed(focal_before, focal_now)[focal[focal >= 0]]
        come, rest = np.flatnonzero(changed & ~np.isnan(now.x)), np.flatnonzero(~differs)
        if len(come) * len(rest) > _MOST_PAIRS:
            return np.ones(len(positions), np.bool_)
        x, y, slack = self._centres_of_extents(positions[rest])
        size, farthest = len(self._queries), np.full(len(self._queries), -np.inf)
        np.maximum.at(farthest, found.query, found.distance)
        is_full = np.bincount(found.query, minlength=size) >= self._queries.k
        reach = np.where(is_full, farthest, np.inf)[positions[rest]] + slack
        owner, number = np.repeat(np.arange(len(rest)), len(come)), np.tile(np.arange(len(come)), len(rest))
        shapes = self._context.extents(now.versions[come]).take(number)
        near = extents.least_distances(shapes, x[owner], y[owner], self._context.planar) <= reach[owner]
        differs[rest[owner[near]]] = True
        return differs

    def _centres_of_extents(self, positions: Array) -> tuple[Array, Array, Array]:
        """Return the centres of queries, NaN if there is none, and how far their focal extents reach."""
        from stqsh.core.conditions import extents

        context, steps = self._context, np.full(len(positions), self._step)
        x, y = context.centres(positions, steps)
        slack, focal = np.zeros(len(positions)), self._queries.focal[positions]
        around = np.flatnonzero(~np.isnan(x) & (focal >= 0))
        theirs = context.focal_extents(focal[around], steps[around])
        slack[around] = extents.reaches_of_boxes(theirs, context.planar)
        return x, y, slack

    def of(self, positions: Array, window_us: Array) -> Neighbours:
        """Return the k nearest of each query, or all if there are fewer; the smaller key wins ties.

        Args:
            positions: The positions of the queries.
            window_us: The WINDOW of each query of the table by position, µs; -1 for none.
        """
        window = window_us[positions]
        found = [
            self._in_window(positions[window == length], length) for length in np.unique(window).tolist()
        ]
        return Neighbours(*(np.concatenate(columns) for columns in zip(NOBODY, *found, strict=True)))

    def _in_window(self, positions: Array, window_us: int) -> Neighbours:
        """Return the k nearest of queries with the same window."""
        if self._context.batch.spec.extent is not None:
            return self._among_extents(positions, self._among(window_us))
        search = CircleSearch(self._context, self._step, self._among(window_us))
        x, y = self._context.centres(positions, np.full(len(positions), self._step))
        k = self._queries.k[positions].astype(np.int64)
        circles = SearchCircles(positions, x, y, np.zeros(len(positions)))
        radius = search.radii(circles, k, k + 1)  # one more for the focal object
        start, obj = search.members(circles._replace(radius=radius))
        owner = np.repeat(np.arange(len(positions)), np.diff(start))
        versions, to_x, to_y = self._objects.at(self._step)
        far = distances_between(x[owner], y[owner], to_x[obj], to_y[obj], self._context.planar)
        order = self._ranked(owner, far, obj)
        order = order[np.arange(len(order)) - start[owner] < k[owner]]
        return Neighbours(positions[owner], obj, versions[obj], far).where(order)

    def _among_extents(self, positions: Array, among: Array | None) -> Neighbours:
        """Return the k nearest of queries over objects with an extent, whose boxes bound their distances."""
        from stqsh.core.conditions import extents  # shapely: only when needed

        context, found = self._context, [NOBODY]
        present = arrivals_at(self._objects, self._step, among)
        shapes = context.extents(present.new)
        x, y, slack = self._centres_of_extents(positions)
        for number in np.flatnonzero(~np.isnan(x)).tolist():
            position = positions[number]
            at_x, at_y = (np.full(len(present.obj), axis[number]) for axis in (x, y))
            bounds = extents.least_distances(shapes, at_x, at_y, context.planar) - slack[number]

            def holds(rows: Array, position: int = position) -> Array:
                query, is_in = np.full(len(rows), position, np.int32), np.full(len(rows), IS, np.uint8)
                pairs = CandidatePairs(rows.astype(np.int32), query, is_in)
                kept: Array = context.conditions.filter_pairs(pairs, present).flags != 0
                kept &= context.focals[position] != present.obj[rows]
                return kept

            def measure(rows: Array, position: int = position) -> Array:
                of_query, steps = np.full(len(rows), position), np.full(len(rows), self._step)
                return context.extent_distances(shapes.apart(rows), of_query, steps)

            rows, far = within_kth(bounds, int(self._queries.k[position]), holds, measure)
            owner = np.full(len(rows), position)
            found.append(Neighbours(owner, present.obj[rows], present.new[rows], far))
        every = Neighbours(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
        every = every.where(self._ranked(every.query, every.distance, every.obj))
        first = np.searchsorted(every.query, every.query)
        return every.where(np.arange(len(every.query)) - first < self._queries.k[every.query])

    def _among(self, window_us: int) -> Array | None:
        """Return the objects whose records lie in a window; None for all."""
        if window_us < 0:
            return None
        versions = self._objects.at(self._step).versions
        known = np.flatnonzero(versions >= 0)
        inside = self._objects.within(versions[known], np.full(len(known), window_us))
        return known[inside].astype(np.int32)

    def _ranked(self, owner: Array, far: Array, obj: Array) -> Array:
        """Return the order of members by owner, distance and key."""
        names = ["owner", "far", "key"]
        columns = [pa.array(owner), pa.array(far), self._objects.table.show_keys(obj)]
        table = pa.Table.from_arrays(columns, names=names)
        found: Any = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
        order: Array = found.to_numpy().astype(np.int64)
        return order
