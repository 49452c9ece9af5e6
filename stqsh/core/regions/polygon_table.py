"""The polygons of a slot, named or of queries, as arrays of edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.kernels.geometry.polygons import PolygonArrays, build_polygons, inside, inside_scaled
from stqsh.core.kernels.jit import frozen
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, StateTable

Rings = Sequence[Sequence[Sequence[float]]]

_FREE, _INLINE, _NAMED = 0, 1, 2
_HALF_TURN = 180.0
_SPARE = 4096
"""Lists are compacted if entries of removed areas outnumber the others by more than this."""


class PolygonTable(StateTable):
    """The areas of a slot, in rows with constant numbers.

    Arrays below `areas/`: those of `PolygonArrays` (box and edge flat), and use uint8, whether a row is free,
    a query's own polygon, or part of a named area. The header's entry "areas" holds the first row of each
    named area and the number of its members, whose names are in the interner `areas/{id}/names`.
    """

    use = ArraySpec(np.uint8)
    bands = ArraySpec(np.int32)
    per_y = ArraySpec(np.float64)
    at = ArraySpec(np.int64)
    box = ArraySpec(np.float64, width=4)
    edge = ArraySpec(np.float64, length=0)
    start = ArraySpec(np.int64, length=0)

    def __init__(self, state: SlotState) -> None:
        super().__init__(state, "areas")
        self._named: dict[str, list[int]] = state.entry("areas")

    def define(self, area: int, batch: pa.RecordBatch) -> None:
        """Add a named area; an existing one does not change.

        Args:
            area: Its id.
            batch: The columns member (string, null for a single region) and wkb (binary); members are unique.
        """
        if str(area) in self._named:
            return
        wkb = batch.column("wkb").to_numpy(zero_copy_only=False)
        rows = np.arange(len(self), len(self) + len(wkb))
        self._store_rows(rows, build_polygons(*_edges_of(wkb)), _NAMED)
        self._named[str(area)] = [int(rows[0]) if len(rows) else 0, len(rows)]
        _names(self.state, area).intern(batch.column("member"))

    def drop(self, area: int) -> None:
        """Remove a named area, if it exists."""
        if str(area) in self._named:
            first, count = self._named.pop(str(area))
            self.state.release(f"areas/{area}/")
            self._free(np.arange(first, first + count))

    def row_of(self, area: int, member: str | None = None) -> int:
        """Return the row of a named area, or of a member of a set; -1 if there is no such member.

        Raises:
            KeyError: there is no such area.
        """
        first, _ = self._named[str(area)]
        index = int(_names(self.state, area).find(pa.array([member], pa.string()))[0])
        return first + index if index >= 0 else -1

    def first_members(self, area: int, x: Array, y: Array, *, planar: bool) -> pa.Array[Any]:
        """Return the first region by name of a set that holds each point, NULL if none does; string (n,).

        Unless points are `planar`, a region over the 180th meridian continues on the other side.

        Raises:
            KeyError: there is no such set.
        """
        first, count = self._named[str(area)]
        names = _names(self.state, area).strings()
        found = np.full(len(x), -1, np.int64)
        left = np.flatnonzero(~np.isnan(x))
        boxes = self.boxes(np.arange(first, first + count))
        for member in pc.sort_indices(names).to_numpy():
            x1, y1, x2, y2 = boxes[member]
            for turn in (0.0,) if planar else _turns(x1, x2):
                at = x[left] + turn
                near = left[(x1 <= at) & (at <= x2) & (y1 <= y[left]) & (y[left] <= y2)]
                held = near[self.contains(np.full(len(near), first + member), x[near] + turn, y[near])]
                found[held] = member
                left = left[found[left] < 0]
        positions: Any = pa.array(found, mask=found < 0)
        members: pa.Array[Any] = names.take(positions)
        return members

    def intern_polygons(self, polygons: Sequence[Rings]) -> Array:
        """Add polygons, each as the closed rings of its border and holes; return their rows, int32 (n,)."""
        free = np.flatnonzero(self.use == _FREE)[: len(polygons)]
        rows = np.concatenate([free, np.arange(len(self), len(self) + len(polygons) - len(free))])
        self._store_rows(rows, build_polygons(*_edges_of_rings(polygons)), _INLINE)
        return rows.astype(np.int32)

    def release_polygons(self, rows: Array) -> None:
        """Remove the polygons of queries among these rows; rows of named areas stay, and -1 is ignored."""
        rows = rows[rows >= 0]
        self._free(rows[self.use[rows] == _INLINE])

    def boxes(self, rows: Array) -> Array:
        """Return the boxes of rows, float64 (n, 4): x1, y1, x2, y2; NaN for an empty area and for -1."""
        boxes = np.full((len(rows), 4), np.nan)
        boxes[rows >= 0] = polygon_arrays(self).box[rows[rows >= 0]]
        return boxes

    def contains(self, rows: Array, x: Array, y: Array, factor: Array | None = None) -> Array:
        """Return whether each point belongs to the area in its row, or its border; bool (n,).

        `factor`, float64 (n,), 0 .. 1, scales each area about the middle of its box.
        """
        found = inside(rows.astype(np.int32), frozen(x), frozen(y), polygon_arrays(self))
        if factor is not None:
            at = np.flatnonzero(factor < 1)
            found[at] = inside_scaled(
                rows[at].astype(np.int32), x[at], y[at], factor[at], polygon_arrays(self)
            )
        return found

    def edges(self, row: int) -> Array:
        """Return the edges of the area in a row, float64 (n, 4), once for each band that they cross."""
        own = polygon_arrays(self)
        first = int(own.at[row])
        return own.edge[own.start[first] : own.start[first + int(own.bands[row])]]

    def _store_rows(self, rows: Array, laid: PolygonArrays, use: int) -> None:
        """Store areas in free or new rows."""
        if not len(rows):
            return
        size = max(len(self), int(rows[-1]) + 1)
        entries, lists = len(self.edge) // 4, len(self.start)
        self.grow(edge=laid.edge.reshape(-1), start=laid.start + entries)
        self.resize(size)
        own = polygon_arrays(self)
        own.box[rows], own.bands[rows], own.per_y[rows] = laid.box, laid.bands, laid.per_y
        own.at[rows] = laid.at + lists
        self.use[rows] = use

    def _free(self, rows: Array) -> None:
        """Free rows; compact lists once more than half of all entries belong to removed areas."""
        self.use[rows] = _FREE
        polygon_arrays(self).box[rows] = np.nan
        left = np.flatnonzero(self.use != _FREE)
        size = int(left[-1]) + 1 if len(left) else 0
        self.resize(size)
        own = polygon_arrays(self)
        first, last = own.start[own.at[left]], own.start[own.at[left] + own.bands[left]]
        if len(own.edge) > 2 * int((last - first).sum()) + _SPARE:
            start, edge = _compacted(own, left, first, last)
            self.store(start=start, edge=edge.reshape(-1))


def _turns(west: float, east: float) -> list[float]:
    """Return the degrees to add to points from -180 to 180 so that they may lie between two longitudes."""
    if not max(abs(west), abs(east)) > _HALF_TURN:
        return [0.0]
    turn = 2 * _HALF_TURN
    first, last = math.ceil((west - _HALF_TURN) / turn), math.floor((east + _HALF_TURN) / turn)
    return [turn * number for number in range(first, last + 1)]


def polygon_arrays(table: PolygonTable) -> PolygonArrays:
    """Return the arrays of a table for kernels, valid until an array is resized."""
    box, edge = table.box.reshape(-1, 4), table.edge.reshape(-1, 4)
    return PolygonArrays(box, table.bands, table.per_y, table.at, table.start, edge)


def _names(state: SlotState, area: int) -> Interner:
    """Return the names of the members of a set of regions."""
    return Interner(state, f"areas/{area}/names")


def _compacted(own: PolygonArrays, left: Array, first: Array, last: Array) -> tuple[Array, Array]:
    """Return starts and edges with only the entries first .. last of the remaining rows; moves `at`."""
    lists = own.bands[left] + np.int64(1)
    shift = first - np.concatenate([[0], np.cumsum(last - first)[:-1]])
    start = own.start[_ranges(own.at[left], lists)] - np.repeat(shift, lists)
    edge = own.edge[_ranges(first, last - first)]
    own.at[left] = np.cumsum(lists) - lists
    return start, edge


def _ranges(first: Array, count: Array) -> Array:
    """Concatenate the ranges from first to first + count of each row; int64."""
    ends = np.cumsum(count)
    numbers: Array = np.repeat(first - (ends - count), count)
    numbers += np.arange(len(numbers))
    return numbers


def _edges_of(wkb: Array) -> tuple[Array, Array]:
    """Return the edges of geometries, float64 (n, 4), and the start of each one's edges, int64 (m + 1,)."""
    import shapely  # slow to import, and few slots have areas

    shapes = shapely.from_wkb(wkb)
    mixed = shapely.get_type_id(shapes) == shapely.GeometryType.GEOMETRYCOLLECTION
    parts, owner = np.array(shapes, object), np.arange(len(shapes))
    parts[mixed] = [shapely.unary_union(shape) for shape in parts[mixed]]  # overlaps would count twice
    while (shapely.get_type_id(parts) > shapely.GeometryType.POLYGON).any():
        parts, index = shapely.get_parts(parts, return_index=True)
        owner = owner[index]
    solid = shapely.get_type_id(parts) == shapely.GeometryType.POLYGON
    rings, index = shapely.get_rings(parts[solid], return_index=True)
    borders = _segments(*shapely.get_coordinates(rings, return_index=True))
    thin = np.flatnonzero(~solid)
    lines = _segments(*shapely.get_coordinates(parts[thin], return_index=True))
    points = np.flatnonzero(shapely.get_type_id(parts) == shapely.GeometryType.POINT)
    places = shapely.get_coordinates(parts[points])
    edges = [borders[0], lines[0], lines[0][:, [2, 3, 0, 1]], np.hstack([places, places])]
    along = owner[thin][lines[1]]
    owners = np.concatenate([owner[solid][index][borders[1]], along, along, owner[points]])
    order = np.argsort(owners, kind="stable")
    return np.concatenate(edges)[order], np.searchsorted(owners[order], np.arange(len(shapes) + 1))


def _edges_of_rings(polygons: Sequence[Rings]) -> tuple[Array, Array]:
    """Return the edges of polygons given as lists of rings, as `_edges_of` does."""
    rings = [(i, ring) for i, polygon in enumerate(polygons) for ring in polygon]
    places = np.array([place for _, ring in rings for place in ring], np.float64).reshape(-1, 2)
    edges, ring = _segments(places, np.repeat(np.arange(len(rings)), [len(ring) for _, ring in rings]))
    owners = np.array([i for i, _ in rings], np.int64)[ring]
    return edges, np.searchsorted(owners, np.arange(len(polygons) + 1))


def _segments(places: Array, line: Array) -> tuple[Array, Array]:
    """Return the segments between successive places of lines, float64 (n, 4), and their lines, (n,)."""
    goes_on = line[:-1] == line[1:]
    return np.hstack([places[:-1], places[1:]])[goes_on], line[:-1][goes_on]
