"""Bind regions and places: convert them from the user's notation to the specs of the control log."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from stqsh.lang.ast.expressions import (
    Circle,
    Coordinate,
    Expression,
    Literal,
    MovingCircle,
    MovingRectangle,
    Name,
    NamedRegion,
    Nearest,
    Parameter,
    Polygon,
    Quantity,
    Rectangle,
    Region,
)
from stqsh.lang.ast.source import Span
from stqsh.lang.binder.literals import key_value
from stqsh.lang.binder.names import area_named
from stqsh.lang.binder.parameters import Content, Hole, hole
from stqsh.lang.catalogue import CatalogueView, RegionView
from stqsh.lang.errors import BindError, near
from stqsh.lang.printer.values import identifier, quoted
from stqsh.spec.expression import (
    Expr,
    ExtentTestExpr,
    InsideExpr,
    LiteralExpr,
    OrExpr,
    conjunction,
    find_nodes,
    rewrite,
)
from stqsh.spec.query import QuerySpec, with_members
from stqsh.spec.region import (
    CircleSpec,
    MovingCircleSpec,
    MovingRectangleSpec,
    NamedRegionSpec,
    NearestSpec,
    PolygonSpec,
    RectangleSpec,
    Ring,
)
from stqsh.spec.region import Region as BoundRegion
from stqsh.spec.stream import FileSourceSpec, StreamSpec
from stqsh.units import EXAMPLES, UNITS, metres

_PLANE = StreamSpec(name="", columns=(), key="", x="", y="", time="", planar=True, source=FileSourceSpec(""))
"""A stream over which every fixed region is valid."""
POLE, ANTIMERIDIAN = 90.0, 180.0
_TURN = 2 * ANTIMERIDIAN
_FEWEST_CORNERS = 3
MOST_NEIGHBOURS = 2**31 - 1
_SOME = 3


def moves(region: Region) -> bool:
    """Return whether a region moves with a focal object."""
    return isinstance(region, MovingRectangle | MovingCircle)


def bound_region(region: Region, stream: StreamSpec, catalogue: CatalogueView) -> BoundRegion:
    """Bind the region of a query over a stream; raise `BindError` if it is invalid there."""
    bound: BoundRegion = _BINDERS[type(region)](region, stream, catalogue)
    return bound


class Parts(NamedTuple):
    """The parts of a region that crosses the 180th meridian, and its southern and northern limits."""

    regions: tuple[RectangleSpec | PolygonSpec, ...]
    south: float
    north: float


def over_meridian(region: BoundRegion, stream: StreamSpec, catalogue: RegionView) -> Parts | None:
    """Return the parts of a region that crosses the 180th meridian; None for other regions."""
    if stream.planar:
        return None
    if isinstance(region, RectangleSpec):
        return _rectangle_over_meridian(region)
    if isinstance(region, PolygonSpec):
        return _polygons_over_meridian([region])
    if not isinstance(region, NamedRegionSpec) or isinstance(region.member, Hole):
        return None
    area = catalogue.area(region.name)
    if area is None or (region.member or "") not in area.beyond:
        return None
    polygons = catalogue.polygons(area, region.member)
    return _polygons_over_meridian([replace(polygon, area=area.id) for polygon in polygons])


def go_on(spec: QuerySpec, stream: StreamSpec, catalogue: RegionView) -> QuerySpec:
    """Return a query whose regions continue across the 180th meridian.

    The query's own region is replaced by a box and a condition on the parts; one in its condition, by its
    parts. A rectangle with which extents are compared becomes a polygon of its parts.
    """

    def in_parts(node: Expr) -> Expr | None:
        if isinstance(node, ExtentTestExpr) and node.type == "rect":
            parts = over_meridian(RectangleSpec(*map(_constant, node.operands)), stream, catalogue)
            text = "" if parts is None else polygon_text(parts.regions)
            return None if parts is None else replace(node, type="polygon", operands=(), polygon=text)
        parts = over_meridian(node.region, stream, catalogue) if isinstance(node, InsideExpr) else None
        return None if parts is None else is_inside(parts.regions)

    if spec.condition is not None:
        spec = with_members(spec, condition=rewrite(spec.condition, in_parts))
    parts = over_meridian(spec.region, stream, catalogue)
    if parts is None:
        return spec
    box = RectangleSpec(-ANTIMERIDIAN, parts.south, ANTIMERIDIAN, parts.north)
    conditions = [] if spec.condition is None else [spec.condition]
    return with_members(spec, region=box, condition=conjunction([*conditions, is_inside(parts.regions)]))


def members_beyond(spec: QuerySpec, catalogue: CatalogueView) -> dict[Hole, frozenset[str]]:
    """For each parameter that names a member of a set, return the members that cross the 180th meridian."""
    found: dict[Hole, frozenset[str]] = {}
    for region in (spec.region, *(node.region for node in find_nodes(spec.condition, InsideExpr))):
        if isinstance(region, NamedRegionSpec) and isinstance(region.member, Hole):
            area = catalogue.area(region.name)
            beyond = frozenset(() if area is None else area.beyond)
            found[region.member] = found.get(region.member, frozenset()) | beyond
    return found


def is_inside(parts: tuple[BoundRegion, ...]) -> Expr:
    """Return the condition that a place is in one of the parts of a region."""
    inside = tuple(InsideExpr(part) for part in parts)
    return inside[0] if len(inside) == 1 else OrExpr(inside)


def polygon_text(parts: Iterable[RectangleSpec | PolygonSpec]) -> str:
    """Return the union of rectangles and polygons as WKT."""
    polygons = []
    for part in parts:
        rings = (_border(part.box),) if isinstance(part, RectangleSpec) else part.rings
        texts = (", ".join(f"{x!r} {y!r}" for x, y in ring) for ring in rings)
        polygons.append(f"({', '.join(f'({text})' for text in texts)})")
    return f"MULTIPOLYGON ({', '.join(polygons)})"


def _border(box: tuple[float, float, float, float]) -> Ring:
    x1, y1, x2, y2 = box
    return ((x1, y1), (x2, y1), (x2, y2), (x1, y2), (x1, y1))


def _constant(expr: Expr) -> Any:
    assert isinstance(expr, LiteralExpr), "the operands of a query are constants"
    return expr.value


def _rectangle_over_meridian(region: RectangleSpec) -> Parts | None:
    if isinstance(region.x1, Hole):
        return None
    x1, y1, x2, y2 = region.box
    if x1 >= -ANTIMERIDIAN and x2 <= ANTIMERIDIAN:
        return None
    if x2 - x1 >= _TURN:
        return Parts((RectangleSpec(-ANTIMERIDIAN, y1, ANTIMERIDIAN, y2),), y1, y2)
    ends = [(x1 - by, x2 - by) for by in _turns(x1, x2)]
    parts = [(max(low, -ANTIMERIDIAN), min(high, ANTIMERIDIAN)) for low, high in ends]
    return Parts(tuple(RectangleSpec(low, y1, high, y2) for low, high in parts), y1, y2)


def _polygons_over_meridian(polygons: list[PolygonSpec]) -> Parts | None:
    """Return each polygon once for every turn of the globe by which it overlaps -180 to 180.

    They need not be cut at the meridian, because all places are between -180 and 180.
    """
    corners = [corner for polygon in polygons for ring in polygon.rings for corner in ring]
    if max(abs(x) for x, _ in corners) <= ANTIMERIDIAN:
        return None
    parts = []
    for polygon in polygons:
        longitudes = [x for ring in polygon.rings for x, _ in ring]
        parts += [_turned(polygon, by) for by in _turns(min(longitudes), max(longitudes))]
    latitudes = [y for _, y in corners]
    return Parts(tuple(parts), min(latitudes), max(latitudes))


def _turned(polygon: PolygonSpec, by: float) -> PolygonSpec:
    """Return a polygon moved west by a number of degrees."""
    return replace(polygon, rings=tuple(tuple((x - by, y) for x, y in ring) for ring in polygon.rings))


def _turns(west: float, east: float) -> list[float]:
    """Return the angles by which a range of longitudes must be turned to overlap -180 to 180."""
    first = math.floor((west + ANTIMERIDIAN) / _TURN) - 1  # 180 is the same meridian as -180
    last = math.floor((east + ANTIMERIDIAN) / _TURN)
    turns = [turns * _TURN for turns in range(first, last + 1)]
    return [by for by in turns if west - by <= ANTIMERIDIAN and east - by >= -ANTIMERIDIAN]


def fixed_region(region: Region, catalogue: CatalogueView) -> BoundRegion:
    """Return the region of a CREATE REGION, valid over any stream, whatever its coordinates."""
    if moves(region):
        raise BindError(
            "a named region cannot move", region.span, hint="AROUND is for the regions of queries"
        )
    return bound_region(region, _PLANE, catalogue)


def bound_nearest(nearest: Nearest, stream: StreamSpec) -> NearestSpec:
    """Bind `NEAREST k TO place` over a stream; raise `BindError` if it is invalid there."""
    k = hole(nearest.k, "count") if isinstance(nearest.k, Parameter) else cast(int, nearest.k.value)
    if not isinstance(k, Hole) and not 1 <= k <= MOST_NEIGHBOURS:
        wanted = "at least 1" if k < 1 else f"at most {MOST_NEIGHBOURS}"
        raise BindError(f"NEAREST {k}: the number must be {wanted}", nearest.k.span)
    if nearest.point is not None:
        x, y = nearest.point
        _check_latitudes([x], [y], stream, nearest.span, "(lon, lat)")
        return NearestSpec(k, _x(x), _y(y, stream))
    assert nearest.focal is not None
    return NearestSpec(k, focal=_focal(nearest.focal, stream))


def _rectangle(region: Rectangle, stream: StreamSpec, _: CatalogueView) -> RectangleSpec:
    xs, ys = [region.x1, region.x2], [region.y1, region.y2]
    _check_latitudes(xs, ys, stream, region.span, "(lon1, lat1, lon2, lat2)")
    of_x: Content = "number" if stream.planar else "longitude"
    x1, x2 = _in_order([_x(x, of_x) for x in xs], of_x)
    y1, y2 = _in_order([_y(y, stream) for y in ys])
    return RectangleSpec(x1, y1, x2, y2)


def _in_order(ends: list[Any], content: Content = "number") -> list[Any]:
    """Return the two ends of a side, the lower one first; if one is a hole, both become holes."""
    if not any(isinstance(end, Hole) for end in ends):
        return sorted(ends)
    return [end if isinstance(end, Hole) else Hole("", content, constant=end) for end in ends]


def _x(x: Coordinate, content: Content = "number") -> Any:
    return hole(x, content) if isinstance(x, Parameter) else x


def _y(y: Coordinate, stream: StreamSpec) -> Any:
    return hole(y, "number" if stream.planar else "latitude") if isinstance(y, Parameter) else y


def _circle(region: Circle, stream: StreamSpec, _: CatalogueView) -> CircleSpec:
    _check_latitudes([region.x], [region.y], stream, region.span, "CIRCLE(lon, lat, r)")
    x, y = _x(region.x), _y(region.y, stream)
    return CircleSpec(x, y, _length(region.radius))


def _polygon(region: Polygon, stream: StreamSpec, _: CatalogueView) -> PolygonSpec:
    for ring in region.rings:
        if len(set(ring)) < _FEWEST_CORNERS:
            raise BindError("a polygon's ring has at least three different corners", region.span)
        _check_latitudes([x for x, _ in ring], [y for _, y in ring], stream, region.span, "(lon lat, …)")
    return PolygonSpec(tuple(tuple((x, y) for x, y in ring) for ring in region.rings))


def _named(region: NamedRegion, stream: StreamSpec, catalogue: CatalogueView) -> NamedRegionSpec | CircleSpec:
    area = area_named(Name(region.name, span=region.span), catalogue)
    if region.member is None and area.set:
        raise BindError(
            f"{area.name} is a set of regions, but a query asks about one of them",
            region.span,
            expected=tuple(_member(area.name, member) for member in area.members[:_SOME]),
        )
    if region.member is None and area.circle is not None:
        _check_latitudes([area.circle.x], [area.circle.y], stream, region.span, "CIRCLE(lon, lat, r)")
        circle: CircleSpec = replace(area.circle, area=area.id)
        return circle
    if region.member is None:
        return NamedRegionSpec(area.id, area.name)
    if not area.set:
        raise BindError(f"{area.name} is a single region and has no members", region.member.span)
    if isinstance(region.member, Parameter):
        member_hole = hole(region.member, "member", members=tuple(area.members))
        return NamedRegionSpec(area.id, area.name, member_hole)
    member = str(region.member.value)
    if member not in area.members:
        raise BindError(
            f"{area.name} has no region {member!r}",
            region.member.span,
            expected=tuple(_member(area.name, one) for one in area.members[:_SOME]),
            near=near(member, area.members),
        )
    return NamedRegionSpec(area.id, area.name, member)


def _member(area: str, member: str) -> str:
    """Return a member of a set of regions in the user's notation."""
    return f"{identifier(area)}[{quoted(member)}]"


