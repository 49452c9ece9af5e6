"""Test extents against fixed regions, and measure distances to them.

An extent is the shape of an object: a point, line or polygon, or several of them, as WKT. Its edges are
straight in the stream's coordinates, as those of regions are. Each distinct text of a column is parsed once,
and the last columns are kept, because many queries look at the same objects.
Boxes decide most pairs of extent and region; the predicates of GEOS, which are exact, decide the others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from stqsh.arrays import Array
from stqsh.core.kernels.geometry.circles import circle_boxes
from stqsh.core.kernels.geometry.distance import EARTH_M, distances_between
from stqsh.core.kernels.jit import frozen
from stqsh.spec.expression import ExtentTestExpr

Relation: TypeAlias = Literal["inside", "intersects"]
Corners: TypeAlias = tuple[Array, Array, Array, Array]
"""The corners of a rectangle for each row, or of one for all: x1, y1, x2, y2, float64 (n,) or () each."""

_REGIONS_KEPT = 256
_COLUMNS_KEPT = 4
"""The maximum number of columns whose shapes are kept: a condition and an order look at two of each batch."""
_SEARCHED = 8
"""The most known texts for each new one among which it is searched for."""
_EDGES_AT_ONCE = 1 << 20
"""About the most edges that are measured at once; each takes some hundred bytes."""
_QUARTER_TURN, _HALF_TURN, _TURN = 90.0, 180.0, 360.0
_SLACK = 1e-9


class Shapes:
    """Distinct shapes, and what is often asked of them.

    Attributes:
        shapes: Objects (m,); the last one is None.
        boxes: Their boxes: x1, y1, x2, y2, float64 (4, m); NaN without a shape.
    """

    def __init__(self, shapes: Array) -> None:
        self.shapes = shapes
        self.boxes: Array = np.ascontiguousarray(shapely.bounds(shapes).T)

    @cached_property
    def edges(self) -> Edges:
        """Their edges."""
        return edges_of(self.shapes)

    @cached_property
    def solid(self) -> Array:
        """Whether each one has an area, bool (m,)."""
        solid: Array = shapely.get_dimensions(self.shapes) == 2
        return solid


class Extents(NamedTuple):
    """The extents of n rows.

    Attributes:
        distinct: The distinct shapes.
        of_row: The number of each row's shape, int64 (n,); the last one is that of NULL.
    """

    distinct: Shapes
    of_row: Array

    @property
    def shapes(self) -> Array:
        """The distinct shapes, objects (m,); the last one is None."""
        return self.distinct.shapes

    @property
    def known(self) -> Array:
        """Whether each row has a shape, bool (n,)."""
        known: Array = ~np.isnan(self.distinct.boxes[0])[self.of_row]
        return known

    def take(self, rows: Array) -> Extents:
        """Return the extents of some rows."""
        return self._replace(of_row=self.of_row[rows])

    def apart(self, rows: Array) -> Extents:
        """Return the extents of some rows, without the shapes of others and their edges."""
        used, of_row = np.unique(self.of_row[rows], return_inverse=True)
        return Extents(Shapes(self.shapes[used]), of_row)


def extents_of(column: pa.Array[Any]) -> Extents:
    """Parse a column of WKT, which may be a dictionary."""
    coded: Any = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    null = len(coded.dictionary)
    return Extents(_parsed(coded.dictionary), coded.indices.fill_null(null).to_numpy().astype(np.int64))


class _Columns(threading.local):
    """The columns that a thread looked at last: GEOS prepares shapes, so threads may not share them."""

    def __init__(self) -> None:
        self.kept: deque[tuple[pa.Array[Any], Shapes]] = deque(maxlen=_COLUMNS_KEPT)


_columns = _Columns()


def _parsed(texts: pa.Array[Any]) -> Shapes:
    """Return the shapes of distinct texts, and None after them; texts of the last columns are known."""
    for known, shapes in _columns.kept:
        if len(known) == len(texts) and known.equals(texts):
            return shapes
    parsed = np.full(len(texts) + 1, None, object)
    new = np.arange(len(texts))
    for known, shapes in _columns.kept:
        if len(known) > _SEARCHED * len(new):  # parsing these takes less time than a search
            continue
        chosen: Any = pa.array(new)
        at = pc.index_in(texts.take(chosen), value_set=known).fill_null(-1).to_numpy()
        parsed[new[at >= 0]] = shapes.shapes[at[at >= 0]]
        new = new[at < 0]
    unknown: Any = pa.array(new)
    parsed[new] = shapely.from_wkt(texts.take(unknown).to_numpy(zero_copy_only=False))
    shapes = Shapes(parsed)
    _columns.kept.appendleft((texts, shapes))
    return shapes


def first_corners(column: pa.Array[Any]) -> tuple[Array, Array]:
    """Return x and y of the first corner of each extent, float64 (n,) each; NaN for NULL."""
    extents = extents_of(column)
    places, owner = shapely.get_coordinates(extents.shapes, return_index=True)
    corners = np.full((len(extents.shapes), 2), np.nan)
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    corners[owner[first]] = places[first]
    x, y = corners[extents.of_row].T
    return x, y


# ------------------------------------------------------------------------------------------------- tests
def in_rectangles(extents: Extents, corners: Corners, relation: Relation) -> Array:
    """Return whether each extent has the relation to its own closed rectangle; bool (n,).

    A rectangle holds an extent if it holds its box. It shares a point with it only if it overlaps its box,
    which is enough if it holds the box.
    """
    found = np.zeros(len(extents.of_row), np.bool_)
    if relation == "inside":
        found[_held(extents, corners)] = True
        return found
    met = _met(extents, corners)
    near = extents.take(met), _of_some(corners, met)
    found[met[_held(*near)]] = True
    open_ = met[~found[met]]
    left, some = extents.take(open_), np.column_stack(_of_some(corners, open_))
    shapely.prepare(left.shapes[np.unique(left.of_row)])
    found[open_] = shapely.intersects(left.shapes[left.of_row], _rectangles(some))
    return found


def in_rectangles_around(
    extents: Extents,
    places: tuple[Array, Array],
    sizes: tuple[Array, Array],
    relation: Relation,
    planar: bool,
) -> Array:
    """Return whether each extent has the relation to its own rectangle; bool (n,).

    The rectangle has a place, x and y (n,), in its centre, and a width and height; without a place there is
    none. One over the 180th meridian continues on the other side.
    """
    (x, y), (wide, high) = places, sizes
    if planar:
        across, up = wide / 2, high / 2
    else:
        across = np.degrees(wide / 2 / (EARTH_M * np.cos(np.radians(y))))
        up = np.degrees(high / 2 / EARTH_M)
    low, top = y - up, y + up
    west, east = x - across, x + across
    found = in_rectangles(extents, (west, low, east, top), relation)
    over: Array = np.flatnonzero(((west < -_HALF_TURN) | (east > _HALF_TURN)) & ~found)
    if len(over):
        corners = _of_some((west, low, east, top), over)
        found[over] = _in_parts(extents.take(over), corners, relation)
    return found


def _in_parts(extents: Extents, corners: Corners, relation: Relation) -> Array:
    """Return whether each extent has the relation to its own rectangle, cut at the 180th meridian."""
    west, low, east, top = corners
    whole = east - west >= _TURN
    west, east = np.where(whole, -_HALF_TURN, west), np.where(whole, _HALF_TURN, east)
    regions: Array = np.asarray(shapely.box(west, low, east, top), object)
    for turn in (-_TURN, _TURN):
        regions = np.asarray(shapely.union(regions, shapely.box(west + turn, low, east + turn, top)), object)
    test = shapely.covers if relation == "inside" else shapely.intersects
    held: Array = test(regions, extents.shapes[extents.of_row])
    return held


def in_circles(
    extents: Extents, circles: tuple[Array, Array, Array], relation: Relation, planar: bool
) -> Array:
    """Return whether each extent has the relation to its own circle, x, y and radius (n,) each; bool (n,).

    A circle holds an extent if it holds its corners, and shares a point with it if its centre is within the
    radius of the extent.
    """
    x, y, radius = (np.ascontiguousarray(one, np.float64) for one in circles)
    high = radius if planar else np.degrees(radius / EARTH_M)
    near = _meeting_band(extents, y - high, y + high)
    x1, y1, x2, y2 = circle_boxes(x[near], y[near], radius[near], planar).T
    near = near[(_met if relation == "intersects" else _held)(extents.take(near), (x1, y1, x2, y2))]
    measure = distances if relation == "intersects" else _reaches
    found = np.zeros(len(x), np.bool_)
    found[near] = measure(extents.take(near), x[near], y[near], planar) <= radius[near]
    return found


def in_polygon(extents: Extents, polygon: str, relation: Relation) -> Array:
    """Return whether each extent has the relation to a polygon, given as WKT; bool (n,)."""
    region = _region(polygon)
    every = extents._replace(of_row=np.arange(len(extents.shapes)))
    x1, y1, x2, y2 = (np.array(one, np.float64) for one in region.bounds or [np.nan] * 4)
    near = _met(every, (x1, y1, x2, y2))
    test = shapely.covers if relation == "inside" else shapely.intersects
    held = np.zeros(len(extents.shapes), np.bool_)
    held[near] = test(region, extents.shapes[near])
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


def _of_some(corners: Corners, rows: Array) -> Corners:
    x1, y1, x2, y2 = (one[rows] for one in corners)
    return x1, y1, x2, y2


def _held(extents: Extents, corners: Corners) -> Array:
    """Return the rows whose boxes are in their own rectangles; int64, ascending."""
    x1, y1, x2, y2 = extents.distinct.boxes
    left, low, right, high = corners
    return _satisfying(extents.of_row, ((left, x1, 1), (right, x2, -1), (low, y1, 1), (high, y2, -1)))


def _met(extents: Extents, corners: Corners) -> Array:
    """Return the rows whose boxes share a point with their own rectangles; int64, ascending."""
    x1, y1, x2, y2 = extents.distinct.boxes
    left, low, right, high = corners
    return _satisfying(extents.of_row, ((left, x2, 1), (right, x1, -1), (low, y2, 1), (high, y1, -1)))


def _meeting_band(extents: Extents, low: Array, high: Array) -> Array:
    """Return the rows whose boxes come near to the band between y's of their own; int64, ascending."""
    _, y1, _, y2 = extents.distinct.boxes
    slack = _SLACK * (np.abs(low) + np.abs(high))
    return _satisfying(extents.of_row, ((low - slack, y2, 1), (high + slack, y1, -1)))


