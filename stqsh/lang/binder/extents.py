"""Bind regions and distances over streams whose objects have an extent: LOCATION (shape).

An extent is INSIDE a region that holds all of it, and INTERSECTS a region with which it shares a point. Both
are conditions on the column of extents, so that every kind of query evaluates them like any other condition.
An index still finds the candidates of INSIDE: a region that holds an extent also holds its first corner, and
that is the object's location.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace as with_fields
from typing import Literal

from msgspec.structs import replace

from stqsh.lang.ast import expressions as ast
from stqsh.lang.binder.parameters import Hole
from stqsh.lang.binder.regions import over_meridian, polygon_text
from stqsh.lang.catalogue import CatalogueView
from stqsh.spec.expression import (
    AndExpr,
    CaseExpr,
    ColumnExpr,
    CompareExpr,
    Expr,
    ExtentDistanceExpr,
    ExtentTestExpr,
    LiteralExpr,
    OrExpr,
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


def extent_test(node: ast.Inside, region: Region, stream: StreamSpec, catalogue: CatalogueView) -> Expr:
    """Return the condition that extents have the relation of a node to its bound region.

    A parameter may name the region's member of a set. Then each member is a case of the condition.
    """
    if isinstance(region, NamedRegionSpec) and isinstance(region.member, Hole):
        return _member_test(node, region, stream, catalogue)
    extent, planar = _extent(stream), stream.planar
    relation: Literal["inside", "intersects"] = "inside" if node.relation == "INSIDE" else "intersects"
    name = _name(node.region)
    parts = over_meridian(region, stream, catalogue)
    if parts is not None:
        area = region.area if isinstance(region, NamedRegionSpec) else None
        polygon = polygon_text(parts.regions)
        return ExtentTestExpr(extent, relation, "polygon", polygon=polygon, area=area, name=name)
    test = ExtentTestExpr(extent, relation, "polygon", planar=planar, name=name)
    match region:
        case RectangleSpec():
            test = replace(test, type="rect", operands=_numbers(region.box))
        case CircleSpec(x, y, radius, area):
            test = replace(test, type="circle", operands=_numbers((x, y, radius)), area=area)
        case PolygonSpec():
            test = replace(test, polygon=polygon_text((region,)))
        case NamedRegionSpec():
            polygon = polygon_text(catalogue.polygons(_area(region, catalogue), region.member))
            test = replace(test, polygon=polygon, area=region.area)
        case MovingRectangleSpec():
            test = replace(test, type="rect", around=region)
        case MovingCircleSpec():
            test = replace(test, type="circle", around=region)
    return test


def _member_test(
    node: ast.Inside, region: NamedRegionSpec, stream: StreamSpec, catalogue: CatalogueView
) -> Expr:
    """Return the condition of `extent_test` for the member that a parameter names."""
    wanted, cases = LiteralExpr(region.member, "STRING"), []
    for name in sorted(_area(region, catalogue).members):
        one = with_fields(node, region=ast.NamedRegion(region.name, ast.Literal(name, "STRING")))
        test = extent_test(one, replace(region, member=name), stream, catalogue)
        cases.append(AndExpr((CompareExpr("=", wanted, LiteralExpr(name, "STRING")), test)))
    return OrExpr(tuple(cases))  # also of one: comparisons of constants are no conjuncts


def _area(region: NamedRegionSpec, catalogue: CatalogueView) -> AreaSpec:
    found = catalogue.area(region.name)
    assert found is not None, "the region is bound"
    return found


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