def _moving_rectangle(region: MovingRectangle, stream: StreamSpec, _: CatalogueView) -> MovingRectangleSpec:
    return MovingRectangleSpec(_focal(region.focal, stream), _length(region.xdist), _length(region.ydist))


def _moving_circle(region: MovingCircle, stream: StreamSpec, _: CatalogueView) -> MovingCircleSpec:
    return MovingCircleSpec(_focal(region.focal, stream), _length(region.radius))


_BINDERS: dict[type[Region], Callable[[Any, StreamSpec, CatalogueView], Any]] = {
    Rectangle: _rectangle,
    Circle: _circle,
    Polygon: _polygon,
    NamedRegion: _named,
    MovingRectangle: _moving_rectangle,
    MovingCircle: _moving_circle,
}


def _focal(focal: Literal | Parameter, stream: StreamSpec) -> str | int:
    if stream.is_event:
        raise BindError(f"events do not move: {stream.name} has no focal objects", focal.span)
    kind: Any = stream.types[stream.key]
    if isinstance(focal, Parameter):
        return hole(focal, kind)  # type: ignore[no-any-return]
    return key_value(focal, kind)


def _length(value: Expression) -> float:
    """Return a length in metres, or in the stream's unit if it has no unit of its own."""
    if isinstance(value, Parameter):
        return hole(value, "length")  # type: ignore[no-any-return]
    length = -1.0
    if isinstance(value, Quantity) and UNITS[value.unit].dimension == "length":
        length = metres(value.number, value.unit)
    elif isinstance(value, Literal) and value.value is not None:
        length = float(value.value)
    if length <= 0:
        raise BindError(f"a length must be more than 0, such as {EXAMPLES['length']}", value.span)
    return length


_FARTHEST_LON = 36_000.0
"""The most turns of the globe over which a region may extend, because it is cut at each of them."""


def _check_latitudes(
    xs: list[Coordinate], ys: list[Coordinate], stream: StreamSpec, span: Span, form: str
) -> None:
    lons, lats = ([abs(at) for at in some if not isinstance(at, Parameter)] for some in (xs, ys))
    if stream.planar:
        return
    if max(lons, default=0.0) > _FARTHEST_LON:
        raise BindError(f"a longitude of {max(lons):g} is beyond {_FARTHEST_LON:g}", span, expected=(form,))
    if max(lats, default=0.0) <= POLE:
        return
    beyond = max((y for y in ys if not isinstance(y, Parameter)), key=abs)
    swapped = max(lons, default=POLE + 1) <= POLE
    raise BindError(
        f"a latitude of {beyond:g} is beyond 90" + ("; lat and lon seem to be swapped" if swapped else ""),
        span,
        expected=(form,),
    )
