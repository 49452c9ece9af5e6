"""The regions and whole answers of queries at a step, and this slot's objects that are focal objects."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.events.versions import gather
from stqsh.core.kernels.geometry.boxes import are_beside, extended_boxes
from stqsh.core.kernels.geometry.circles import QueryCircles, circle_boxes, filter_circles
from stqsh.core.kernels.geometry.distance import distances_between
from stqsh.core.kernels.index.static_rects import IS, WAS, CandidatePairs
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.join.static_join import join
from stqsh.core.matching.keyword_queries import keyword_pairs, keywords_of
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.region_scaling import factors
from stqsh.core.objects.batch_objects import arrivals_at
from stqsh.core.queries.query_table import AREA, CIRCLE, RECT, QueryTable
from stqsh.core.regions.grid_layout import rect_lists
from stqsh.core.regions.polygon_table import PolygonTable
from stqsh.core.state.table import add_derived

if TYPE_CHECKING:
    from stqsh.core.conditions.extents import Extents


class AnswerMembers(NamedTuple):
    """Members of answers, (n,) each: positions of queries, objects and their versions."""

    query: Array
    obj: Array
    version: Array

    def where(self, which: Array) -> AnswerMembers:
        """Return the chosen rows, given by a mask or by positions."""
        return AnswerMembers(*(column[which] for column in self))


NO_MEMBERS = AnswerMembers(*(np.empty(0, np.int32) for _ in range(3)))


@dataclass(frozen=True)
class QueryContext:
    """The data that all parts of a batch's evaluation of queries with regions share.

    Attributes:
        batch: The batch.
        queries: The queries.
        conditions: Their conditions.
        prefix: The prefix of the kind's arrays, such as `s3/range`.
        focals: The object on this slot that is each query's focal object, int32; -1 for none.
        staying: Whether pairs where an object stays inside are wanted, for all queries or for each, bool
            (queries,). Otherwise they are returned only for queries with a condition or shape to test.
    """

    batch: StreamBatch
    queries: QueryTable
    conditions: QueryConditions
    prefix: str
    focals: Array
    staying: bool | Array = False

    @property
    def planar(self) -> bool:
        """Whether the stream's coordinates are planar."""
        return self.batch.spec.planar

    @cached_property
    def circles(self) -> QueryCircles:
        """The circles of fixed regions."""
        queries = self.queries
        mine = (queries.shape == CIRCLE) & (queries.focal < 0)
        x, y = (np.where(mine, column, np.nan) for column in (queries.x1, queries.y1))
        return QueryCircles(x, y, queries.radius)

    @cached_property
    def covered(self) -> Array:
        """Which unbounded queries are matched only in the moving regions that cover their conditions.

        In an index of boxes every event would match them. Queries with keywords are not included, because
        they are found by their keywords. The value is bool (queries,).
        """
        queries, covered = self.queries, self.conditions.are_covered
        if not covered.any():
            return covered
        everywhere = np.isneginf(queries.x1) & np.isneginf(queries.y1)
        everywhere &= np.isposinf(queries.x2) & np.isposinf(queries.y2)
        covered &= everywhere & (queries.shape == RECT) & (queries.focal < 0)
        keywords = keywords_of(self.batch, self.prefix)
        return covered if keywords is None else covered & ~np.isin(queries.id, keywords.queries.id)

    def centres(self, positions: Array, steps: Array) -> tuple[Array, Array]:
        """Return the centres of queries after steps, float64 (n,) each; NaN if there is none."""
        x, y = self.circles.x[positions], self.circles.y[positions]
        focal = self.queries.focal[positions]
        moving = np.flatnonzero(focal >= 0)
        if len(moving):
            x[moving], y[moving] = self.batch.focal.places(focal[moving], steps[moving])
        return x, y

    def distances(self, positions: Array, versions: Array, step: int | Array) -> Array:
        """Return the distances of versions' places from queries' centres after a step, float64 (n,).

        `step` may have a step for each, int64 (n,).
        """
        if self.batch.spec.extent is not None:
            return self.extent_distances(self.extents(versions), positions, np.full(len(versions), step))
        rows, stored = self.batch.objects.sources
        shown = versions.astype(np.int64)
        x, y = (
            gather(frozen(old), frozen(new), shown) for old, new in ((stored.x, rows.x), (stored.y, rows.y))
        )
        return distances_between(*self.centres(positions, np.full(len(shown), step)), x, y, self.planar)

    def extent_distances(self, mine: Extents, positions: Array, steps: Array) -> Array:
        """Return the distances of extents from queries' centres after their own steps, float64 (n,).

        Neighbours of an object are measured from its extent; regions around it have the centre of its box.
        """
        from stqsh.core.conditions import extents  # shapely: only when needed

        x, y = self.centres(positions, steps)
        focal = self.queries.focal[positions]
        is_around = (self.queries.k[positions] > 0) & (focal >= 0) & ~np.isnan(x)
        far = extents.distances(mine, np.where(is_around, np.nan, x), y, self.planar)
        around = np.flatnonzero(is_around)
        if len(around):
            theirs = self.focal_extents(focal[around], steps[around])
            far[around] = extents.gaps(mine.take(around), theirs, self.planar)
        return far

    def extents(self, versions: Array) -> Extents:
        """Return the extents of versions, int32 (n,)."""
        from stqsh.core.conditions.extents import extents_of

        extent = self.batch.spec.extent
        column = None if extent is None else self.batch.objects.coded(extent)
        assert column is not None, "the objects have an extent, which is a text"
        every = extents_of(column)
        none = len(every.shapes) - 1
        return every._replace(of_row=np.append(every.of_row, none)[versions])

    def focal_extents(self, focal: Array, steps: Array) -> Extents:
        """Return the extents of focal objects, int32 (n,), after their own steps."""
        from stqsh.core.conditions.extents import extents_of

        objects, extent = self.batch.focal, self.batch.spec.extent
        assert extent is not None, "the objects have an extent"
        versions = objects.versions_after(focal, steps)
        column = objects.table.columns.show_coded(extent, objects.rows, versions)
        assert column is not None, "an extent is a text"
        return extents_of(column)

    def boxes(self, positions: Array, step: int) -> Array:
        """Return the boxes of regions after a step, float64 (n, 4); NaN while a focal object is absent."""
        queries = self.queries
        corners = queries.x1, queries.y1, queries.x2, queries.y2
        boxes = np.column_stack([corner[positions] for corner in corners])
        radius, focal = queries.radius[positions], queries.focal[positions]
        round_ = queries.shape[positions] == CIRCLE
        moving = np.flatnonzero((focal >= 0) & ~round_)
        if not len(moving) and not round_.any():
            return boxes
        x, y = self.centres(positions, np.full(len(positions), step))
        width, height, reach = boxes[moving, 0], boxes[moving, 1], boxes[moving, 2]
        boxes[moving] = extended_boxes(x[moving], y[moving], width, height, reach, self.planar)
        boxes[round_] = circle_boxes(x[round_], y[round_], radius[round_], self.planar)
        return boxes

    def filter_pairs(self, pairs: CandidatePairs, events: Transitions) -> CandidatePairs:
        """Drop focal objects from the pairs of their own queries, and test shapes and conditions.

        Shapes of moving regions have already been tested.
        """
        if (self.focals >= 0).any():
            others = self.focals[pairs.query] != events.obj[pairs.event]
            pairs = CandidatePairs(*(column[others] for column in pairs))
        return self.conditions.filter_pairs(self.filter_by_shape(pairs, events), events)

    def filter_by_shape(self, pairs: CandidatePairs, events: Transitions) -> CandidatePairs:
        """Clear WAS and IS where a place is in the box of a fixed shape, but not in the shape."""
        if len(pairs.event) and not np.isnan(self.circles.x).all():
            pairs = pairs._replace(flags=filter_circles(pairs, events, self.circles, self.planar))
        if (self.queries.shape == AREA).any():
            pairs = pairs._replace(flags=_filter_areas(self, pairs, events))
        return pairs

    def members(self, positions: Array, step: int, among: Array | None = None) -> AnswerMembers:
        """Return the members of queries' answers after a step, first - 1 .. last (SOLE Algorithm 3).

        `among`, int32, ascending, restricts the search to these objects.
        """
        if not len(positions):
            return NO_MEMBERS
        arrivals = arrivals_at(self.batch.objects, step, among)
        pairs = self.holders(positions, arrivals, step)
        return AnswerMembers(pairs.query, arrivals.obj[pairs.event], arrivals.new[pairs.event])

    def holders(self, positions: Array, arrivals: Transitions, step: int) -> CandidatePairs:
        """Return the pairs of arrivals and queries, by position, whose members they are after a step."""
        pairs = self._in_boxes(positions, arrivals, step)
        return _held(self.filter_pairs(self._in_circles(pairs, arrivals, step), arrivals))

    def in_fixed_regions(self, positions: Array, arrivals: Transitions, step: int) -> CandidatePairs:
        """Return the pairs of arrivals and queries, by position, in whose fixed regions they are."""
        return _held(self.filter_by_shape(self._in_boxes(positions, arrivals, step), arrivals))

    def within(self, positions: Array, x: Array, y: Array, step: int) -> Array:
        """Return whether each place, (n,), is in the region of its query after a step; bool (n,)."""
        boxes, count = self.boxes(positions, step), len(positions)
        inside = (boxes[:, 0] <= x) & (x <= boxes[:, 2]) & (boxes[:, 1] <= y) & (y <= boxes[:, 3])
        nowhere, none = np.full(count, np.nan), np.full(count, -1, np.int32)
        events = Transitions(np.full(count, step, np.int64), none, none, none, nowhere, nowhere, x, y)
        flags = np.where(inside, np.uint8(IS), np.uint8(0))
        pairs = CandidatePairs(np.arange(count, dtype=np.int32), positions.astype(np.int32), flags)
        pairs = self.filter_by_shape(self._in_circles(pairs, events, step), events)
        within: Array = pairs.flags != 0
        return within

    def _in_boxes(self, positions: Array, arrivals: Transitions, step: int) -> CandidatePairs:
        """Return the pairs of queries and arrivals in their boxes; terms are tested too."""
        keywords, keyworded = keywords_of(self.batch, self.prefix), []
        if keywords is not None:
            by_terms = keywords.queries.id[keywords.queries.by_terms]
            with_terms = np.isin(self.queries.id[positions], by_terms)
            mine, positions = np.sort(positions[with_terms]), positions[~with_terms]
            index = keywords.alone(self.queries.id[mine], self.boxes(mine, step))
            found = keyword_pairs(self.batch, index, arrivals)
            keyworded = [found._replace(query=mine[found.query].astype(np.int32))]
        tag = np.arange(len(positions), dtype=np.int32) * 2
        found = join(arrivals, *rect_lists(self.boxes(positions, step), tag))
        pairs = found._replace(query=positions[found.query].astype(np.int32))
        return CandidatePairs(*(np.concatenate(columns) for columns in zip(pairs, *keyworded, strict=True)))

    def _in_circles(self, pairs: CandidatePairs, arrivals: Transitions, step: int) -> CandidatePairs:
        """Filter pairs by moving circles and rectangles over the 180th meridian, as after a step."""
        queries = self.queries
        mine = (queries.shape == CIRCLE) & (queries.focal >= 0)
        pairs = _filter_wide_rectangles(self, pairs, arrivals, step)
        if not mine.any():
            return pairs
        x, y = np.full(len(queries), np.nan), np.full(len(queries), np.nan)
        at = np.flatnonzero(mine)
        x[at], y[at] = self.centres(at, np.full(len(at), step))
        circles = QueryCircles(x, y, queries.radius)
        return pairs._replace(flags=filter_circles(pairs, arrivals, circles, self.planar))


