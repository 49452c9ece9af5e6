"""The input of a snapshot on one slot: the present objects, their rows, and the query's region."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.conditions.evaluation import columns_read, compute_shown, evaluate
from stqsh.core.conditions.region_test import RegionNow
from stqsh.core.conditions.resolver import Resolver
from stqsh.core.kernels.events.transitions import StoredArrays
from stqsh.core.kernels.geometry.distance import distances
from stqsh.core.kernels.index.scan import EVER, count_in_box, in_box
from stqsh.core.objects.kept_sizes import stored_floor
from stqsh.core.objects.object_table import ObjectTable
from stqsh.core.objects.row_table import RowTable
from stqsh.core.state.slot_state import SlotState
from stqsh.core.texts.tokenizer import contains
from stqsh.spec.expression import (
    ColumnExpr,
    CompareExpr,
    ContainsExpr,
    DistanceExpr,
    Expr,
    JoinExpr,
    LiteralExpr,
    has_node,
    rewrite,
)
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.region import Key, Place
from stqsh.spec.stream import stream_spec

EVERYWHERE = np.array([-np.inf, -np.inf, np.inf, np.inf])
"""The box that holds all places: x1, y1, x2, y2."""

NOWHERE = RegionNow(np.full(4, np.nan))
"""A region that holds no place, for rows whose region is not needed."""

_DISTANCE = ColumnExpr("\0distance")
"""The column for DISTANCE in an expression; no declared column can have this name."""


@dataclass(frozen=True)
class PresentObjects:
    """The objects of a stream on a slot after the slot's last step.

    Attributes:
        table: The objects.
        resolver: The tables and areas.
        now: The meaning of NOW, µs: the step's time, or another instant.
        since: Objects with records older than this, µs, are no longer present.
        until: Objects with records of this time or later, µs, are not members of a snapshot.
    """

    table: ObjectTable | RowTable
    resolver: Resolver
    now: int
    since: int
    until: int | None = None

    @staticmethod
    def of(state: SlotState, stream_id: int, *, at_end: bool = False) -> PresentObjects | None:
        """Return a stream's objects, None if the slot does not have the stream; the state is only read.

        The objects are those at the step's time, or with `at_end` those at the end of its tick. A closing
        step has no tick of its own: its time is the end of the tick before.
        """
        known = state.entry("streams").get(str(stream_id))
        if known is None:
            return None
        spec = stream_spec(known)
        clock = state.clock
        tick = clock.end_tick if at_end else (clock.base_tick or 0) + clock.step - 1
        now = tick * (clock.tick_us or 1)
        lasts = spec.keep_us if spec.is_event else spec.report_every_us
        table = ObjectTable(state, f"s{stream_id}/objects", spec)
        since = max(EVER if lasts is None else now - lasts, stored_floor(state, spec))
        return PresentObjects(table, Resolver(state, spec), now, since)

    def within(self, window_us: int) -> PresentObjects:
        """Return the objects whose records are from `now - window_us` or later."""
        return replace(self, since=max(self.since, self.now - window_us), until=self.now)

    def of_all_times(self) -> PresentObjects:
        """Return all stored objects, including those that are no longer present."""
        return replace(self, since=EVER)

    @cached_property
    def stored(self) -> StoredArrays:
        """The stored places and times, including those of objects that are not present."""
        return self.table.stored

    def find(self, key: Any) -> Array:
        """Return the object with a key, present or not; int32 (0,) or (1,)."""
        return self.table.find(key)

    def among(self, objects: Array) -> Array:
        """Return those of the given objects that are present."""
        stored = self.stored
        there = stored.known[objects] & (stored.ts[objects] >= self.since) & ~np.isnan(stored.x[objects])
        return objects[there]

    def places(self, objects: Array) -> tuple[Array, Array]:
        """Return the places of objects: x and y, float64 (n,) each."""
        return self.stored.x[objects], self.stored.y[objects]


class StoredRows:
    """The rows of some objects, int32 (n,), for the evaluation of expressions.

    Values may be views of the state, which are valid until it changes.
    """

    def __init__(self, present: PresentObjects, objects: Array, reach: RegionNow) -> None:
        self._present, self._objects, self._reach = present, objects, reach
        self._read: dict[str, pa.Array[Any]] = {}

    def truth(self, condition: Expr) -> Array:
        """Return whether a condition holds, bool (n,); UNKNOWN counts as False."""
        columns, plain = self._operands(condition)
        truth = evaluate(plain, columns, self._present.now, self._present.resolver)
        verdict: Array = truth.fill_null(False).to_numpy(zero_copy_only=False)
        return verdict

    def coded(self, expr: Expr) -> pa.Array[Any]:
        """Return the values of an expression, possibly dictionary-encoded; see `value`."""
        if isinstance(expr, ColumnExpr):
            return self._present.table.view(expr.name, self._objects, coded=True)
        return self.value(expr)

    def value(self, expr: Expr) -> pa.Array[Any]:
        """Return the values of an expression; plain columns keep their declared Arrow types."""
        if isinstance(expr, ColumnExpr):
            return self._column(expr.name)
        if isinstance(expr, JoinExpr):
            by, tables = expr.column, self._present.resolver.tables
            keys = self._column(by) if isinstance(by, str) else self.value(by)
            joined: pa.Array[Any] = tables.values(expr.table, keys, expr.wanted)
            return joined
        if isinstance(expr, DistanceExpr):
            return self._distance()
        columns, plain = self._operands(expr)
        value: pa.Array[Any] = compute_shown(plain, columns, self._present.now, self._present.resolver)
        return value

    def _operands(self, expr: Expr) -> tuple[dict[str, pa.Array[Any]], Expr]:
        """Return the columns that an expression reads: at least one, because constants need a length too."""
        expr, columns = self._without_phrases(expr)
        names = columns_read(expr, self._present.resolver.location) - set(columns)
        columns |= {name: self._column(name) for name in sorted(names)}
        if has_node(expr, DistanceExpr):
            columns[_DISTANCE.name] = self._distance()
            expr = rewrite(expr, lambda node: _DISTANCE if isinstance(node, DistanceExpr) else None)
        return columns or {"": pa.nulls(len(self._objects))}, expr

    def _without_phrases(self, expr: Expr) -> tuple[Expr, dict[str, pa.Array[Any]]]:
        """Replace each search for a phrase in a column by a column of its results; return these by name.

        Each distinct text is searched only once.
        """
        found: dict[str, pa.Array[Any]] = {}

        def sought(node: Expr) -> Expr | None:
            match node:
                case ContainsExpr(ColumnExpr() as text, str(phrase), how):
                    column = ColumnExpr(f"\0contains {len(found)}")
                    found[column.name] = contains(self.coded(text), pa.scalar(phrase), how)
                    return column
            return None

        return rewrite(expr, sought), found

    def _column(self, name: str) -> pa.Array[Any]:
        if name not in self._read:
            self._read[name] = self._present.table.view(name, self._objects)
        return self._read[name]

    def _distance(self) -> pa.Array[Any]:
        if self._reach.centre is None:
            return pa.nulls(len(self._objects), pa.float64())
        far: pa.Array[Any] = pa.array(distances_of(self._present, self._objects, self._reach))
        return far


def distances_of(present: PresentObjects, objects: Array, reach: RegionNow) -> Array:
    """Return the distances of objects, int32 (n,), from the centre of a region, float64 (n,).

    Those of objects with an extent are between their nearest points and the centre, or the focal object's
    extent.
    """
    assert reach.centre is not None, "only regions with a centre have distances"
    planar, extent = present.resolver.planar, present.table.spec.extent
    if extent is None:
        return distances(*reach.centre, *present.places(objects), planar)
    from stqsh.core.conditions import extents  # shapely: only when needed

    mine = extents.extents_of(present.table.view(extent, objects, coded=True))
    if reach.extent:
        theirs = extents.extents_of(pa.array([reach.extent])).take(np.zeros(len(objects), np.int64))
        return extents.gaps(mine, theirs, planar)
    x, y = (np.full(len(objects), axis) for axis in reach.centre)
    return extents.distances(mine, x, y, planar)


def least_distances_of(present: PresentObjects, objects: Array, reach: RegionNow) -> Array:
    """Return bounds that no result of `distances_of` is below, for objects with an extent."""
    from stqsh.core.conditions import extents

    planar, extent = present.resolver.planar, present.table.spec.extent
    assert reach.centre is not None and extent is not None, "extents are measured from a centre"
    mine = extents.extents_of(present.table.view(extent, objects, coded=True))
    x, y = (np.full(len(objects), axis) for axis in reach.centre)
    bounds = extents.least_distances(mine, x, y, planar)
    if reach.extent:
        bounds = bounds - extents.reaches_of_boxes(extents.extents_of(pa.array([reach.extent])), planar)
    return bounds


@dataclass(frozen=True)
class SnapshotSelection:
    """A snapshot on one slot: the operators that kinds combine (SOLE section 7).

    All methods take and return objects, int32 (n,).

    Attributes:
        present: The objects.
        spec: The snapshot.
        reach: Its current region.
    """

    present: PresentObjects
    spec: SnapshotSpec
    reach: RegionNow

    @property
    def is_box_only(self) -> bool:
        """Whether all objects in the region's box are members, without further tests."""
        spec = self.spec
        return spec.condition is None and self.reach.shape is None and spec.region.focal_key is None

    @property
    def centre(self) -> Place:
        """The origin of the region's distances."""
        assert self.reach.centre is not None, "only regions with a centre have distances"
        return self.reach.centre

    def everything(self) -> Array:
        """Return all objects that are present."""
        return in_box(self.present.stored, self.present.since, EVERYWHERE)

    def count_in_box(self) -> int:
        """Return how many objects are in the region's box."""
        return int(count_in_box(self.present.stored, self.present.since, self.reach.box))

    def in_region(self) -> Array:
        """Return the objects in the region."""
        objects = in_box(self.present.stored, self.present.since, self.reach.box)
        if self.reach.shape is not None:
            objects = objects[self.reach.shape(*self.present.places(objects))]
        return objects

    def with_key(self, key: Key) -> Array:
        """Return the object with a key, without a scan, if it is a member (CheetahGIS section VI-A)."""
        objects = self.present.among(self.present.find(key))
        return self.satisfying(objects[self.reach.holds(*self.present.places(objects))])

    def satisfying(self, objects: Array) -> Array:
        """Return the objects that satisfy the condition; a focal object is not a member of its own query."""
        key, condition = self.spec.region.focal_key, self._condition
        if self.present.until is not None:
            objects = objects[self.present.stored.ts[objects] < self.present.until]
        if key is not None:
            objects = objects[~np.isin(objects, self.present.find(key))]
        if condition is not None and len(objects):
            objects = objects[StoredRows(self.present, objects, self.reach).truth(condition)]
        return objects

    def distances(self, objects: Array) -> Array:
        """Return the distances of objects from the region's centre, float64 (n,)."""
        if not len(objects):  # without objects there may be no centre
            return np.empty(0)
        return distances_of(self.present, objects, self.reach)

    def least_distances(self, objects: Array) -> Array:
        """Return bounds that the distances of objects with an extent are not below, float64 (n,)."""
        return least_distances_of(self.present, objects, self.reach)

    @property
    def _condition(self) -> Expr | None:
        """The condition, without the comparison of the key that `with_key` has already made."""
        match self.spec.condition:
            case CompareExpr("=", ColumnExpr(column), LiteralExpr(value, _)):
                is_lookup = column == self.present.table.spec.key and value == self.spec.lookup
                return None if is_lookup and value is not None else self.spec.condition
        return self.spec.condition