def _satisfying(of_row: Array, terms: Iterable[tuple[Array, Array, int]]) -> Array:
    """Return the rows in which a number is at most a shape's (1), or at least (-1), for all terms.

    A term is tested only for the rows that satisfy those before it.
    """
    rows: Array | None = None
    for limit, values, sign in terms:
        own, bound = of_row, limit
        if rows is not None:
            own, bound = of_row[rows], limit[rows] if np.ndim(limit) else limit
        kept = np.flatnonzero(bound <= values[own] if sign > 0 else bound >= values[own])
        rows = kept if rows is None else rows[kept]
    assert rows is not None, "there are terms"
    return rows


def _rectangles(corners: Array) -> Array:
    """Return rectangles as shapes, objects (n,); those without an area become lines or points."""
    shapes: Array = np.asarray(shapely.box(*corners.T), object)
    flat = np.any(corners[:, :2] == corners[:, 2:], axis=1)
    shapes[flat] = shapely.linestrings(corners[flat].reshape(-1, 2, 2))
    spots = np.all(corners[:, :2] == corners[:, 2:], axis=1)
    shapes[spots] = shapely.points(corners[spots, :2])
    return shapes


# --------------------------------------------------------------------------------------------- distances
class Edges(NamedTuple):
    """The edges of m shapes: x1, y1, x2, y2, float64 (4, e), and the first of each, int64 (m + 1,)."""

    ends: Array
    first: Array

    def of(self, shapes: Array) -> tuple[Array, Array]:
        """Return the edges of some shapes, one shape after the other, and where each one's begin."""
        counts = self.first[shapes + 1] - self.first[shapes]
        starts = np.cumsum(counts) - counts
        at = np.repeat(self.first[shapes] - starts, counts) + np.arange(counts.sum())
        return self.ends[:, at], starts


