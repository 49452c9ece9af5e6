"""The objects that kNN queries need: those close enough to become neighbours (SOLE section 4.4, example 2).

SOLE treats a kNN query like a range query whose region is the circle of its k neighbours. Let R be the
distance of the slot's own k-th neighbour after the previous step. Objects are kept within R + 3 D of a focal
object's current place, or within R + D of a static place, and so are the k neighbours themselves: a neighbour
that moves out stays, and the circle grows (section 3.2). All objects are kept while there are fewer than k,
or while the query is new.

A slot keeps the objects that may become one of the k nearest of its own objects. The k nearest of all slots
are known only when their batch has been merged, which is many steps too late, and sooner for short batches
than for long ones; using them would make answers depend on how a run is divided into batches. So with a
factor below 1, and during the first REPORT EVERY of a query, more slots keep more objects, and answers are
closer to exact. With factor 1, after that time, answers are exact for any number of slots.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import MemberCircles, StreamBatch
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.geometry.circles import QueryCircles, circle_boxes, filter_circles
from stqsh.core.kernels.join.static_join import join
from stqsh.core.kinds import KINDS
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.objects.batch_objects import arrivals_at
from stqsh.core.queries.query_table import QueryTable
from stqsh.core.regions.grid_layout import rect_lists
from stqsh.core.retention.interest_table import CIRCLING


class KnnInterest:
    """The kNN queries of a stream in one piece of a batch, before their kind has processed the piece."""

    def __init__(self, batch: StreamBatch, reach: float) -> None:
        self._batch, self._reach = batch, reach

    def counts(self, context: QueryContext, circling: Array) -> tuple[Array, Array]:
        """Count the kNN queries that need each object after the last step, and the objects per query.

        Args:
            circling: The positions of the active kNN queries in the interest table.
            circling: The positions of the active kNN queries in it.

        Returns:
            int32 (objects,) and int64 (circling,).
        """
        size = len(self._batch.objects.table)
        present = arrivals_at(self._batch.objects, self._batch.timing.last)
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
        """Find the kNN queries that need the given present objects, int32; return positions and objects."""
        circling = np.flatnonzero(context.queries.mode == CIRCLING)
        present = arrivals_at(self._batch.objects, self._batch.timing.last, objects)
        everybody = self._holders_of_all(context, circling)
        query, obj = self._pairs(context, circling[~np.isin(circling, everybody)], present)
        all_, of_all = np.repeat(everybody, len(present.obj)), np.tile(present.obj, len(everybody))
        others = context.focals[all_] != of_all
        return np.concatenate([query, all_[others]]), np.concatenate([obj, of_all[others]])

    def pairs_of_dropped(self, context: QueryContext, arrivals: Transitions) -> tuple[Array, Array]:
        """Find the kNN queries that would need objects that are not kept.

        Args:
            context: A context whose focal objects have the numbers of the arrivals' objects.
            arrivals: The objects, as events.

        Returns:
            Positions of queries and numbers of arrivals, int64 (n,) each.
        """
        circling = np.flatnonzero(context.queries.mode == CIRCLING)
        if not len(circling):
            return circling, circling
        x, y = context.centres(circling, np.full(len(circling), self._batch.timing.last))
        number, event = self._within(QueryCircles(x, y, self._needed_within(context, circling)), arrivals)
        query = circling[number]
        others = context.focals[query] != arrivals.obj[event]
        return query[others], event[others]

    @cached_property
    def _past(self) -> MemberCircles:
        """The circles of all kinds that have them."""
        found = [circles for kind in KINDS.values() if (circles := kind.member_circles(self._batch))]
        if len(found) == 1:
            return found[0]
        id_, radius, owner, neighbour = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(id_, kind="stable")
        return MemberCircles(id_[order], radius[order], owner, neighbour)

    def neighbours(self, queries: QueryTable) -> Array:
        """Count each query's neighbours before the first step, at most k; int64 (queries,).

        All objects at the distance of the k-th neighbour are needed, but not all of them are in the answer.
        """
        at = np.searchsorted(queries.id, self._past.owner)
        return np.minimum(np.bincount(at, minlength=len(queries)), queries.k)

    def _needed_within(self, context: QueryContext, circling: Array) -> Array:
        """Return the distance within which queries need objects, float64 (circling,); infinite if all."""
        moves = context.queries.focal[circling] >= 0
        return self.radii(context, circling) + self._reach * np.where(moves, 3.0, 1.0)

    def radii(self, context: QueryContext, circling: Array) -> Array:
        """Return the distance of the k-th neighbour before the first step, float64; infinite if unknown."""
        queries, past = context.queries, self._past
        ids = queries.id[circling]
        radius = np.full(len(circling), np.inf)
        if len(past.id):
            place = np.minimum(np.searchsorted(past.id, ids), len(past.id) - 1)
            known = past.id[place] == ids  # a resumed query was paused before the step, so it has no circle
            radius[known] = past.radius[place[known]]
        return radius

    def _holders_of_all(self, context: QueryContext, circling: Array) -> Array:
        """Return the positions of the queries that need all objects and have a centre."""
        last = np.full(len(circling), self._batch.timing.last)
        x, _ = context.centres(circling, last)
        held: Array = circling[np.isinf(self.radii(context, circling)) & ~np.isnan(x)]
        return held

    def _pairs(self, context: QueryContext, circling: Array, present: Transitions) -> tuple[Array, Array]:
        """Find the distinct pairs of queries with finite circles and the present objects inside."""
        if not len(circling) or not len(present.obj):
            return np.empty(0, np.int64), np.empty(0, np.int32)
        x, y = context.centres(circling, np.full(len(circling), self._batch.timing.last))
        radius = self._needed_within(context, circling)
        radius[np.isinf(radius)] = np.nan  # without a centre
        query, event = self._within(QueryCircles(x, y, radius), present)
        obj, past = present.obj[event], self._past
        ids = context.queries.id[circling]
        old = np.flatnonzero(np.isin(past.owner, ids[~np.isnan(x)]) & np.isin(past.neighbour, present.obj))
        size = np.int64(len(self._batch.objects.table))
        both = np.concatenate([query, np.searchsorted(ids, past.owner[old])]) * size
        codes = np.unique(both + np.concatenate([obj, past.neighbour[old]]))
        query, obj = circling[codes // size], (codes % size).astype(np.int32)
        others = context.focals[query] != obj
        return query[others], obj[others]

    def _within(self, circles: QueryCircles, arrivals: Transitions) -> tuple[Array, Array]:
        """Find the pairs of circles and arrivals inside them: the numbers of both, int64 (n,) each."""
        planar = self._batch.spec.planar
        tag = 2 * np.arange(len(circles.x), dtype=np.int32) + 1
        pairs = join(arrivals, *rect_lists(circle_boxes(*circles, planar), tag))
        within = filter_circles(pairs, arrivals, circles, planar) != 0
        return pairs.query[within].astype(np.int64), pairs.event[within].astype(np.int64)
