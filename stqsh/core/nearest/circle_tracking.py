"""Track the members of circles and their k nearest through a batch.

SOLE treats a kNN query as a range query whose region grows and shrinks (sections 3 and 5). Here the region is
a circle somewhat larger than needed. It is fixed during a batch, so the index of range queries finds the
objects that enter and leave it. If fewer than k objects are left in it at some step, the batch is repeated
for the query with a larger circle. If it becomes crowded, the circle shrinks for the next batch. Answers
never depend on a circle's size.

Costs (one core, 500 000 objects, 10 000 queries with k = 10, 25 000 records a batch): 3 to 4 µs a record, of
which ranking takes 2.4; 5 to 6 µs where three queries in ten have a focal object; 33 µs a query registered.
A query keeps about 30 to 80 members, 4 bytes each. With k = 100 it keeps about 175, and a record takes 3 µs
(200 000 objects, 2 000 queries), a third of the time with a circle around 300. On average a record sends 0.5
candidates to Aggregate, 70 bytes and 1 µs each.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.kernels.events.transitions import Transitions, places_after
from stqsh.core.kernels.index.static_rects import IS, CandidatePairs, QueryLifetimes
from stqsh.core.kernels.join.static_join import join
from stqsh.core.kernels.knn.circle_members import MemberEvents, MemberLists, RankingOrder
from stqsh.core.kernels.knn.ranking import FocalMoves, RankResult, TrackedCircles, enough, rank
from stqsh.core.kernels.knn.tie_order import KeyOrder, by_number, by_text
from stqsh.core.matching.keyword_queries import keyword_pairs, keywords_of
from stqsh.core.matching.match import JoinResult, match
from stqsh.core.matching.moving_index import around
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.nearest.candidate_changes import CandidateChanges, with_reasons
from stqsh.core.nearest.circle_search import CircleSearch, SearchCircles
from stqsh.core.nearest.members import MemberTable
from stqsh.core.queries.query_table import ACTIVE
from stqsh.core.regions.grid_layout import rect_lists
from stqsh.core.state.interner import Interner

_ROUNDS = 6
"""The number of attempts after which a circle is widened to hold everything."""

_GROWTH, _AT_LEAST = 4, 1.5
"""When a circle runs short: the growth factor of its wanted objects, and the least one of its radius."""


class StaticCircleIndex:
    """The boxes of static circles as an index for `match`, built for one batch.

    Circles of keyword queries are in an index that is kept from batch to batch, below `keywords/` of the
    kind's prefix, and in which only changed circles are indexed again (SSTD's CKQ). It tests terms too.
    """

    def __init__(self, context: QueryContext, positions: Array) -> None:
        self._context, self._positions = context, positions

    def join(self, events: Transitions) -> JoinResult:
        """Join events, see `stqsh.core.matching.match.RegionIndex`."""
        return JoinResult(self._pairs(events), events, None)

    def _pairs(self, events: Transitions) -> CandidatePairs:
        context, at = self._context, self._positions
        if not len(events.step):
            return CandidatePairs(*(np.empty(0, kind) for kind in (np.int32, np.int32, np.uint8)))
        keyworded, found = self._keyworded(events)
        still = at[(context.queries.focal[at] < 0) & ~keyworded[at]]
        boxes = context.boxes(still, context.batch.timing.first - 1)
        tag = (2 * still + 1).astype(np.int32)
        pairs = join(events, *rect_lists(boxes, tag, context.batch.spec.bounds))
        return CandidatePairs(*(np.concatenate(both) for both in zip(pairs, found, strict=True)))

    def _keyworded(self, events: Transitions) -> tuple[Array, CandidatePairs]:
        """Return which queries are in the keyword index, and its pairs for all active queries."""
        context, queries = self._context, self._context.queries
        keyworded = np.zeros(len(queries), np.bool_)
        index = keywords_of(context.batch, context.prefix)
        if index is None:
            return keyworded, CandidatePairs(*(np.empty(0, kind) for kind in (np.int32, np.int32, np.uint8)))
        boxes = np.full((len(queries), 4), np.nan)
        still = np.flatnonzero((queries.focal < 0) & (queries.mode == ACTIVE))
        boxes[still] = context.boxes(still, context.batch.timing.first - 1)
        index.refresh(queries.id, boxes, np.ones(len(queries), np.bool_), context.batch.spec.bounds)
        keyworded[index.queries.position] = True
        return keyworded, keyword_pairs(context.batch, index, events)


class CircleTracker:
    """Tracks the active queries of a stream in one batch.

    Args:
        context: The batch's context, with `staying`.
        roster: The members of circles before the batch; new queries have none.
        begin: The step after which all k of a query are offered again, -1 for none; int64 (queries,).
    """

    def __init__(self, context: QueryContext, roster: MemberTable, begin: Array) -> None:
        self._context, self._roster, self._begin = context, roster, begin
        self._queries, self._timing = context.queries, context.batch.timing
        self._before = CircleSearch(context, self._timing.first - 1)
        focal = context.batch.focal
        self._world = RankingOrder(key_order(context), context.planar)
        self._turns, who = _turns(focal.events)
        self._turn_of = np.searchsorted(who, np.arange(len(focal.table) + 1))
        self._want = enough(self._queries.k)

    def track(self, positions: Array) -> list[CandidateChanges]:
        """Return the changes of candidates of these queries, which must be all that live in the batch."""
        new = positions[self._begin[positions] >= 0]
        self._widen(new, *self._context.centres(new, np.full(len(new), self._timing.first)))
        cells = _Cells(self._context)
        out, todo = [], positions
        for attempt in range(_ROUNDS + 2):
            ranked, offered, touched = self._attempt(todo)
            out.append(offered)
            short = ranked.short.step >= 0
            self._queries.radius[touched[~short]] = ranked.radius[~short]
            self._keep(ranked.roster, touched, ~short)
            todo = touched[short]
            if not len(todo):
                break
            if attempt >= _ROUNDS:
                self._queries.radius[todo] = np.inf
            self._widen(todo, ranked.short.x[short], ranked.short.y[short])
            cells.restore()
        return out

    def widen_fully(self, positions: Array) -> None:
        """Widen circles to hold all objects that were present before the batch."""
        centres = self._context.centres(positions, np.full(len(positions), self._timing.first - 1))
        self._queries.radius[positions] = np.inf
        start, obj = self._before.members(SearchCircles(positions, *centres, np.full(len(positions), np.inf)))
        self._roster.replace(positions, start, obj)

    def offered_before(self, positions: Array) -> tuple[Array, Array]:
        """Return what queries had offered before the batch: positions and objects."""
        first = self._timing.first
        circles = self._circling(positions)._replace(
            turn=np.zeros(len(positions), np.int64),
            end=np.zeros(len(positions), np.int64),
            begin=np.full(len(positions), first),
            until=np.full(len(positions), NEVER),
        )
        none = CandidatePairs(*(np.empty(0, kind) for kind in (np.int32, np.int32, np.uint8)))
        nothing = _seen(self._context, none, self._context.batch.objects.events, positions)
        offers = rank(circles, self._turns, self._members(positions), nothing, self._world).offers
        return positions[offers.query], offers.obj

    def _attempt(self, positions: Array) -> tuple[RankResult, CandidateChanges, Array]:
        """Evaluate the circles with their current radii; also return the positions of affected queries."""
        queries = self._queries
        since = np.full(len(queries), NEVER)
        since[positions] = self._timing.first - 1
        context = replace(self._context)  # a copy without cached radii
        pairs, events = match(
            context, StaticCircleIndex(context, positions), QueryLifetimes(since, queries.until)
        )
        self._count(pairs)
        touched = np.zeros(len(queries), np.bool_)
        touched[pairs.query] = True
        focal = queries.focal[positions]
        moved = (focal >= 0) & (self._turn_of[focal + 1] > self._turn_of[focal])
        touched[positions[moved | (self._begin[positions] >= 0)]] = True
        at = np.flatnonzero(touched)
        seen = _seen(context, pairs, events, at)
        ranked = rank(self._circling(at), self._turns, self._members(at), seen, self._world)
        return ranked, with_reasons(context, ranked.offers, at[ranked.offers.query], events), at

    def _count(self, pairs: CandidatePairs) -> None:
        """Update the counters of EXPLAIN ANALYZE."""
        size = len(self._queries)
        self._queries.tested[:] += np.bincount(pairs.query, minlength=size)
        self._queries.matched[:] += np.bincount(pairs.query[pairs.flags & IS != 0], minlength=size)

    def _circling(self, positions: Array) -> TrackedCircles:
        queries = self._queries
        x, y = self._context.centres(positions, np.full(len(positions), self._timing.first - 1))
        focal = queries.focal[positions]
        return TrackedCircles(
            k=queries.k[positions],
            radius=queries.radius[positions],
            x=x,
            y=y,
            turn=self._turn_of[focal],
            end=self._turn_of[focal + 1],
            until=queries.until[positions],
            begin=self._begin[positions],
        )

    def _members(self, positions: Array) -> MemberLists:
        start, obj = self._roster.of(positions)
        stored = self._context.batch.objects.stored
        # Before the batch an object's version equals its number.
        return MemberLists(start, obj, obj, stored.x[obj], stored.y[obj])

    def _keep(self, roster: MemberLists, touched: Array, which: Array) -> None:
        """Store the members of the queries that did not run short; the lists of the others are empty here."""
        lengths = np.diff(roster.start)[which]
        self._roster.replace(touched[which], np.concatenate([[0], np.cumsum(lengths)]), roster.obj)

    def _widen(self, positions: Array, x: Array, y: Array) -> None:
        """Widen circles to hold enough objects around (x, y), and find their members before the batch."""
        if not len(positions):
            return
        radius, want = self._queries.radius, self._want[positions]
        circles = SearchCircles(positions, x, y, radius[positions])
        k = self._queries.k[positions]
        found = self._typical.radii(circles, (k + enough(k)) // 2, want)
        self._want[positions] = want * _GROWTH
        radius[positions] = np.maximum(found, _AT_LEAST * circles.radius)
        centres = self._context.centres(positions, np.full(len(positions), self._timing.first - 1))
        start, obj = self._before.members(SearchCircles(positions, *centres, radius[positions]))
        self._roster.replace(positions, start, obj)

    @cached_property
    def _typical(self) -> CircleSearch:
        """A search among the objects before the batch, or after it if most of them arrived in it."""
        events = self._context.batch.objects.events
        come = np.count_nonzero(np.isnan(events.ox) & ~np.isnan(events.nx))
        return CircleSearch(self._context, self._timing.last) if come > len(self._before) else self._before


class _Cells:
    """The cells of objects that moving circles use, as they are before the batch."""

    def __init__(self, context: QueryContext) -> None:
        self._state = context.batch.state
        self._folders = [f"{prefix}/cells/" for prefix in (context.prefix, around(context.prefix))]
        names = [name for folder in self._folders for name in self._state.names(folder)]
        self._kept = {name: self._state.array(name).copy() for name in names}

    def restore(self) -> None:
        """Restore the cells, for another attempt at the same batch."""
        for folder in self._folders:
            self._state.release(folder)
        for name, values in self._kept.items():
            self._state.replace(name, values)


def key_order(context: QueryContext) -> KeyOrder:
    """Return the order of the objects' keys."""
    table = context.batch.objects.table
    text = pa.types.is_string(table.key_type)
    if table.spec.is_event:
        codes = context.batch.state.array(f"s{table.spec.id}/objects/key")
        return by_text(codes, table.pool.strings()) if text else by_number(codes)
    keys = Interner(context.batch.state, f"s{table.spec.id}/objects/keys")
    return by_text(np.arange(len(keys)), keys.strings()) if text else by_number(keys.integers())


def _turns(events: Transitions) -> tuple[FocalMoves, Array]:
    """Return the moves of focal objects by object and step, and the focal object of each move."""
    order = np.lexsort((events.step, events.obj))
    return FocalMoves(events.step[order], events.nx[order], events.ny[order]), events.obj[order]


def _seen(
    context: QueryContext, pairs: CandidatePairs, events: Transitions, positions: Array
) -> MemberEvents:
    """Return pairs in the kernel's order; queries are numbered by their index in `positions`, ascending."""
    flagged = np.flatnonzero(pairs.flags != 0)
    number, event = np.searchsorted(positions, pairs.query[flagged]), pairs.event[flagged]
    stays = pairs.flags[flagged] & IS
    order = np.lexsort((stays, events.step[event], number))
    event, version = event[order].astype(np.int32), events.new[event[order]]
    objects = context.batch.objects
    x, y = places_after(version, events.step[event], *objects.sources, objects.timing.unending)
    return MemberEvents(
        start=np.searchsorted(number[order], np.arange(len(positions) + 1)),
        step=events.step[event],
        obj=events.obj[event],
        version=version,
        x=x,
        y=y,
        flags=stays[order].astype(np.uint8),
        event=event,
    )