def distances(extents: Extents, x: Array, y: Array, planar: bool) -> Array:
    """Return how far each extent is from its own place; float64 (n,), metres or units, NaN for NULL.

    It is 0 if the extent holds the place. Else it is that of the nearest point of an edge: exact on a plane;
    on the sphere that point is the nearest on a map on which longitudes are shortened by the cosine of the
    place's latitude, and the distance to it is that of the sphere. Either way around the globe counts. Cost:
    one distance an edge.
    """
    found = np.full(len(x), np.nan)
    rows = np.flatnonzero(extents.known & ~np.isnan(x) & ~np.isnan(y))
    edges = extents.distinct.edges
    for turn, some in _turned(extents, x, rows, planar):
        for part in _portions(edges, extents.of_row[some]):
            mine = some[part]
            ends, starts = edges.of(extents.of_row[mine])
            times = np.diff(starts, append=ends.shape[1])
            at_x, at_y = np.repeat(x[mine], times), np.repeat(y[mine], times)
            to_x, to_y = _nearest_points(ends, at_x + turn, at_y, planar)
            far = distances_between(at_x, at_y, frozen(to_x), frozen(to_y), planar)
            found[mine] = np.fmin(found[mine], np.minimum.reduceat(far, starts))
        at = x[some] + turn, y[some]
        solid = some[_met(extents.take(some), (*at, *at))]
        solid = solid[extents.distinct.solid[extents.of_row[solid]]]
        holding = shapely.intersects_xy(extents.shapes[extents.of_row[solid]], x[solid] + turn, y[solid])
        found[solid[holding]] = 0.0
    return found


