"""Shapes of conditions: what stays of an expression when its constants are taken out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from stqsh.core.conditions.evaluation import columns_read, parts
from stqsh.core.conditions.operations import Expr

_KINDS = {"INT": "BIGINT", "TIMESTAMP": "BIGINT", "FLOAT": "DOUBLE"}

_SHORT = 4
"""Constants of an IN that are compared one by one; longer lists are one constant."""

_MEASURES = {"rect": ("x1", "y1", "x2", "y2"), "circle": ("x", "y", "radius")}


@dataclass
class Template:
    """A shape, with `["col", "\\0j"]` in the place of its constant j.

    kinds: the type of each constant: STRING, BIGINT (also instants and durations) or DOUBLE.
    """

    shape: Expr
    kinds: list[str]

    @property
    def key(self) -> bytes:
        """Equal for equal templates."""
        return orjson.dumps([self.shape, self.kinds])

    def columns(self, location: tuple[str, str]) -> list[str]:
        """Return the declared columns that it reads; location: those of x and y."""
        return sorted(name for name in columns_read(self.shape, location) if not name.startswith("\0"))

    @property
    def instants(self) -> list[Expr]:
        """Its comparisons with NOW: `["cmp", op, expression, ["now"]]`, or now ± a constant on the right."""
        return [part for part in parts(self.shape, "cmp") if has_now(part[3])]


def has_now(expr: Expr) -> bool:
    """Return whether the right side of a comparison is NOW or NOW ± a duration."""
    return bool(expr[0] == "now" or (expr[0] == "arith" and expr[2] == ["now"]))


def parameter(j: int) -> str:
    """Return the column that stands for constant j; no declared column can have such a name."""
    return f"\0{j}"


class _Splitter:
    """Takes the constants out of an expression, one after the other."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.constants: list[Any] = []

    def walk(self, expr: Any) -> Any:
        if not isinstance(expr, list) or (expr[0] == "cmp" and has_now(expr[3])):
            return [*expr[:3], self.walk_now(expr[3])] if isinstance(expr, list) else expr
        if expr[0] == "lit":
            inline = expr[1] is None or expr[2] == "BOOLEAN"
            return expr if inline else self.take(expr[1], expr[2])
        if expr[0] == "dur":
            return self.take(expr[1], "BIGINT")
        special = _SPECIAL.get(expr[0])
        return special(self, *expr[1:]) if special else [expr[0], *map(self.walk, expr[1:])]

    def walk_in(self, inner: Expr, items: list[Expr]) -> Expr:
        constant = all(item[0] == "lit" and item[2] != "BOOLEAN" for item in items)
        if constant and len(items) > _SHORT:
            constants = orjson.dumps([item[1] for item in items]).decode()
            return ["among", self.walk(inner), self.take(constants, "STRING")]
        return ["in", self.walk(inner), [self.walk(item) for item in items]]

    def walk_contains(self, inner: Expr, phrase: str, how: str) -> Expr:
        return ["contains", self.walk(inner), self.take(phrase, "STRING"), how]

    def walk_inside(self, region: dict[str, Any]) -> Expr:
        """Polygons belong to the shape: each is looked at by itself in any case."""
        measures = _MEASURES.get(region["type"], ())
        out = region | {name: self.take(region[name], "DOUBLE") for name in measures}
        if region.get("member") is not None:
            out["member"] = self.take(region["member"], "STRING")
        return ["inside", out]

    def walk_now(self, expr: Expr) -> Expr:
        return expr if expr[0] == "now" else [*expr[:3], self.walk(expr[3])]

    def take(self, value: Any, kind: str) -> Expr:
        self.kinds.append(_KINDS.get(kind, kind))
        self.constants.append(value)
        return ["col", parameter(len(self.constants) - 1)]


_SPECIAL: dict[str, Callable[..., Expr]] = {
    "in": _Splitter.walk_in,
    "contains": _Splitter.walk_contains,
    "inside": _Splitter.walk_inside,
}


def split(condition: Expr) -> tuple[Template, list[Any]]:
    """Return the template of a condition, and its constants in order.

    NULLs, truth values, LIKE patterns and polygons belong to the shape, as does all that is compared with NOW
    but the distance to NOW. What CONTAINS asks for is a constant, so that queries which differ only in their
    keywords are looked at together.
    """
    splitter = _Splitter()
    return Template(splitter.walk(condition), splitter.kinds), splitter.constants
