"""Whom kNN queries are interested in: those near enough to become neighbours (SOLE section 4.4, example 2).

SOLE takes a kNN query for a range query whose region is the circle of its k neighbours. With R the distance
of the k-th of the slot's own after the step before, those are kept who are within R + 3 D of a focal object
now, or within R + D of a place that stands still, and the k themselves: a neighbour that moves out stays, and
the circle grows (section 3.2). While there are fewer than k, or the query is new, everybody is kept.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.geometry.circles import QueryCircles, circle_boxes, filter_circles
from stqsh.core.kernels.geometry.distance import distances_between
from stqsh.core.kernels.join.static_join import join
from stqsh.core.kernels.retention.reference_counts import kth_distances
from stqsh.core.kinds.nearest import NearestKind
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.nearest.members import MemberTable
from stqsh.core.queries.query_table import ACTIVE, QueryTable
from stqsh.core.regions.grid_layout import rect_lists
from stqsh.core.retention.interest_table import CIRCLING

Array = npt.NDArray[Any]


class PreviousCircles(NamedTuple):
    """kNN queries after the step before: ids int64 ascending, radius float64, (n,) each, that of the k-th
    neighbour; and the neighbours, pairs of id and object, (m,) each.
    """

    id: Array
    radius: Array
    owner: Array
    neighbour: Array


class KnnInterest:
    """The kNN queries of a stream in one piece of a batch; to be asked before the kind has taken it in."""

    def __init__(self, batch: StreamBatch, reach: float) -> None:
        self._batch, self._reach = batch, reach

    def counts(self, context: QueryContext, circling: Array) -> tuple[Array, Array]:
        """How many kNN queries are interested in each object after the last step, and how many objects each.

        context: of the interest table, in which `circling` are the positions of the active kNN queries.
        Returns int32 (objects,) and int64 (circling,).
        """
        size = len(self._batch.objects.table)
        present = self._batch.objects.arrivals(self._batch.timing.last)
        everybody = self._holders_of_all(context, circling)
        query, obj = self._pairs(context, circling[~np.isin(circling, everybody)], present)
        counts = np.bincount(obj, minlength=size)
        counts[present.obj] += len(everybody)
        held = np.bincount(query, minlength=len(context.queries))
        held[everybody] = len(present.obj)
        own = context.focals[everybody]
        itself = own >= 0
        itself[itself] = np.isin(own[itself], present.obj)
        np.subtract.at(counts, own[itself], 1)
        held[everybody[itself]] -= 1
        return counts.astype(np.int32), held[circling]

    def pairs(self, context: QueryContext, objects: Array) -> tuple[Array, Array]:
        """The kNN queries that are interested in some present objects, int32: positions and objects."""
        circling = np.flatnonzero(context.queries["mode"] == CIRCLING)
        present = self._batch.objects.arrivals(self._batch.timing.last, objects)
        everybody = self._holders_of_all(context, circling)
        query, obj = self._pairs(context, circling[~np.isin(circling, everybody)], present)
        all_, of_all = np.repeat(everybody, len(present.obj)), np.tile(present.obj, len(everybody))
        others = context.focals[all_] != of_all
        return np.concatenate([query, all_[others]]), np.concatenate([obj, of_all[others]])

    def strangers(self, context: QueryContext, arrivals: Transitions) -> tuple[Array, Array]:
        """Which kNN queries would be interested in objects that are not kept.

        context: with the queries' focal objects as the arrivals' objects are numbered. Returns positions of
        queries and numbers of arrivals, int64 (n,) each.
        """
        circling = np.flatnonzero(context.queries["mode"] == CIRCLING)
        if not len(circling):
            return circling, circling
        x, y = context.centres(circling, np.full(len(circling), self._batch.timing.last))
        number, event = self._within(QueryCircles(x, y, self._looks(context, circling)), arrivals)
        query = circling[number]
        others = context.focals[query] != arrivals.obj[event]
        return query[others], event[others]

    @cached_property
    def _past(self) -> PreviousCircles:
        batch = self._batch
        queries = NearestKind().queries(batch.state, batch.spec["id"])
        roster = MemberTable(batch.state, queries.prefix)
        at = np.flatnonzero(queries["mode"] == ACTIVE)
        start, obj = roster.of(at)
        owner = np.repeat(np.arange(len(at)), np.diff(start))
        x, y = self._centres(queries, at)
        stored = batch.objects.stored
        far = distances_between(x[owner], y[owner], stored.x[obj], stored.y[obj], bool(batch.spec["planar"]))
        radius = kth_distances(start, far, queries["k"][at])
        mine = far <= radius[owner]
        ids = queries["id"][at]
        return PreviousCircles(ids, radius, ids[owner[mine]], obj[mine])

    def _centres(self, queries: QueryTable, at: Array) -> tuple[Array, Array]:
        """Where kNN queries had their centres before the first step."""
        x, y, focal = queries["a"][at].copy(), queries["b"][at].copy(), queries["focal"][at]
        moving = np.flatnonzero(focal >= 0)
        before = np.full(len(moving), self._batch.timing.first - 1)
        x[moving], y[moving] = self._batch.focal.places(focal[moving], before)
        return x, y

    def neighbours(self, queries: QueryTable) -> Array:
        """How many neighbours each query has before the first step, of which k at most; int64 (queries,).

        Who is as far away as the k-th is of interest, but not all of them are in the answer.
        """
        at = np.searchsorted(queries["id"], self._past.owner)
        return np.minimum(np.bincount(at, minlength=len(queries)), queries["k"])

    def _looks(self, context: QueryContext, circling: Array) -> Array:
        """How far queries look: float64 (circling,), infinite where everybody counts."""
        moves = context.queries["focal"][circling] >= 0
        return self.radii(context, circling) + self._reach * np.where(moves, 3.0, 1.0)

    def radii(self, context: QueryContext, circling: Array) -> Array:
        """How far the k-th neighbour was before the first step: float64 (circling,), infinite for none."""
        queries, past = context.queries, self._past
        ids = queries["id"][circling]
        radius = np.full(len(circling), np.inf)
        if len(past.id):
            place = np.minimum(np.searchsorted(past.id, ids), len(past.id) - 1)
            known = past.id[place] == ids  # one that goes on was paused before the step, and has no past
            radius[known] = past.radius[place[known]]
        return radius

    def _holders_of_all(self, context: QueryContext, circling: Array) -> Array:
        """The positions of the queries that everybody counts for, as far as they have a centre."""
        last = np.full(len(circling), self._batch.timing.last)
        x, _ = context.centres(circling, last)
        held: Array = circling[np.isinf(self.radii(context, circling)) & ~np.isnan(x)]
        return held

    def _pairs(self, context: QueryContext, circling: Array, present: Transitions) -> tuple[Array, Array]:
        """Pairs of queries with circles that end somewhere, and present objects within; each comes once."""
        if not len(circling) or not len(present.obj):
            return np.empty(0, np.int64), np.empty(0, np.int32)
        x, y = context.centres(circling, np.full(len(circling), self._batch.timing.last))
        radius = self._looks(context, circling)
        radius[np.isinf(radius)] = np.nan  # without a centre
        query, event = self._within(QueryCircles(x, y, radius), present)
        obj, past = present.obj[event], self._past
        ids = context.queries["id"][circling]
        old = np.flatnonzero(np.isin(past.owner, ids[~np.isnan(x)]) & np.isin(past.neighbour, present.obj))
        size = np.int64(len(self._batch.objects.table))
        both = np.concatenate([query, np.searchsorted(ids, past.owner[old])]) * size
        codes = np.unique(both + np.concatenate([obj, past.neighbour[old]]))
        query, obj = circling[codes // size], (codes % size).astype(np.int32)
        others = context.focals[query] != obj
        return query[others], obj[others]

    def _within(self, circles: QueryCircles, arrivals: Transitions) -> tuple[Array, Array]:
        """Which circles arrivals come into: numbers of both, int64 (n,) each."""
        planar = bool(self._batch.spec["planar"])
        tag = 2 * np.arange(len(circles.x), dtype=np.int32) + 1
        pairs = join(arrivals, *rect_lists(circle_boxes(*circles, planar), tag))
        within = filter_circles(pairs, arrivals, circles, planar) != 0
        return pairs.query[within].astype(np.int64), pairs.event[within].astype(np.int64)
