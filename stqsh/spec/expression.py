"""Bound expressions and conditions: a tagged union of small structs.

As JSON an expression is a nested array that begins with its tag, such as `["cmp", ">", ["col", "speed"],
["lit", 3.5, "DOUBLE"]]`. The core evaluates whole columns, so it visits each node once for a batch or for
a snapshot: structs cost it nothing there, and they decode faster than nested lists do in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from stqsh.spec.functions import FUNCTIONS
from stqsh.spec.region import (
    MOVING,
    CircleSpec,
    Key,
    MovingSpec,
    NamedRegionSpec,
    Place,
    PolygonSpec,
    Region,
)

Value: TypeAlias = bool | int | float | str | None
Match: TypeAlias = Literal["all", "any"]
ResultType: TypeAlias = Literal["STRING", "BIGINT", "DOUBLE", "BOOLEAN"]


class FunctionSpec(msgspec.Struct, frozen=True):
    """A function of whole columns, which a user registers for the expressions of queries.

    Attributes:
        name: the name by which statements call it, in upper case.
        code: the function as `pickle` reads it, in base64.
        returns: the type of its values.
        parameters: its parameters, if CREATE FUNCTION made it: names and types, "" for any type.
        text: the text of its Python file, if CREATE FUNCTION made it.
        origin: the origin of that file.
    """

    name: str
    code: str
    returns: ResultType
    parameters: tuple[tuple[str, str], ...] | None = None
    text: str = ""
    origin: str = ""


class ExprBase(msgspec.Struct, frozen=True, array_like=True, tag_field="node"):
    """The base of all nodes: the first element of their JSON array is their tag."""


class ColumnExpr(ExprBase, frozen=True, tag="col"):
    """The value of a column of the stream."""

    name: str


class JoinExpr(ExprBase, frozen=True, tag="join"):
    """The column `wanted` of the row of a table whose key equals `column`; NULL without one.

    Attributes:
        table: the id of the table.
        column: a column of the stream, or one of a table that is joined before this one.
        wanted: a column of the table.
    """

    table: int
    column: str | JoinExpr
    wanted: str


class LiteralExpr(ExprBase, frozen=True, tag="lit"):
    """A constant and its column type; instants are µs since the epoch."""

    value: Value
    type: str


class DurationExpr(ExprBase, frozen=True, tag="dur"):
    """A duration in µs."""

    us: int


class NowExpr(ExprBase, frozen=True, tag="now"):
    """The instant at which a row is evaluated."""


class DistanceExpr(ExprBase, frozen=True, tag="distance"):
    """The distance of the object from the centre of the query's region."""


class DistanceToExpr(ExprBase, frozen=True, tag="distance_to"):
    """The distance of the location from a place: DISTANCE if the order of members depends on it."""

    x: float
    y: float


class NegativeExpr(ExprBase, frozen=True, tag="neg"):
    """The negation of a number."""

    operand: Expr


class ArithmeticExpr(ExprBase, frozen=True, tag="arith"):
    """`left operator right` with one of + - * / % DIV; also an instant plus or minus a duration."""

    operator: str
    left: Expr
    right: Expr


class ConcatExpr(ExprBase, frozen=True, tag="concat"):
    """`left || right`: two values joined as text."""

    left: Expr
    right: Expr


class CompareExpr(ExprBase, frozen=True, tag="cmp"):
    """`left operator right` with one of = <> < <= > >=."""

    operator: str
    left: Expr
    right: Expr


class BetweenExpr(ExprBase, frozen=True, tag="between"):
    """`operand BETWEEN low AND high`."""

    operand: Expr
    low: Expr
    high: Expr


class InExpr(ExprBase, frozen=True, tag="in"):
    """`operand IN (items)`."""

    operand: Expr
    items: tuple[Expr, ...]


class LikeExpr(ExprBase, frozen=True, tag="like"):
    """`operand LIKE pattern`."""

    operand: Expr
    pattern: str


