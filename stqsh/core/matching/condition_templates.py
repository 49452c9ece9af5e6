"""Templates of conditions: expressions with their constants replaced by parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from stqsh.core.conditions.evaluation import columns_read
from stqsh.spec.expression import (
    NOW,
    AmongExpr,
    AndExpr,
    ArithmeticExpr,
    BetweenExpr,
    ColumnExpr,
    CompareExpr,
    ContainsExpr,
    DurationExpr,
    Expr,
    ExtentDistanceExpr,
    ExtentTestExpr,
    InExpr,
    InsideEachExpr,
    InsideExpr,
    LiteralExpr,
    NowExpr,
    OrExpr,
    Value,
    changes_always,
    conjuncts,
    find_nodes,
    has_node,
    rewrite,
)
from stqsh.spec.region import (
    CircleSpec,
    Key,
    MovingCircleSpec,
    MovingRectangleSpec,
    NamedRegionSpec,
    RectangleSpec,
    Region,
)

_KINDS = {"INT": "BIGINT", "TIMESTAMP": "BIGINT", "FLOAT": "DOUBLE"}

_SHORT = 4
"""The most constants of an IN that are separate constants; a longer list is one constant."""

_KEPT = 1 << 14
_X, _Y = ".x", ".y"
_MOVING = ("moving_rect", "moving_circle")


class RegionAround(NamedTuple):
    """A moving region of a template: the numbers of its constants.

    Attributes:
        focal: The key of its focal object.
        sizes: Its width and height, or its radius.
    """

    focal: int
    sizes: tuple[int, ...]


class NumberBound(NamedTuple):
    """A constant of a template, by number, that a column must not be below or above."""

    column: str
    constant: int
    is_least: bool


@dataclass(frozen=True)
class Template:
    """A shape, with the column `parameter(j)` in place of its constant j.

    Attributes:
        shape: The expression without its constants.
        kinds: The type of each constant: STRING, BIGINT (also for instants and durations) or DOUBLE.
    """

    shape: Expr
    kinds: tuple[str, ...]

    def columns(self, location: tuple[str, str]) -> list[str]:
        """Return the declared columns that it reads; `location` names those of x and y."""
        return sorted(name for name in columns_read(self.shape, location) if not name.startswith("\0"))

    @cached_property
    def instants(self) -> tuple[CompareExpr, ...]:
        """Its comparisons with NOW, or with NOW ± a constant, which is on the right."""
        return tuple(node for node in find_nodes(self.shape, CompareExpr) if has_now(node.right))

    @cached_property
    def reads_now(self) -> bool:
        """Whether it depends on NOW."""
        return has_node(self.shape, NowExpr)

    @cached_property
    def changes_always(self) -> bool:
        """Whether NOW changes it at other instants than those of its comparisons with NOW."""
        return changes_always(rewrite(self.shape, lambda node: NOW if has_now(node) else None))

    @cached_property
    def extents(self) -> frozenset[str]:
        """The columns of extents that it tests."""
        tested = [node.extent.name for node in find_nodes(self.shape, ExtentTestExpr)]
        measured = [node.extent.name for node in find_nodes(self.shape, ExtentDistanceExpr)]
        return frozenset(tested + measured)

    @cached_property
    def around(self) -> tuple[RegionAround, ...]:
        """Its regions that move with objects."""
        places = (node for node in find_nodes(self.shape, InsideEachExpr) if node.type in _MOVING)
        extents = (node for node in find_nodes(self.shape, ExtentTestExpr) if node.type in _MOVING)
        return (*map(_around, places), *map(_around, extents))

    @cached_property
    def cover(self) -> tuple[RegionAround, ...]:
        """Moving regions that cover the condition: it holds only within them; empty if there are none."""
        return _cover(self.shape)

    @cached_property
    def equalities(self) -> dict[str, int]:
        """The columns that must equal a constant, and the numbers of these constants."""
        found = {}
        for part in conjuncts(self.shape):
            match part:
                case CompareExpr("=", ColumnExpr(name), ColumnExpr(constant)) if constant.startswith("\0"):
                    found[name] = constant_number(part.right)
        return found

    @cached_property
    def intervals(self) -> tuple[NumberBound, ...]:
        """The constants that columns must not be below, or above."""
        found = list[NumberBound]()
        for part in conjuncts(self.shape):
            match part:
                case CompareExpr("<" | "<=" | ">" | ">=" as operator, ColumnExpr(left), ColumnExpr(right)):
                    column, constant, is_least = left, right, operator.startswith(">")
                    if left.startswith("\0"):
                        column, constant, is_least = right, left, not is_least
                    found += _bounds(column, (constant, is_least))
                case BetweenExpr(ColumnExpr(column), ColumnExpr(low), ColumnExpr(high)):
                    found += _bounds(column, (low, True), (high, False))
        return tuple(found)

    @cached_property
    def is_equality(self) -> bool:
        """Whether `equalities` are the whole condition."""
        return len(self.equalities) == len(conjuncts(self.shape))

    def saved(self) -> list[str | list[str]]:
        """Return the template as a slot's header stores it."""
        return [msgspec.json.encode(self.shape).decode(), list(self.kinds)]


