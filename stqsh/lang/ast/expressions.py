"""The parts of statements: expressions, conditions, regions and places, as the user wrote them.

All nodes are frozen dataclasses. `span` is a node's position in its statement; comparisons ignore it, so two
texts with the same meaning give equal trees.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar
from typing import Literal as OneOf

from stqsh.lang.ast.source import NOWHERE, Span


@dataclass(frozen=True, kw_only=True)
class Node:
    """The base of every part of a statement."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


AnyNode = TypeVar("AnyNode", bound=Node)


def changed(node: AnyNode, **fields: Any) -> AnyNode:
    """Return a copy of a node with some fields changed; much faster than `dataclasses.replace`."""
    copy = object.__new__(type(node))
    copy.__dict__.update(node.__dict__, **fields)
    return copy


class Expression(Node):
    """The base of everything that has a value for a row, including conditions."""


@dataclass(frozen=True)
class Name(Node):
    """An identifier of a stream, a query or a column; `quoted` if it was typed in double quotes."""

    text: str
    quoted: bool = field(default=False, compare=False, repr=False)


LiteralKind = OneOf["STRING", "INTEGER", "DECIMAL", "BOOLEAN", "NULL"]


@dataclass(frozen=True)
class Literal(Expression):
    """A constant; `kind` distinguishes 1 from 1.0 and TRUE, which Python considers equal."""

    value: str | int | float | bool | None
    kind: LiteralKind


@dataclass(frozen=True)
class Parameter(Expression):
    """`:name` in REGISTER QUERIES, which stands for a constant in that column of the rows.

    `type` is the column's type once the columns are known; before that, and in other statements, it is None.
    """

    name: str
    type: str | None = None


Coordinate = float | Parameter


@dataclass(frozen=True)
class Quantity(Expression):
    """A number with a unit (`5 min`, `2 km`, `60 km/h`); `unit` is a key of `stqsh.units.UNITS`."""

    number: int | float
    unit: str


@dataclass(frozen=True)
class Column(Expression):
    """A column, possibly qualified by the name or alias of its stream: `M.oid`.

    `quoted` means that it was typed in double quotes, and so may be meant as a text, as in other systems.
    """

    name: str
    qualifier: str | None = None
    quoted: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True)
class Star(Expression):
    """`*` in a select list or in COUNT(*); `M.*` with a qualifier."""

    qualifier: str | None = None


@dataclass(frozen=True)
class Now(Expression):
    """`NOW`: the time of the step."""


@dataclass(frozen=True)
class Call(Expression):
    """A call of a function or an aggregate: `COUNT(*)`, `DATE(ts)`, `REGION(zones)`. `name` is in capitals.

    `distinct` means that it is `COUNT(DISTINCT x)`.
    """

    name: str
    arguments: tuple[Expression, ...]
    distinct: bool = False


@dataclass(frozen=True)
class Cast(Expression):
    """`CAST(x AS type)`, or `x::type`."""

    operand: Expression
    type: Name


@dataclass(frozen=True)
class Case(Expression):
    """`CASE [operand] WHEN … THEN … [ELSE …] END`.

    `conditions` are the expressions after WHEN, either conditions or values to compare with the operand;
    `results` are those after THEN.
    """

    operand: Expression | None
    conditions: tuple[Expression, ...]
    results: tuple[Expression, ...]
    otherwise: Expression | None = None


@dataclass(frozen=True)
class Negative(Expression):
    """`-x`."""

    operand: Expression


@dataclass(frozen=True)
class Arithmetic(Expression):
    """`x + y`, and the same with `-`, `*`, `/`, `%`, `DIV`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Concatenation(Expression):
    """`x || y`: two texts joined."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Comparison(Expression):
    """`x < y`; the operator is one of = <> < <= > >= (`!=` is read as `<>`)."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Between(Expression):
    """`x [NOT] BETWEEN low AND high`."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False


@dataclass(frozen=True)
class In(Expression):
    """`x [NOT] IN (a, b, …)`."""

    operand: Expression
    items: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True)
class Like(Expression):
    """`x [NOT] LIKE 'pattern'` with the wildcards `%` and `_`; a backslash escapes them."""

    operand: Expression
    pattern: str | Parameter
    negated: bool = False


@dataclass(frozen=True)
class IsNull(Expression):
    """`x IS [NOT] NULL`."""

    operand: Expression
    negated: bool = False


@dataclass(frozen=True)
class Contains(Expression):
    """`column CONTAINS [ANY] 'terms'`."""

    operand: Expression
    terms: str | Parameter
    any_of: bool = False


@dataclass(frozen=True)
class After(Expression):
    """`time AFTER '10 mins ago'`, or `AFTER` an ISO timestamp."""

    operand: Expression
    moment: str


@dataclass(frozen=True)
class And(Expression):
    """True if all parts are; there are at least two."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Or(Expression):
    """True if any part is; there are at least two."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Not(Expression):
    """`NOT x`."""

    operand: Expression


class Region(Node):
    """The base of regions, as written after INSIDE."""


@dataclass(frozen=True)
class Inside(Expression):
    """`loc INSIDE region` or `loc INTERSECTS region` as a condition."""

    column: Column
    region: Region
    relation: OneOf["INSIDE", "INTERSECTS"] = "INSIDE"


@dataclass(frozen=True)
class Rectangle(Region):
    """`RECT(x1, y1, x2, y2)` or `(x1, y1, x2, y2)`: two opposite corners, in any order."""

    x1: Coordinate
    y1: Coordinate
    x2: Coordinate
    y2: Coordinate


@dataclass(frozen=True)
class MovingRectangle(Region):
    """`RECT(xdist, ydist) AROUND id` or `('M', id, xdist, ydist)`."""

    focal: Literal | Parameter
    xdist: Expression
    ydist: Expression


@dataclass(frozen=True)
class Circle(Region):
    """`CIRCLE(x, y, r)`."""

    x: Coordinate
    y: Coordinate
    radius: Expression


@dataclass(frozen=True)
class MovingCircle(Region):
    """`CIRCLE(r) AROUND id`."""

    focal: Literal | Parameter
    radius: Expression


@dataclass(frozen=True)
class Polygon(Region):
    """`POLYGON((x y, …), (…))`: the outer ring, then the holes; each ring ends where it begins."""

    rings: tuple[tuple[tuple[float, float], ...], ...]


@dataclass(frozen=True)
class NamedRegion(Region):
    """A named region, or a member of a named set of regions: `zones['id']`."""

    name: str
    member: Literal | Parameter | None = None


@dataclass(frozen=True)
class Nearest(Node):
    """`NEAREST k TO (x, y)` with a point, `NEAREST k TO id` with a focal object; KNN(…) means the same."""

    k: Literal | Parameter
    point: tuple[Coordinate, Coordinate] | None = None
    focal: Literal | Parameter | None = None