def gaps(extents: Extents, others: Extents, planar: bool) -> Array:
    """Return how far each extent is from its own other one; float64 (n,), NaN if either is NULL.

    It is 0 if they share a point. Else it is the least of the distances of the corners of one from the other,
    because two straight edges that do not cross are nearest at an end of one of them. So the distance from a
    point is that of `distances`. Cost: a distance for each corner of one and edge of the other.
    """
    found = np.full(len(extents.of_row), np.nan)
    rows = np.flatnonzero(extents.known & others.known)
    for these, those in ((extents, others), (others, extents)):
        places, owner = shapely.get_coordinates(these.shapes[these.of_row[rows]], return_index=True)
        x, y = np.ascontiguousarray(places.T)
        far = distances(those.take(rows[owner]), x, y, planar)
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        found[rows] = np.fmin(found[rows], np.minimum.reduceat(far, starts)) if len(rows) else found[rows]
    x1, y1, x2, y2 = others.distinct.boxes[:, others.of_row[rows]]
    near = rows[_met(extents.take(rows), (x1, y1, x2, y2))]
    meet = shapely.intersects(extents.shapes[extents.of_row[near]], others.shapes[others.of_row[near]])
    found[near[meet]] = 0.0
    return found


def box_centres(extents: Extents, planar: bool) -> tuple[Array, Array]:
    """Return x and y of the centre of each extent's box, float64 (n,) each; NaN for NULL.

    On the sphere the box of an extent in several parts may lie over the 180th meridian.
    """
    x1, y1, x2, y2 = extents.distinct.boxes
    x = (x1 + x2) / 2
    for row in np.flatnonzero(x2 - x1 > _HALF_TURN).tolist() if not planar else ():
        x[row] = _turned_centre(extents.shapes[row])
    return x[extents.of_row], ((y1 + y2) / 2)[extents.of_row]


def _turned_centre(shape: Any) -> float:
    """Return the middle longitude of a shape; its western parts go on in the east if it is narrower then."""
    west, _, east, _ = shapely.bounds(shapely.get_parts(shape)).T
    turn = np.where(east <= 0, _TURN, 0.0)
    sides = [(some.min(), others.max()) for some, others in ((west, east), (west + turn, east + turn))]
    low, high = min(sides, key=lambda side: float(side[1] - side[0]))
    middle = float(low + high) / 2
    return middle - _TURN if middle > _HALF_TURN else middle


def reaches_of_boxes(extents: Extents, planar: bool) -> Array:
    """Return a bound of the distance from the centre of each extent's box to its points; float64 (n,).

    On the sphere it is the way along a meridian and then along the longest parallel of the box.
    """
    x1, y1, x2, y2 = extents.distinct.boxes[:, extents.of_row]
    wide, high = (x2 - x1) / 2, (y2 - y1) / 2
    bound: Array = np.hypot(wide, high)
    if planar:
        return bound
    low = np.where((y1 <= 0) & (y2 >= 0), 0.0, np.minimum(np.abs(y1), np.abs(y2)))
    bound = high + wide * np.cos(np.radians(low))
    return EARTH_M * np.radians(bound)