def _bounds(column: str, *constants: tuple[str, bool]) -> list[NumberBound]:
    """Return the bounds of a declared column that are constants and numbers of a template's own."""
    own = [(name, is_least) for name, is_least in constants if re.fullmatch("\0[0-9]+", name)]
    return [
        NumberBound(column, int(name[1:]), is_least) for name, is_least in own if not column.startswith("\0")
    ]


@lru_cache(_KEPT)
def read_template(shape: str, kinds: tuple[str, ...]) -> Template:
    """Read the result of `Template.saved`; cached, because each batch reads it again."""
    return Template(msgspec.json.decode(shape, type=Expr), kinds)


def _around(node: InsideEachExpr | ExtentTestExpr) -> RegionAround:
    (x, _), sizes = node.operands[:2], node.operands[2:]
    assert isinstance(x, ColumnExpr), "the place of a focal object is a column"
    return RegionAround(int(x.name.removesuffix(_X)[1:]), tuple(constant_number(one) for one in sizes))


def _cover(expr: Expr) -> tuple[RegionAround, ...]:
    match expr:
        case InsideEachExpr(kind) if kind in _MOVING:
            return (_around(expr),)
        case AndExpr(parts):
            return min(filter(None, map(_cover, parts)), key=len, default=())
        case OrExpr(parts):
            covers = [_cover(part) for part in parts]
            return tuple(dict.fromkeys(chain.from_iterable(covers))) if all(covers) else ()
    return ()


def has_now(expr: Expr) -> bool:
    """Return whether the right side of a comparison is NOW or NOW ± a duration, of a template or not."""
    match expr:
        case NowExpr() | ArithmeticExpr("+" | "-", NowExpr(), DurationExpr()):
            return True
        case ArithmeticExpr("+" | "-", NowExpr(), ColumnExpr(name)):
            return name.startswith("\0")
    return False


def parameter(j: int) -> str:
    """Return the column that stands for constant j; no declared column can have this name."""
    return f"\0{j}"


def focal_columns(j: int) -> tuple[str, str]:
    """Return the columns that stand for x and y of the object whose key is constant j."""
    return parameter(j) + _X, parameter(j) + _Y


def constant_number(column: Expr) -> int:
    """Return the j of a column that stands for constant j."""
    assert isinstance(column, ColumnExpr), "constants are columns in a template"
    return int(column.name[1:])


