"""Print expressions, conditions and regions, with no more parentheses than they need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stqsh.lang.ast.expressions import (
    After,
    And,
    Arithmetic,
    Between,
    Call,
    Case,
    Cast,
    Circle,
    Column,
    Comparison,
    Concatenation,
    Contains,
    Expression,
    In,
    Inside,
    IsNull,
    Like,
    Literal,
    MovingCircle,
    MovingRectangle,
    NamedRegion,
    Nearest,
    Negative,
    Not,
    Now,
    Or,
    Parameter,
    Polygon,
    Quantity,
    Rectangle,
    Region,
    Star,
)
from stqsh.lang.printer.values import column_name, constant, coordinate, identifier, number, parameter, text

_OR, _AND, _NOT, _PREDICATE, _JOINED, _SUM, _PRODUCT, _UNARY, _ATOM = range(9)
_PRECEDENCE: dict[type[Expression], int] = {
    Or: _OR,
    And: _AND,
    Not: _NOT,
    **dict.fromkeys((Comparison, Between, In, Like, IsNull, Contains, After, Inside), _PREDICATE),
    Concatenation: _JOINED,
    # A negative number may replace a parameter.
    **dict.fromkeys((Negative, Parameter), _UNARY),
}


def expression(node: Expression) -> str:
    """Return an expression as text."""
    return _PRINTERS[type(node)](node)


def _precedence(node: Expression) -> int:
    if isinstance(node, Arithmetic):
        return _SUM if node.operator in "+-" else _PRODUCT
    return _PRECEDENCE.get(type(node), _ATOM)


def _at(node: Expression, least: int) -> str:
    """Return a node as text, in parentheses if it binds less tightly than `least`."""
    text = expression(node)
    return text if _precedence(node) >= least else f"({text})"


def _column(node: Column) -> str:
    name = column_name(node.name)
    return name if node.qualifier is None else f"{identifier(node.qualifier)}.{name}"


def _arithmetic(node: Arithmetic) -> str:
    level = _precedence(node)
    return f"{_at(node.left, level)} {node.operator} {_at(node.right, level + 1)}"


def _comparison(node: Comparison) -> str:
    return f"{_at(node.left, _JOINED)} {node.operator} {_at(node.right, _JOINED)}"


def _between(node: Between) -> str:
    low, high = _at(node.low, _JOINED), _at(node.high, _JOINED)
    return f"{_at(node.operand, _JOINED)} {_not(node)}BETWEEN {low} AND {high}"


def _in(node: In) -> str:
    return f"{_at(node.operand, _JOINED)} {_not(node)}IN ({', '.join(map(expression, node.items))})"


def _not(node: Between | In | Like | IsNull) -> str:
    return "NOT " if node.negated else ""


def _contains(node: Contains) -> str:
    return f"{_at(node.operand, _JOINED)} CONTAINS {'ANY ' if node.any_of else ''}{text(node.terms)}"


def _call(node: Call) -> str:
    arguments = ", ".join(map(expression, node.arguments))
    return f"{identifier(node.name)}({'DISTINCT ' if node.distinct else ''}{arguments})"


def _case(node: Case) -> str:
    parts = ["CASE", *([] if node.operand is None else [expression(node.operand)])]
    for condition, result in zip(node.conditions, node.results, strict=True):
        parts.append(f"WHEN {expression(condition)} THEN {expression(result)}")
    parts += [] if node.otherwise is None else [f"ELSE {expression(node.otherwise)}"]
    return " ".join([*parts, "END"])


_PRINTERS: dict[type[Expression], Callable[[Any], str]] = {
    Literal: constant,
    Quantity: constant,
    Parameter: parameter,
    Column: _column,
    Star: lambda node: "*" if node.qualifier is None else f"{identifier(node.qualifier)}.*",
    Now: lambda node: "NOW",
    Call: _call,
    Cast: lambda node: f"CAST({expression(node.operand)} AS {identifier(node.type.text)})",
    Case: _case,
    # The operand must bind one level tighter, so that two minus signs never form a comment.
    Negative: lambda node: f"-{_at(node.operand, _ATOM)}",
    Arithmetic: _arithmetic,
    Concatenation: lambda node: f"{_at(node.left, _JOINED)} || {_at(node.right, _SUM)}",
    Comparison: _comparison,
    Between: _between,
    In: _in,
    Like: lambda node: f"{_at(node.operand, _JOINED)} {_not(node)}LIKE {text(node.pattern)}",
    IsNull: lambda node: f"{_at(node.operand, _JOINED)} IS {_not(node)}NULL",
    Contains: _contains,
    After: lambda node: f"{_at(node.operand, _JOINED)} AFTER {text(node.moment)}",
    Inside: lambda node: f"{_column(node.column)} {node.relation} {region(node.region)}",
    And: lambda node: " AND ".join(_at(part, _NOT) for part in node.parts),
    Or: lambda node: " OR ".join(_at(part, _AND) for part in node.parts),
    Not: lambda node: f"NOT {_at(node.operand, _NOT)}",
}


def region(node: Region) -> str:
    """Return a region as text."""
    return _REGIONS[type(node)](node)


def _polygon(node: Polygon) -> str:
    rings = ("(" + ", ".join(f"{number(x)} {number(y)}" for x, y in ring) + ")" for ring in node.rings)
    return f"POLYGON({', '.join(rings)})"


def _named(node: NamedRegion) -> str:
    return identifier(node.name) + ("" if node.member is None else f"[{constant(node.member)}]")


_REGIONS: dict[type[Region], Callable[[Any], str]] = {
    Rectangle: lambda node: f"RECT({', '.join(map(coordinate, (node.x1, node.y1, node.x2, node.y2)))})",
    MovingRectangle: lambda node: (
        f"RECT({expression(node.xdist)}, {expression(node.ydist)}) AROUND {constant(node.focal)}"
    ),
    Circle: lambda node: f"CIRCLE({coordinate(node.x)}, {coordinate(node.y)}, {expression(node.radius)})",
    MovingCircle: lambda node: f"CIRCLE({expression(node.radius)}) AROUND {constant(node.focal)}",
    Polygon: _polygon,
    NamedRegion: _named,
}


def nearest(node: Nearest) -> str:
    """Return `NEAREST k TO place`."""
    k = constant(node.k)
    if node.point is None:
        return f"NEAREST {k} TO {'' if node.focal is None else constant(node.focal)}"
    return f"NEAREST {k} TO ({coordinate(node.point[0])}, {coordinate(node.point[1])})"