def least_distances(extents: Extents, x: Array, y: Array, planar: bool) -> Array:
    """Return a bound that no result of `distances` is below, from boxes alone; float64 (n,), NaN for NULL.

    On the sphere a place that is some longitudes away is at least as far as their meridian, and one that is
    some latitudes away as their parallel. A slack covers what distances are rounded by.
    """
    x1, y1, x2, y2 = extents.distinct.boxes[:, extents.of_row]
    up = np.maximum(np.maximum(y1 - y, y - y2), 0.0)
    across = np.maximum(np.maximum(x1 - x, x - x2), 0.0)
    if planar:
        slack = _SLACK * sum(map(np.abs, (x, y, x1, y1, x2, y2)))
        least: Array = np.hypot(across, up) - slack
        return least
    for turn in (-_TURN, _TURN):
        across = np.minimum(across, np.maximum(np.maximum(x1 + turn - x, x - x2 - turn), 0.0))
    angle = np.radians(np.minimum(across, _QUARTER_TURN))
    sideways = np.arcsin(np.sin(angle) * np.cos(np.radians(y)))
    bound: Array = EARTH_M * (np.maximum(np.radians(up), sideways) - _SLACK)
    return bound


def _reaches(extents: Extents, x: Array, y: Array, planar: bool) -> Array:
    """Return how far the farthest corner of each extent is from its own place; float64 (n,); none is NULL."""
    found, edges = np.empty(len(x)), extents.distinct.edges
    for part in _portions(edges, extents.of_row):
        ends, starts = edges.of(extents.of_row[part])
        times = np.diff(starts, append=ends.shape[1])
        at_x, at_y = np.repeat(x[part], times), np.repeat(y[part], times)
        x1, y1, x2, y2 = map(frozen, ends)
        begins = distances_between(at_x, at_y, x1, y1, planar)
        sides = begins, distances_between(at_x, at_y, x2, y2, planar)
        found[part] = np.maximum.reduceat(np.maximum(*sides), starts)
    return found


def _turned(extents: Extents, x: Array, rows: Array, planar: bool) -> list[tuple[float, Array]]:
    """Return the turns of the globe by which places may be near extents, and the rows for which they may."""
    if planar:
        return [(0.0, rows)] if len(rows) else []
    x1, _, x2, _ = extents.distinct.boxes
    mine = extents.of_row[rows]
    east, west = x2[mine] - x[rows] > _HALF_TURN, x[rows] - x1[mine] > _HALF_TURN
    turns = ((0.0, rows), (_TURN, rows[east]), (-_TURN, rows[west]))
    return [(turn, some) for turn, some in turns if len(some)]


def _portions(edges: Edges, shapes: Array) -> list[slice]:
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
    x1, y1, x2, y2 = ends
    wide = 1.0 if planar else np.cos(np.radians(y))
    across, up = (x2 - x1) * wide, y2 - y1
    square = across * across + up * up
    along = ((x - x1) * wide * across + (y - y1) * up) / np.where(square > 0, square, 1.0)
    near, far = along <= 0, along >= 1
    points = []
    for begin, end in ((x1, x2), (y1, y2)):
        points.append(np.where(near, begin, np.where(far, end, begin + along * (end - begin))))
    return points[0], points[1]


def edges_of(shapes: Array) -> Edges:
    """Return the edges of shapes; a point is an edge without length."""
    lines, owner, _ = lines_of(shapes)
    places, line = shapely.get_coordinates(lines, return_index=True)
    goes_on = line[:-1] == line[1:]
    spots = np.flatnonzero(shapely.get_type_id(lines)[line] == shapely.GeometryType.POINT)
    ends = np.concatenate([np.hstack([places[:-1], places[1:]])[goes_on], np.hstack([places[spots]] * 2)])
    owners = owner[np.concatenate([line[:-1][goes_on], line[spots]])]
    order = np.argsort(owners, kind="stable")
    return Edges(
        np.ascontiguousarray(ends[order].T), np.searchsorted(owners[order], np.arange(len(shapes) + 1))
    )


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
