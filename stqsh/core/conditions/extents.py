"""Test extents against fixed regions, and measure distances to them.

An extent is the shape of an object: a point, line or polygon, or several of them, as WKT. Its edges are
straight in the stream's coordinates, as those of regions are. Each distinct text of a column is parsed once.
Boxes decide most pairs of extent and region; the predicates of GEOS, which are exact, decide the others.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import shapely

from stqsh.arrays import Array
from stqsh.core.kernels.geometry.circles import circle_boxes
from stqsh.core.kernels.geometry.distance import distances_between
from stqsh.core.kernels.jit import frozen
from stqsh.spec.expression import ExtentTestExpr

Relation: TypeAlias = Literal["inside", "intersects"]

_REGIONS_KEPT = 256
_EDGES_AT_ONCE = 1 << 20
"""About the most edges that are measured at once; each takes some hundred bytes."""
_HALF_TURN, _TURN = 180.0, 360.0


class Extents(NamedTuple):
    """The extents of n rows.

    Attributes:
        shapes: The distinct shapes, objects (m,).
        boxes: Their boxes x1, y1, x2, y2, float64 (m, 4).
        of_row: The number of each row's shape, int64 (n,); -1 for NULL.
    """

    shapes: Array
    boxes: Array
    of_row: Array

    def take(self, rows: Array) -> Extents:
        """Return the extents of some rows."""
        return self._replace(of_row=self.of_row[rows])


def extents_of(column: pa.Array[Any]) -> Extents:
    """Parse a column of WKT, which may be a dictionary."""
    coded: Any = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    shapes = shapely.from_wkt(coded.dictionary.to_numpy(zero_copy_only=False))
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    known = np.append(~shapely.is_missing(shapes), False)
    return Extents(shapes, shapely.bounds(shapes).reshape(-1, 4), np.where(known[codes], codes, -1))


def first_corners(column: pa.Array[Any]) -> tuple[Array, Array]:
    """Return x and y of the first corner of each extent, float64 (n,) each; NaN for NULL."""
    extents = extents_of(column)
    places, owner = shapely.get_coordinates(extents.shapes, return_index=True)
    corners = np.full((len(extents.shapes) + 1, 2), np.nan)
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    corners[owner[first]] = places[first]
    x, y = corners[extents.of_row].T
    return x, y


# ------------------------------------------------------------------------------------------------- tests
def in_rectangles(extents: Extents, corners: Array, relation: Relation) -> Array:
    """Return whether each extent has the relation to its own closed rectangle, float64 (n, 4); bool (n,).

    A rectangle holds an extent if it holds its box. It shares a point with it only if it overlaps its box,
    which is enough if it holds the box.
    """
    boxes = _boxes(extents)
    held = _hold(corners, boxes)
    if relation == "inside":
        return held
    open_ = np.flatnonzero(_overlap(corners, boxes) & ~held)
    left, some = extents.take(open_), corners[open_]
    shapely.prepare(left.shapes[np.unique(left.of_row)])
    held[open_] = shapely.intersects(left.shapes[left.of_row], _rectangles(some))
    return held


def in_circles(
    extents: Extents, circles: tuple[Array, Array, Array], relation: Relation, planar: bool
) -> Array:
    """Return whether each extent has the relation to its own circle, x, y and radius (n,) each; bool (n,).

    A circle holds an extent if it holds its corners, and shares a point with it if its centre is within the
    radius of the extent.
    """
    x, y, radius = (np.ascontiguousarray(one, np.float64) for one in circles)
    around, boxes = circle_boxes(x, y, radius, planar), _boxes(extents)
    found = _overlap(around, boxes) if relation == "intersects" else _hold(around, boxes)
    near = np.flatnonzero(found)
    measure = distances if relation == "intersects" else _reaches
    found[near] = measure(extents.take(near), x[near], y[near], planar) <= radius[near]
    return found


def in_polygon(extents: Extents, polygon: str, relation: Relation) -> Array:
    """Return whether each extent has the relation to a polygon, given as WKT; bool (n,)."""
    region = _region(polygon)
    corners = np.broadcast_to(np.array(region.bounds or [np.nan] * 4), extents.boxes.shape)
    test = shapely.covers if relation == "inside" else shapely.intersects
    near = _overlap(corners, extents.boxes)
    held = np.append(near, False)
    held[np.flatnonzero(near)] = test(region, extents.shapes[near])
    return held[extents.of_row]


def region_box(test: ExtentTestExpr) -> tuple[float, float, float, float]:
    """Return the box of a region whose numbers are constants."""
    if test.type == "polygon":
        x1, y1, x2, y2 = _region(test.polygon).bounds
        return x1, y1, x2, y2
    numbers = test.numbers()
    if test.type == "circle":
        x, y, radius = (np.array([number], np.float64) for number in numbers)
        numbers = circle_boxes(x, y, radius, test.planar)[0].tolist()
    x1, y1, x2, y2 = numbers
    return x1, y1, x2, y2


@lru_cache(_REGIONS_KEPT)
def _region(polygon: str) -> Any:
    """Return the region of a polygon or several; rings that cross themselves hold what they go around."""
    parts = shapely.make_valid(shapely.get_parts(shapely.from_wkt(polygon)))
    region = shapely.union_all(parts)
    shapely.prepare(region)
    return region


def _boxes(extents: Extents) -> Array:
    """Return the box of each row's extent, float64 (n, 4); NaN for NULL."""
    return np.append(extents.boxes, np.full((1, 4), np.nan), axis=0)[extents.of_row]