class ContainsExpr(ExprBase, frozen=True, tag="contains"):
    """Whether a text has all of the words of a phrase, or any of them.

    The phrase is a column if each row has its own; only condition templates use that.
    """

    operand: Expr
    phrase: str | ColumnExpr
    match: Match


class IsNullExpr(ExprBase, frozen=True, tag="isnull"):
    """`operand IS NULL`."""

    operand: Expr


class FunctionExpr(ExprBase, frozen=True, tag="fn"):
    """A function of `spec/functions.py`, or of places.

    Attributes:
        name: the function's name.
        operand: its first argument.
        others: its further arguments.
        type: the column type of its values where it depends on the arguments; empty where it does not.
    """

    name: str
    operand: Expr
    others: tuple[Expr, ...] = ()
    type: str = ""


class CastExpr(ExprBase, frozen=True, tag="cast"):
    """`CAST(operand AS type)`: NULL where the value has no counterpart.

    Attributes:
        operand: the value.
        source: its column type.
        type: the requested column type.
    """

    operand: Expr
    source: str
    type: str


class CaseExpr(ExprBase, frozen=True, tag="case"):
    """The result of the first condition that holds; the last result where none does.

    Attributes:
        conditions: the conditions.
        results: the results, one more than there are conditions.
        type: their column type.
    """

    conditions: tuple[Expr, ...]
    results: tuple[Expr, ...]
    type: str


class CallExpr(ExprBase, frozen=True, tag="call"):
    """A call of a function that a user has registered; it contains the function.

    Attributes:
        name: the function's name.
        code: the function, see `FunctionSpec.code`.
        arguments: its arguments.
        kinds: their column types.
        type: the column type of its values.
    """

    name: str
    code: str
    arguments: tuple[Expr, ...]
    kinds: tuple[str, ...]
    type: str


class RegionOfExpr(ExprBase, frozen=True, tag="region_of"):
    """The first region by name of a set that holds the location; NULL if none does.

    Attributes:
        area: the id of the set.
        of_extent: computes it for objects with an extent; None for objects that are points.
    """

    area: int
    of_extent: CaseExpr | None = None


class InsideExpr(ExprBase, frozen=True, tag="inside"):
    """Whether the location is in a region; one that moves is empty while its focal object is absent."""

    region: Region


class ExtentTestExpr(ExprBase, frozen=True, tag="extent_test"):
    """Whether the extent of a row lies within a region, or shares a point with it.

    Attributes:
        extent: the column of extents, as WKT.
        relation: "inside" or "intersects".
        type: the type of the region.
        operands: x1, y1, x2, y2 of a "rect", x, y, radius of a "circle"; none of a "polygon". In a template,
            x and y of the focal object and the width and height of a "moving_rect", or the radius of a
            "moving_circle"; none elsewhere.
        polygon: a polygon as WKT. It is not an operand: queries with different polygons are tested separately
            in any case.
        planar: whether places are plane coordinates.
        area: the id of the region's name, if it has one.
        name: the region's name, with its member; "" if it has none.
        around: the region, if it moves with an object.
    """

    extent: ColumnExpr
    relation: Literal["inside", "intersects"]
    type: Literal["rect", "circle", "polygon", "moving_rect", "moving_circle"]
    operands: tuple[Expr, ...] = ()
    polygon: str = ""
    planar: bool = False
    area: int | None = None
    name: str = ""
    around: MovingSpec | None = None

    def numbers(self) -> tuple[float, ...]:
        """Return the operands, which are constants."""
        values = (operand.value for operand in self.operands if isinstance(operand, LiteralExpr))
        return tuple(float(value) for value in values if value is not None)


class ExtentDistanceExpr(ExprBase, frozen=True, tag="extent_distance"):
    """The distance from a place to the nearest point of a row's extent; 0 if the extent holds the place."""

    extent: ColumnExpr
    x: Expr
    y: Expr
    planar: bool = False

    @property
    def place(self) -> tuple[float, float] | None:
        """The place; None if it is not constant."""
        match self.x, self.y:
            case LiteralExpr(float() | int() as x), LiteralExpr(float() | int() as y):
                return float(x), float(y)
        return None


