"""Bind regions and distances over streams whose objects have an extent: LOCATION (shape).

An extent is INSIDE a region that holds all of it, and INTERSECTS a region with which it shares a point. Both
are conditions on the column of extents, so that every kind of query evaluates them like any other condition.
An index still finds the candidates of INSIDE: a region that holds an extent also holds its first corner, and
that is the object's location.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from stqsh.lang.ast import expressions as ast
from stqsh.lang.binder.parameters import Hole
from stqsh.lang.binder.regions import over_meridian, polygon_text
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import NotSupportedError
from stqsh.spec.expression import (
    CaseExpr,
    ColumnExpr,
    Expr,
    ExtentDistanceExpr,
    ExtentTestExpr,
    LiteralExpr,
    RegionOfExpr,
)
from stqsh.spec.region import (
    CircleSpec,
    MovingCircleSpec,
    MovingRectangleSpec,
    NamedRegionSpec,
    PolygonSpec,
    RectangleSpec,
    Region,
)
from stqsh.spec.stream import AreaSpec, StreamSpec

_OF_EXTENTS = "over objects with an extent"


def extent_test(node: ast.Inside, region: Region, stream: StreamSpec, catalogue: CatalogueView) -> Expr:
    """Return the condition that extents have the relation of a node to its bound region.

    Raises:
        NotSupportedError: the region is named by a parameter.
    """
    extent, planar = _extent(stream), stream.planar
    relation: Literal["inside", "intersects"] = "inside" if node.relation == "INSIDE" else "intersects"
    name = _name(node.region)
    parts = over_meridian(region, stream, catalogue)
    if parts is not None:
        area = region.area if isinstance(region, NamedRegionSpec) else None
        polygon = polygon_text(parts.regions)
        return ExtentTestExpr(extent, relation, "polygon", polygon=polygon, area=area, name=name)
    match region:
        case RectangleSpec():
            return ExtentTestExpr(extent, relation, "rect", _numbers(region.box), planar=planar)
        case CircleSpec(x, y, radius, area):
            operands = _numbers((x, y, radius))
            return ExtentTestExpr(extent, relation, "circle", operands, planar=planar, area=area, name=name)
        case PolygonSpec():
            return ExtentTestExpr(extent, relation, "polygon", polygon=polygon_text((region,)), planar=planar)
        case NamedRegionSpec() if not isinstance(region.member, Hole):
            area_spec = catalogue.area(region.name)
            assert area_spec is not None, "the region is bound"
            polygon = polygon_text(catalogue.polygons(area_spec, region.member))
            return ExtentTestExpr(
                extent, relation, "polygon", polygon=polygon, planar=planar, area=region.area, name=name
            )
        case MovingRectangleSpec() | MovingCircleSpec():
            kind: Literal["rect", "circle"] = "rect" if isinstance(region, MovingRectangleSpec) else "circle"
            return ExtentTestExpr(extent, relation, kind, planar=planar, around=region)
    raise NotSupportedError(f"a region named by a parameter {_OF_EXTENTS}", node.region.span)


def region_of(area: AreaSpec, stream: StreamSpec, catalogue: CatalogueView) -> RegionOfExpr:
    """Return the first region by name of a set that holds all of an extent."""
    names = sorted(area.members)
    tests = []
    for name in names:
        parts = over_meridian(NamedRegionSpec(area.id, area.name, name), stream, catalogue)
        polygon = polygon_text(catalogue.polygons(area, name) if parts is None else parts.regions)
        planar = stream.planar
        tests.append(ExtentTestExpr(_extent(stream), "inside", "polygon", polygon=polygon, planar=planar))
    results = (LiteralExpr(name, "STRING") for name in (*names, None))
    return RegionOfExpr(area.id, CaseExpr(tuple(tests), tuple(results), "STRING"))


def distance_from(place: tuple[float, float], stream: StreamSpec) -> Expr:
    """Return the distance of extents from a place."""
    x, y = _numbers(place)
    return ExtentDistanceExpr(_extent(stream), x, y, stream.planar)


def _extent(stream: StreamSpec) -> ColumnExpr:
    assert stream.extent is not None, "the stream's objects have an extent"
    return ColumnExpr(stream.extent)


def _name(region: ast.Region) -> str:
    """Return a region's name with its member; "" without a name."""
    if not isinstance(region, ast.NamedRegion):
        return ""
    return region.name + (f"[{region.member.value!r}]" if isinstance(region.member, ast.Literal) else "")


def _numbers(values: Iterable[float]) -> tuple[LiteralExpr, ...]:
    """Return numbers, or the holes of parameters, as constants."""
    return tuple(LiteralExpr(value, "DOUBLE") for value in values)
