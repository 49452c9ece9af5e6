"""Expressions: SQL's three truth values are True, False and None, and None is NULL."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from support.cases import Area, Row, Spec, Table
from support.oracle import functions
from support.oracle.geometry import Place, distance, in_polygon, in_rectangle, is_around
from support.oracle.text import contains


@dataclass(frozen=True)
class World:
    """What an expression may look at beside its row: where its location is, and what is defined.

    `focal` says where the object with a key is now, None while it is not there.
    """

    x: str = "x"
    y: str = "y"
    planar: bool = True
    tables: dict[int, Table] = field(default_factory=dict)
    areas: dict[int, Area] = field(default_factory=dict)
    focal: Callable[[Any], Place | None] = lambda key: None

    def place(self, row: Row) -> Place | None:
        """The row's location."""
        x, y = row.get(self.x), row.get(self.y)
        return None if x is None or y is None else (x, y)

    def inside(self, place: Place | None, region: Spec) -> bool:
        """Whether a place lies in a region as it is now; one around an object that is not there is empty."""
        if place is None:
            return False
        if region["type"].startswith("moving"):
            centre = self.focal(region["focal"])
            return centre is not None and self.around(place, centre, region)
        match region["type"]:
            case "all":
                return True
            case "rect":
                return in_rectangle(place, *(region[name] for name in ("x1", "y1", "x2", "y2")))
            case "circle":
                return distance((region["x"], region["y"]), place, self.planar) <= region["radius"]
            case "polygon":
                return in_polygon(place, region["rings"])
        return self._holds(region["area"], region["member"], place)

    def around(self, place: Place, centre: Place, region: Spec) -> bool:
        """Whether a place lies in a moving region around a centre."""
        if region["type"] == "moving_circle":
            return distance(centre, place, self.planar) <= region["radius"]
        return is_around(place, centre, region["xdist"], region["ydist"], self.planar)

    def first_region(self, area: int, place: Place | None) -> str | None:
        """The first region of a set by name that holds a place; None where none does."""
        names = sorted(str(name) for name in self.areas[area].members)
        return next((name for name in names if place and self._holds(area, name, place)), None)

    def _holds(self, area: int, member: str | None, place: Place) -> bool:
        return any(in_polygon(place, rings) for rings in self.areas[area].members[member])

    def joined(self, table_id: int, key: Any, column: str) -> Any:
        """The column of the table's row of that key; None where there is none."""
        table = self.tables[table_id]
        found = [row for row in table.rows if key is not None and row[table.spec["key"]] == key]
        return found[0][column] if found else None


EMPTY = World()


def value(e: Any, row: Row, now: int, world: World = EMPTY, centre: Place | None = None) -> Any:
    """The value of an expression over a row; `centre` is what DISTANCE is measured from."""
    op, *args = e

    def of(part: Any) -> Any:
        return value(part, row, now, world, centre)

    match op:
        case "lit" | "dur":
            return args[0]
        case "col":
            return row[args[0]]
        case "now":
            return now
        case "and" | "or":
            return _connected(op, [of(a) for a in args[0]])
        case "isnull":
            return of(args[0]) is None
        case "between":
            return of(["and", [["cmp", ">=", args[0], args[1]], ["cmp", "<=", args[0], args[2]]]])
        case "in":
            return of(["or", [["cmp", "=", args[0], a] for a in args[1]]]) if args[1] else False
        case "cmp" | "arith":
            a, b = of(args[1]), of(args[2])
            return None if a is None or b is None else _binary(args[0], a, b)
        case "concat":
            texts = [_text(of(a)) for a in args]
            return None if None in texts else "".join(map(str, texts))
        case "inside":
            return world.inside(world.place(row), args[0])
        case "region_of":
            return world.first_region(args[0], world.place(row))
        case "join":
            key = row[args[1]] if isinstance(args[1], str) else of(args[1])
            return world.joined(args[0], key, args[2])
        case "distance":
            place = world.place(row)
            return None if place is None or centre is None else distance(centre, place, world.planar)
        case "distance_to":
            place = world.place(row)
            return None if place is None else distance((args[0], args[1]), place, world.planar)
        case "fn":
            return functions.call(args[0], [of(a) for a in (args[1], *(args[2] if len(args) > 2 else ()))])
        case "cast":
            return functions.cast(of(args[0]), *args[1:])
        case "case":
            held = [of(a) is True for a in args[0]]
            return of(args[1][held.index(True) if True in held else -1])
    inner = of(args[0])
    return None if inner is None else _of_one(op, args, inner)


def _of_one(op: str, args: list[Any], inner: Any) -> Any:
    match op:
        case "like":
            return _like(inner, args[1])
        case "contains":
            return contains(inner, args[1], args[2])
    return not inner if op == "not" else -inner


def _connected(op: str, values: list[Any]) -> Any:
    decides = op == "or"
    if decides in values:
        return decides
    return None if None in values else not decides


def _binary(op: str, a: Any, b: Any) -> Any:
    if op == "/":
        return None if b == 0 else a / b
    if op == "DIV":
        return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if op == "%":
        return None if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1)
    return {
        "=": lambda: a == b,
        "<>": lambda: a != b,
        "<": lambda: a < b,
        "<=": lambda: a <= b,
        ">": lambda: a > b,
        ">=": lambda: a >= b,
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
    }[op]()


def _text(a: Any) -> str | None:
    return None if a is None else str(a).lower() if isinstance(a, bool) else str(a)


def _like(text: str, pattern: str) -> bool:
    parts, chars = [], iter(pattern)
    for c in chars:
        if c == "\\":
            parts.append(re.escape(next(chars, "\\")))
        else:
            parts.append({"%": ".*", "_": "."}.get(c, re.escape(c)))
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def parts_of(e: Any, op: str) -> list[Any]:
    """All sub-expressions of an operation."""
    if isinstance(e, dict) or not isinstance(e, list):
        return []
    return ([e] if e[:1] == [op] else []) + [found for part in e for found in parts_of(part, op)]