def _held(pairs: CandidatePairs) -> CandidatePairs:
    """Return the pairs with WAS or IS."""
    held = pairs.flags != 0
    return CandidatePairs(*(column[held] for column in pairs))


def context_of(
    batch: StreamBatch,
    queries: QueryTable,
    conditions: QueryConditions,
    prefix: str,
    *,
    staying: bool | Array = False,
) -> QueryContext:
    """Return the context of a batch, valid until queries are added or removed."""
    focal = queries.focal
    own = np.full(len(focal), -1, np.int32)
    moving = np.flatnonzero(focal >= 0)
    if len(moving):
        own[moving] = own_objects(batch)[focal[moving]]
    return QueryContext(batch, queries, conditions, prefix, own, staying)


def own_objects(batch: StreamBatch) -> Array:
    """Return the object on this slot for each focal object, -1 for none; int32 (focal objects,).

    It is kept in the array `s{id}/own/object`; `s{id}/own/seen`, int64 (1,), is the number of objects already
    covered. Only keys that are new in one of the tables are looked up, because there may be as many focal
    objects as queries.
    """
    state, focal, objects = batch.state, batch.focal.table, batch.objects.table
    prefix = f"s{batch.spec.id}/own"
    if f"{prefix}/seen" not in state:
        add_derived(state, prefix, "objects")
        state.create(f"{prefix}/object", np.int32)
        state.create(f"{prefix}/seen", np.int64, 1)
    known, seen = len(state.array(f"{prefix}/object")), state.array(f"{prefix}/seen")
    own = state.resize(f"{prefix}/object", len(focal))
    if known < len(focal):
        new = np.arange(known, len(focal), dtype=np.int32)
        own[new] = objects.keys.find(focal.show_keys(new))
    if known and seen[0] < len(objects):
        new = np.arange(seen[0], len(objects), dtype=np.int32)
        at = focal.keys.find(objects.show_keys(new))
        own[at[at >= 0]] = new[at >= 0]
    seen[0] = len(objects)
    return own