class AndExpr(ExprBase, frozen=True, tag="and"):
    """A conjunction: all conditions must hold."""

    parts: tuple[Expr, ...]


class OrExpr(ExprBase, frozen=True, tag="or"):
    """A disjunction: at least one condition must hold."""

    parts: tuple[Expr, ...]


class NotExpr(ExprBase, frozen=True, tag="not"):
    """A condition that must not hold."""

    operand: Expr


class AmongExpr(ExprBase, frozen=True, tag="among"):
    """IN with separate constants for each row, a JSON array in `constants`; only templates have it."""

    operand: Expr
    constants: ColumnExpr


class InsideEachExpr(ExprBase, frozen=True, tag="inside_each"):
    """Whether the location is in a separate region for each row; only templates have it.

    `operands` are x1, y1, x2, y2 of a "rect", x, y, radius of a "circle", the member of an "area"; x, y of
    the focal object and the width and height of a "moving_rect", or the radius of a "moving_circle".
    """

    type: Literal["rect", "circle", "area", "moving_rect", "moving_circle"]
    operands: tuple[ColumnExpr, ...]
    area: int = 0


Expr: TypeAlias = (
    ColumnExpr
    | JoinExpr
    | LiteralExpr
    | DurationExpr
    | NowExpr
    | DistanceExpr
    | DistanceToExpr
    | NegativeExpr
    | ArithmeticExpr
    | ConcatExpr
    | CompareExpr
    | BetweenExpr
    | InExpr
    | LikeExpr
    | ContainsExpr
    | IsNullExpr
    | FunctionExpr
    | CastExpr
    | CaseExpr
    | CallExpr
    | RegionOfExpr
    | InsideExpr
    | ExtentTestExpr
    | ExtentDistanceExpr
    | AndExpr
    | OrExpr
    | NotExpr
    | AmongExpr
    | InsideEachExpr
)

NOW = NowExpr()
DISTANCE = DistanceExpr()
_Node = TypeVar("_Node", bound=ExprBase)


def conjuncts(expr: Expr | None) -> tuple[Expr, ...]:
    """Return the operands of nested ANDs at the top of a condition; none for None."""
    if expr is None:
        return ()
    if not isinstance(expr, AndExpr):
        return (expr,)
    return tuple(found for part in expr.parts for found in conjuncts(part))


def extent_tests(condition: Expr | None) -> tuple[ExtentTestExpr, ...]:
    """Return the regions that extents must meet to satisfy a condition."""
    return tuple(part for part in conjuncts(condition) if isinstance(part, ExtentTestExpr))


def conjunction(conditions: list[Expr]) -> Expr | None:
    """Return conditions joined by AND, None for none."""
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else AndExpr(tuple(conditions))


def find_nodes(expr: Expr | None, node: type[_Node]) -> Iterator[_Node]:
    """Find all nodes of one type in an expression, outermost first."""
    if expr is None:
        return
    if isinstance(expr, node):
        yield expr
    for child in _children(expr):
        yield from find_nodes(child, node)


def has_node(expr: Expr | None, node: type[ExprBase]) -> bool:
    """Return whether a node of a type occurs in an expression."""
    return next(find_nodes(expr, node), None) is not None


def compared_with_now(expr: Expr | None) -> Iterator[tuple[Expr, int]]:
    """Find the expressions that an expression compares with NOW ± a duration, and that duration, µs."""
    for node in find_nodes(expr, CompareExpr):
        match node.right:
            case NowExpr():
                yield node.left, 0
            case ArithmeticExpr(operator, NowExpr(), DurationExpr(us)):
                yield node.left, us if operator == "+" else -us


