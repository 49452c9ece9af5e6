"""Readable texts for the regions and expressions of bound queries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from stqsh.spec.expression import (
    AndExpr,
    ArithmeticExpr,
    BetweenExpr,
    CaseExpr,
    CastExpr,
    ColumnExpr,
    CompareExpr,
    ConcatExpr,
    ContainsExpr,
    DistanceExpr,
    DistanceToExpr,
    DurationExpr,
    Expr,
    ExtentTestExpr,
    FunctionExpr,
    InExpr,
    InsideExpr,
    IsNullExpr,
    JoinExpr,
    LikeExpr,
    LiteralExpr,
    NegativeExpr,
    NotExpr,
    NowExpr,
    OrExpr,
    RegionOfExpr,
    extent_tests,
)
from stqsh.spec.query import BoundQuery, nearest_extents
from stqsh.spec.region import (
    CircleSpec,
    EverywhereSpec,
    MovingCircleSpec,
    MovingRectangleSpec,
    NamedRegionSpec,
    NearestSpec,
    PolygonSpec,
    RectangleSpec,
    Region,
)
from stqsh.units import format_duration, format_instant

_EARTH_KM = 6371.0088


def query_region_text(spec: BoundQuery) -> str:
    """Return the region of a query; over objects with an extent, other regions are in its condition."""
    nearest = spec.region if isinstance(spec.region, NearestSpec) else nearest_extents(spec)
    if spec.region != EverywhereSpec() and nearest is None:
        return region_text(spec.region)
    parts = [] if nearest is None else [region_text(nearest)]
    return " AND ".join([*parts, *map(_test_text, extent_tests(spec.condition))]) or "everywhere"


def _test_text(test: ExtentTestExpr) -> str:
    numbers = _numbers(test.numbers()) or "…"
    if test.around is not None:
        return f"{test.relation.upper()} {region_text(test.around)}"
    return f"{test.relation.upper()} {test.name or f'{test.type.upper()}({numbers})'}"


def region_text(region: Region) -> str:  # noqa: PLR0911  # one for each shape
    """Return a region in a readable form close to STQL."""
    match region:
        case EverywhereSpec():
            return "everywhere"
        case RectangleSpec():
            return f"RECT({_numbers(region.box)})"
        case CircleSpec(x, y, radius):
            return f"CIRCLE({_numbers((x, y, radius))})"
        case PolygonSpec(rings):
            corners, holes = sum(len(ring) - 1 for ring in rings), len(rings) - 1
            return f"POLYGON of {corners} corners" + (f", {holes} holes" if holes else "")
        case NamedRegionSpec(_, name, member):
            return name + (f"[{member!r}]" if member is not None else "")
        case MovingRectangleSpec(focal, xdist, ydist):
            return f"RECT({_numbers((xdist, ydist))}) AROUND {focal!r}"
        case MovingCircleSpec(focal, radius):
            relation = "INTERSECTS " if region.meets else ""
            return f"{relation}CIRCLE({radius:g}) AROUND {focal!r}"
        case NearestSpec():
            to = f"({_numbers(region.place)})" if region.place is not None else repr(region.focal)
            return f"NEAREST {region.k} TO {to}"


def box_text(box: Sequence[float]) -> str:
    """Return a box as two corners."""
    return f"({_numbers(box)})"


def area_text(box: Sequence[float], planar: bool) -> str:
    """Return the area of a box: in square units of the plane, or in square kilometres of the sphere."""
    x1, y1, x2, y2 = box
    if planar:
        return f"{(x2 - x1) * (y2 - y1):.4g} square units"
    low, high = (math.sin(math.radians(max(-90.0, min(90.0, y)))) for y in (y1, y2))
    return f"{_EARTH_KM**2 * math.radians(min(360.0, x2 - x1)) * (high - low):.4g} km²"


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def expression_text(expr: Expr) -> str:  # noqa: PLR0911, PLR0912  # one for each node
    """Return an expression in a readable form close to STQL, with brackets around operands except names."""
    match expr:
        case ColumnExpr(name):
            return name
        case LiteralExpr(value, kind):
            if kind == "TIMESTAMP" and isinstance(value, int):
                return f"'{format_instant(value)}'"
            return "NULL" if value is None else repr(value)
        case DurationExpr(us):
            return str(format_duration(us))
        case NowExpr():
            return "NOW"
        case NegativeExpr(operand):
            return f"-{_inner(operand)}"
        case ArithmeticExpr(operator, left, right) | CompareExpr(operator, left, right):
            return f"{_inner(left)} {operator} {_inner(right)}"
        case ConcatExpr(left, right):
            return f"{_inner(left)} || {_inner(right)}"
        case BetweenExpr(operand, low, high):
            return f"{_inner(operand)} BETWEEN {_inner(low)} AND {_inner(high)}"
        case InExpr(operand, items):
            return f"{_inner(operand)} IN ({', '.join(map(expression_text, items))})"
        case LikeExpr(operand, pattern):
            return f"{_inner(operand)} LIKE {pattern!r}"
        case ContainsExpr(operand, phrase, match):
            return f"{_inner(operand)} CONTAINS {'ANY ' if match == 'any' else ''}{phrase!r}"
        case IsNullExpr(operand):
            return f"{_inner(operand)} IS NULL"
        case FunctionExpr(name, operand, others):
            return f"{name}({', '.join(map(expression_text, (operand, *others)))})"
        case CastExpr(operand, _, kind):
            return f"CAST({expression_text(operand)} AS {kind})"
        case CaseExpr(conditions, (*results, otherwise)):
            pairs = zip(conditions, results, strict=True)
            branches = " ".join(f"WHEN {expression_text(a)} THEN {expression_text(b)}" for a, b in pairs)
            return f"CASE {branches} ELSE {expression_text(otherwise)} END"
        case AndExpr(parts):
            return " AND ".join(map(_inner, parts))
        case OrExpr(parts):
            return " OR ".join(map(_inner, parts))
        case NotExpr(operand):
            return f"NOT {_inner(operand)}"
        case RegionOfExpr():
            return "REGION(…)"
        case InsideExpr(region):
            return f"loc INSIDE {region_text(region)}"
        case JoinExpr(wanted=name):
            return name
        case DistanceExpr():
            return "DISTANCE"
        case DistanceToExpr(x, y):
            return f"DISTANCE TO ({x:g}, {y:g})"
    return "…"


def _inner(expr: Expr) -> str:
    text = expression_text(expr)
    is_plain = isinstance(
        expr,
        ColumnExpr | LiteralExpr | DurationExpr | NowExpr | FunctionExpr | CastExpr | CaseExpr | RegionOfExpr,
    )
    return text if is_plain else f"({text})"