def _hold(corners: Array, boxes: Array) -> Array:
    held: Array = np.all(corners[:, :2] <= boxes[:, :2], axis=1) & np.all(
        boxes[:, 2:] <= corners[:, 2:], axis=1
    )
    return held


def _overlap(corners: Array, boxes: Array) -> Array:
    met: Array = np.all(corners[:, :2] <= boxes[:, 2:], axis=1) & np.all(
        boxes[:, :2] <= corners[:, 2:], axis=1
    )
    return met


def _rectangles(corners: Array) -> Array:
    """Return rectangles as shapes, objects (n,); those without an area become lines or points."""
    shapes: Array = np.asarray(shapely.box(*corners.T), object)
    flat = np.any(corners[:, :2] == corners[:, 2:], axis=1)
    shapes[flat] = shapely.linestrings(corners[flat].reshape(-1, 2, 2))
    spots = np.all(corners[:, :2] == corners[:, 2:], axis=1)
    shapes[spots] = shapely.points(corners[spots, :2])
    return shapes


# --------------------------------------------------------------------------------------------- distances
class _Edges(NamedTuple):
    """The edges of m shapes: x1, y1, x2, y2, float64 (e, 4), and the first of each, int64 (m + 1,)."""

    ends: Array
    first: Array

    def of(self, shapes: Array) -> tuple[Array, Array]:
        """Return the edges of some shapes, one shape after the other, and where each one's begin."""
        counts = self.first[shapes + 1] - self.first[shapes]
        starts = np.cumsum(counts) - counts
        at = np.repeat(self.first[shapes] - starts, counts) + np.arange(counts.sum())
        return self.ends[at], starts


def distances(extents: Extents, x: Array, y: Array, planar: bool) -> Array:
    """Return how far each extent is from its own place; float64 (n,), metres or units, NaN for NULL.

    It is 0 if the extent holds the place. Else it is that of the nearest point of an edge: exact on a plane;
    on the sphere that point is the nearest on a map on which longitudes are shortened by the cosine of the
    place's latitude, and the distance to it is that of the sphere. Either way around the globe counts. Cost:
    one distance an edge.
    """
    found = np.full(len(x), np.nan)
    rows = np.flatnonzero((extents.of_row >= 0) & ~np.isnan(x) & ~np.isnan(y))
    edges = edges_of(extents.shapes)
    for turn, some in _turned(extents, x, rows, planar):
        for part in _portions(edges, extents.of_row[some]):
            mine = some[part]
            ends, starts = edges.of(extents.of_row[mine])
            times = np.diff(starts, append=len(ends))
            at_x, at_y = np.repeat(x[mine], times), np.repeat(y[mine], times)
            to_x, to_y = _nearest_points(ends, at_x + turn, at_y, planar)
            far = distances_between(at_x, at_y, frozen(to_x), frozen(to_y), planar)
            found[mine] = np.fmin(found[mine], np.minimum.reduceat(far, starts))
        solid = some[shapely.get_dimensions(extents.shapes)[extents.of_row[some]] == 2]
        holding = shapely.intersects_xy(extents.shapes[extents.of_row[solid]], x[solid] + turn, y[solid])
        found[solid[holding]] = 0.0
    return found