def _filter_wide_rectangles(
    context: QueryContext, pairs: CandidatePairs, arrivals: Transitions, step: int
) -> CandidatePairs:
    """Filter pairs by the moving rectangles that cross the 180th meridian after a step."""
    queries = context.queries
    at = np.flatnonzero((queries.focal >= 0) & (queries.shape != CIRCLE) & ~(queries.reach > 0))
    at = at[np.isneginf(context.boxes(at, step)[:, 0])] if not context.planar else at[:0]
    if not len(at):
        return pairs
    x, y = np.full(len(queries), np.nan), np.full(len(queries), np.nan)
    x[at], y[at] = context.centres(at, np.full(len(at), step))
    tested = np.flatnonzero(~np.isnan(x[pairs.query]))
    query, lon = pairs.query[tested], arrivals.nx[pairs.event[tested]]
    flags = pairs.flags.copy()
    flags[tested[are_beside(lon, x[query], y[query], queries.x1[query])]] &= ~np.uint8(IS)
    return pairs._replace(flags=flags)


def _filter_areas(context: QueryContext, pairs: CandidatePairs, events: Transitions) -> Array:
    """Return the flags of pairs, without WAS or IS if that place is outside of the query's polygon."""
    areas, flags = PolygonTable(context.batch.state), pairs.flags.copy()
    row = context.queries.area[pairs.query]
    for flag, x, y in ((WAS, events.ox, events.oy), (IS, events.nx, events.ny)):
        at = np.flatnonzero((row >= 0) & (flags & flag != 0))
        event, factor = pairs.event[at], factors(context.queries, pairs.query[at])
        outside = ~areas.contains(row[at], x[event], y[event], factor)
        flags[at[outside]] &= ~np.uint8(flag)
    return flags