def changes_always(expr: Expr | None) -> bool:
    """Return whether NOW changes an expression at other instants than those of `compared_with_now`."""
    if not has_node(expr, NowExpr):
        return False
    match expr:
        case CompareExpr(_, left, NowExpr() | ArithmeticExpr(_, NowExpr(), DurationExpr())):
            return changes_always(left)
        case None | NowExpr():
            return expr is not None
    return any(changes_always(child) for child in _children(expr))


def gives_instants(expr: Expr) -> bool:
    """Return whether an expression other than a column yields instants, which are computed as int64 µs."""
    match expr:
        case FunctionExpr(name, _, _, kind):
            known = FUNCTIONS.get(name)
            return (kind or (known.returns if known else "")) == "TIMESTAMP"
        case CastExpr(type=kind) | CaseExpr(type=kind) | LiteralExpr(type=kind):
            return kind == "TIMESTAMP"
        case ArithmeticExpr("+" | "-", _, DurationExpr()) | NowExpr():
            return True
    return False


_OF_PLACES = (InsideExpr, InsideEachExpr, RegionOfExpr, DistanceToExpr)


def reads_location(expr: Expr | None) -> bool:
    """Return whether an expression reads the location of its row."""
    return any(has_node(expr, node) for node in _OF_PLACES)


def areas_of(expr: Expr | None) -> set[int]:
    """Return the ids of the named regions, and sets of them, that an expression refers to."""
    if expr is None or isinstance(expr, ColumnExpr):
        return set()
    sets = {node.area for node in find_nodes(expr, RegionOfExpr)}
    regions = [node.region for node in find_nodes(expr, InsideExpr)]
    kinds = NamedRegionSpec | CircleSpec | PolygonSpec
    named = {region.area for region in regions if isinstance(region, kinds)}
    named |= {node.area for node in find_nodes(expr, ExtentTestExpr)}
    return sets | {area for area in named if area is not None}


def focal_keys_in(expr: Expr | None) -> tuple[Key, ...]:
    """Return the keys of the focal objects of an expression's regions, each once, in order."""
    return () if expr is None else tuple(dict.fromkeys(region.focal for region in moving_regions(expr)))


def moving_regions(expr: Expr | None) -> Iterator[MovingSpec]:
    """Yield the regions of an expression that move with objects."""
    for node in find_nodes(expr, InsideExpr):
        if isinstance(node.region, MOVING):
            yield node.region
    for test in find_nodes(expr, ExtentTestExpr):
        if test.around is not None:
            yield test.around


def located(expr: Expr, places: Mapping[Key, Place]) -> Expr:
    """Return an expression with its moving regions at the places of their focal objects, if these exist."""

    def placed(node: Expr) -> Expr | None:
        if isinstance(node, InsideExpr) and isinstance(node.region, MOVING):
            return InsideExpr(msgspec.structs.replace(node.region, at=places.get(node.region.focal)))
        if isinstance(node, ExtentTestExpr) and node.around is not None:
            around = msgspec.structs.replace(node.around, at=places.get(node.around.focal))
            return msgspec.structs.replace(node, around=around)
        return None

    return rewrite(expr, placed)


def rewrite(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Replace nodes from the top down, in the order of their fields.

    Args:
        expr: the expression.
        change: returns the replacement of a node and its descendants, or None to visit its children.
    """
    changed = change(expr)
    if changed is not None:
        return changed
    fields = {name: getattr(expr, name) for name in expr.__struct_fields__}
    new = {name: _rewrite_field(value, change) for name, value in fields.items()}
    return msgspec.structs.replace(expr, **new) if new != fields else expr


def _rewrite_field(value: Any, change: Callable[[Expr], Expr | None]) -> Any:
    if isinstance(value, ExprBase):
        return rewrite(value, change)  # type: ignore[arg-type]  # each node is of the union
    return tuple(_rewrite_field(part, change) for part in value) if isinstance(value, tuple) else value


def _children(expr: Expr) -> Iterator[Expr]:
    """Yield the expressions directly within one."""
    for name in expr.__struct_fields__:
        value = getattr(expr, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, ExprBase):
                yield part  # type: ignore[misc]  # each node is of the union