@dataclass
class _Splitter:
    """Replaces the constants of an expression by parameters, in order."""

    kinds: list[str] = field(default_factory=list)
    constants: list[Value] = field(default_factory=list)

    def change(self, expr: Expr) -> Expr | None:  # noqa: PLR0911  # one for each node
        """Return the replacement of a node in the template; None to visit its children."""
        match expr:
            case CompareExpr(operator, left, right) if has_now(right):
                # In a comparison with NOW only the distance to NOW is a constant.
                return CompareExpr(operator, left, self.change_now(right))
            case LiteralExpr(value, kind):
                return expr if value is None or kind == "BOOLEAN" else self.take(value, kind)
            case DurationExpr(us):
                return self.take(us, "BIGINT")
            case InExpr(operand, items):
                return self.change_in(operand, items)
            case ContainsExpr(operand, str(phrase), match):
                return ContainsExpr(rewrite(operand, self.change), self.take(phrase, "STRING"), match)
            case InsideExpr(region):
                return self.change_inside(region)
            case ExtentTestExpr(around=MovingRectangleSpec(focal, xdist, ydist)):
                sizes = self.take_around(focal, (xdist, ydist))
                return replace(expr, type="moving_rect", operands=sizes, around=None)
            case ExtentTestExpr(around=MovingCircleSpec(focal, radius)):
                return replace(
                    expr, type="moving_circle", operands=self.take_around(focal, (radius,)), around=None
                )
        return None

    def change_now(self, expr: Expr) -> Expr:
        if not isinstance(expr, ArithmeticExpr):
            return expr
        return ArithmeticExpr(expr.operator, expr.left, rewrite(expr.right, self.change))

    def change_in(self, operand: Expr, items: tuple[Expr, ...]) -> Expr | None:
        constants = [item.value for item in items if isinstance(item, LiteralExpr) and item.type != "BOOLEAN"]
        if len(constants) < len(items) or len(items) <= _SHORT:
            return None
        shape = rewrite(operand, self.change)
        return AmongExpr(shape, self.take(msgspec.json.encode(constants).decode(), "STRING"))

    def change_inside(self, region: Region) -> Expr:
        """Keep polygons in the template, because each is tested separately in any case."""
        match region:
            case RectangleSpec():
                return InsideEachExpr("rect", tuple(self.take(side, "DOUBLE") for side in region.box))
            case CircleSpec(x, y, radius):
                return InsideEachExpr("circle", tuple(self.take(one, "DOUBLE") for one in (x, y, radius)))
            case MovingRectangleSpec(focal, xdist, ydist):
                return InsideEachExpr("moving_rect", self.take_around(focal, (xdist, ydist)))
            case MovingCircleSpec(focal, radius):
                return InsideEachExpr("moving_circle", self.take_around(focal, (radius,)))
            case NamedRegionSpec(area, _, str(member)):
                return InsideEachExpr("area", (self.take(member, "STRING"),), area)
        return InsideExpr(region)

    def take_around(self, focal: Key, sizes: tuple[float, ...]) -> tuple[ColumnExpr, ...]:
        """Return the operands of a region around an object; the object's place is not a constant."""
        key = self.take(focal, "STRING" if isinstance(focal, str) else "BIGINT")
        places = (ColumnExpr(name) for name in focal_columns(constant_number(key)))
        return (*places, *(self.take(size, "DOUBLE") for size in sizes))

    def take(self, value: Value, kind: str) -> ColumnExpr:
        self.kinds.append(_KINDS.get(kind, kind))
        self.constants.append(value)
        return ColumnExpr(parameter(len(self.constants) - 1))


def split(condition: Expr) -> tuple[Template, list[Value]]:
    """Return the template of a condition, and its constants in order.

    NULLs, truth values, LIKE patterns and polygons belong to the shape. In a comparison with NOW only the
    distance to NOW is a constant. The terms of CONTAINS are a constant, so that queries that differ only in
    their keywords are evaluated together.
    """
    splitter = _Splitter()
    shape = rewrite(condition, splitter.change)
    return Template(shape, tuple(splitter.kinds)), splitter.constants