def _reaches(extents: Extents, x: Array, y: Array, planar: bool) -> Array:
    """Return how far the farthest corner of each extent is from its own place; float64 (n,); none is NULL."""
    found, edges = np.empty(len(x)), edges_of(extents.shapes)
    for part in _portions(edges, extents.of_row):
        ends, starts = edges.of(extents.of_row[part])
        times = np.diff(starts, append=len(ends))
        at_x, at_y = np.repeat(x[part], times), np.repeat(y[part], times)
        x1, y1, x2, y2 = map(frozen, ends.T)
        begins = distances_between(at_x, at_y, x1, y1, planar)
        sides = begins, distances_between(at_x, at_y, x2, y2, planar)
        found[part] = np.maximum.reduceat(np.maximum(*sides), starts)
    return found


def _turned(extents: Extents, x: Array, rows: Array, planar: bool) -> list[tuple[float, Array]]:
    """Return the turns of the globe by which places may be near extents, and the rows for which they may."""
    if planar:
        return [(0.0, rows)] if len(rows) else []
    boxes = _boxes(extents)[rows]
    east, west = boxes[:, 2] - x[rows] > _HALF_TURN, x[rows] - boxes[:, 0] > _HALF_TURN
    turns = ((0.0, rows), (_TURN, rows[east]), (-_TURN, rows[west]))
    return [(turn, some) for turn, some in turns if len(some)]


def _portions(edges: _Edges, shapes: Array) -> list[slice]:
    """Return slices of rows with these shapes that have few enough edges; a single row may have more."""
    ends = np.cumsum(edges.first[shapes + 1] - edges.first[shapes])
    cuts, begin = [0], 0
    while begin < len(shapes):
        done = int(ends[begin - 1]) if begin else 0
        begin = max(begin + 1, int(np.searchsorted(ends, done + _EDGES_AT_ONCE, "right")))
        cuts.append(begin)
    return [slice(*pair) for pair in pairwise(cuts)]


def _nearest_points(ends: Array, x: Array, y: Array, planar: bool) -> tuple[Array, Array]:
    """Return the point of each edge that is nearest to its own place: x and y, float64 (n,) each."""
    x1, y1, x2, y2 = ends.T
    wide = 1.0 if planar else np.cos(np.radians(y))
    across, up = (x2 - x1) * wide, y2 - y1
    square = across * across + up * up
    along = ((x - x1) * wide * across + (y - y1) * up) / np.where(square > 0, square, 1.0)
    near, far = along <= 0, along >= 1
    points = []
    for begin, end in ((x1, x2), (y1, y2)):
        points.append(np.where(near, begin, np.where(far, end, begin + along * (end - begin))))
    return points[0], points[1]


def edges_of(shapes: Array) -> _Edges:
    """Return the edges of shapes; a point is an edge without length."""
    lines, owner, _ = lines_of(shapes)
    places, line = shapely.get_coordinates(lines, return_index=True)
    goes_on = line[:-1] == line[1:]
    spots = np.flatnonzero(shapely.get_type_id(lines)[line] == shapely.GeometryType.POINT)
    ends = np.concatenate([np.hstack([places[:-1], places[1:]])[goes_on], np.hstack([places[spots]] * 2)])
    owners = owner[np.concatenate([line[:-1][goes_on], line[spots]])]
    order = np.argsort(owners, kind="stable")
    return _Edges(ends[order], np.searchsorted(owners[order], np.arange(len(shapes) + 1)))


def lines_of(shapes: Array) -> tuple[Array, Array, Array]:
    """Take shapes apart into points, lines, and the rings of polygons.

    Returns:
        lines: Objects (k,), shape after shape.
        owner: The index of each line's shape, int64 (k,).
        solid: Whether it is the ring of a polygon, bool (k,).
    """
    parts, owner = shapely.get_parts(shapes, return_index=True)
    while (shapely.get_type_id(parts) > shapely.GeometryType.POLYGON).any():  # those in a collection
        parts, whole = shapely.get_parts(parts, return_index=True)
        owner = owner[whole]
    solid = shapely.get_type_id(parts) == shapely.GeometryType.POLYGON
    rings, of_solid = shapely.get_rings(parts[solid], return_index=True)
    owner = np.concatenate([owner[~solid], owner[solid][of_solid]])
    order = np.argsort(owner, kind="stable")
    return np.concatenate([parts[~solid], rings])[order], owner[order], order >= np.sum(~solid)
