"""Bind functions on places, such as ST_DISTANCE: a place is the location, or ST_POINT(x, y)."""

from __future__ import annotations

from typing import NamedTuple

from stqsh.lang.ast.expressions import Call, Column, Expression
from stqsh.lang.binder.operators import described
from stqsh.lang.binder.scope import Bind, Scope, TypedExpression
from stqsh.lang.errors import BindError
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.types import NUMBERS
from stqsh.spec.expression import ColumnExpr, CompareExpr, Expr, ExtentDistanceExpr, FunctionExpr
from stqsh.spec.functions import PLACES

LOCATIONS = frozenset({"loc", "location"})
"""The names for the stream's location, in lower case."""
SAY_PLACES = "say which: FROM 'file' (x => 'easting', y => 'northing')"
"""The hint for rows of a file whose places are not declared."""
_TAKES = {"ST_X": 1, "ST_Y": 1, "ST_DISTANCE": 2, "ST_DWITHIN": 3}


class _Place(NamedTuple):
    x: Expr
    y: Expr


def place_function(node: Call, scope: Scope, bind: Bind) -> TypedExpression:
    """Bind a call of a function on places.

    Raises:
        BindError: its arguments are invalid.
    """
    if node.name == "ST_POINT":
        raise BindError(
            "ST_POINT stands within another function of places",
            node.span,
            expected=("ST_DISTANCE(loc, ST_POINT(x, y))",),
        )
    if node.name in ("ST_WITHIN", "ST_INTERSECTS") or len(node.arguments) != _TAKES[node.name]:
        raise BindError(f"{node.name} is called {PLACES[node.name][0]}", node.span)
    first = _place(node.arguments[0], node, scope, bind)
    if node.name in ("ST_X", "ST_Y"):
        return TypedExpression(first.x if node.name == "ST_X" else first.y, "DOUBLE", node.span)
    second = _place(node.arguments[1], node, scope, bind)
    far = _distance(node, first, second, scope)
    if node.name == "ST_DISTANCE":
        return TypedExpression(far, "DOUBLE", node.span)
    within = _number(node.arguments[2], node, scope, bind)
    return TypedExpression(CompareExpr("<=", far, within), "BOOLEAN", node.span)


def _distance(node: Call, first: _Place, second: _Place, scope: Scope) -> Expr:
    """Return the distance between two places; if one is an object with an extent, to its nearest point."""
    stream, others = scope.stream, [place for place in (first, second) if not _is_location(place, scope)]
    if stream.extent is not None and len(others) == 1:
        extent = scope.column(Column(stream.extent, span=node.span)).expr
        assert isinstance(extent, ColumnExpr), "the extent is a column of the stream"
        return ExtentDistanceExpr(extent, *others[0], stream.planar)
    name = "ST_DISTANCE_PLANAR" if stream.planar else "ST_DISTANCE"
    return FunctionExpr(name, first.x, (first.y, second.x, second.y), "DOUBLE")


def _is_location(place: _Place, scope: Scope) -> bool:
    return place == (ColumnExpr(scope.stream.x), ColumnExpr(scope.stream.y))


def _place(node: Expression, call: Call, scope: Scope, bind: Bind) -> _Place:
    if isinstance(node, Column) and node.name.lower() in LOCATIONS and scope.find(node) is None:
        stream = scope.stream
        if not stream.x:
            raise BindError(f"no columns of {stream.name} look like its location", node.span, hint=SAY_PLACES)
        qualifier = node.qualifier or (stream.name if stream.name in scope.qualifiers else None)
        found = (scope.column(Column(name, qualifier, span=node.span)) for name in (stream.x, stream.y))
        return _Place(*(one.expr for one in found))
    if isinstance(node, Call) and node.name == "ST_POINT" and len(node.arguments) == len(_Place._fields):
        return _Place(*(_number(part, node, scope, bind) for part in node.arguments))
    raise BindError(
        f"{call.name} takes a place, but not {printed(node)}", node.span, expected=("loc", "ST_POINT(x, y)")
    )


def _number(node: Expression, call: Call, scope: Scope, bind: Bind) -> Expr:
    typed = bind(node, scope)
    if typed.type not in NUMBERS:
        raise BindError(f"{call.name} takes numbers, but {described(node, typed)}", node.span)
    return typed.expr
