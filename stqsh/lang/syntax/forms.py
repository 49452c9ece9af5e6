"""Read statements that are alike but for a name and the values of a region, as scripts have by the thousand.

Idea: numbers and quoted texts cut the text of a REGISTER QUERY into fixed parts. A text with the same fixed
parts as an earlier one is the same statement with another name and other values, so neither words nor a tree
are needed to know what it says. Its SELECT is parsed only if somebody looks at it.

Invariant: only numbers that are coordinates of the region or the radius of a circle may differ, because any
finite number parses there, and the key of a focal object, if both are texts or both are numbers. All other
values are part of the form. Cost: one search for values a statement.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import NamedTuple, TypeAlias

from stqsh.lang.ast.expressions import (
    And,
    Circle,
    Inside,
    Literal,
    MovingCircle,
    MovingRectangle,
    Name,
    Nearest,
    Rectangle,
    Region,
    changed,
)
from stqsh.lang.ast.source import Piece, Span
from stqsh.lang.ast.statements import Drop, RegisterQuery, Select, Statement

_HEAD = re.compile(r"REGISTER QUERY ([^\W\d]\w{0,254})(?= AS )", re.ASCII)
_DROP = re.compile(r"DROP QUERY ([^\W\d]\w{0,254})", re.ASCII)
_VALUES = re.compile(
    r"('(?:[^']|'')*'|[-0-9.][0-9.]*(?:[eE][+-]?[0-9]+)?)"
)  # a lone sign is no number, but fixed
_MOST_DIGITS = 18
_MOST_FORMS = 1000
_CORNERS, _CENTRE = 4, 2

Kind: TypeAlias = OneOf["", "DOUBLE", "BIGINT", "STRING"]
"""The type of a value that may differ; "" for one that may not."""


@dataclass(eq=False)
class Form:
    """What statements that are alike have in common.

    Attributes:
        parts: the text from the query's name on, around the values that may differ.
        types: the types of these values.
        count: how many statements were read by this form.
    """

    parts: tuple[str, ...]
    types: tuple[Kind, ...]
    count: int = 0

    def with_parameters(self) -> str:
        """Return the statement that registers queries of this form from rows with the columns c0, c1, …."""
        last = len(self.parts) - 1
        return "REGISTER QUERIES" + "".join(
            part if place == last else f"{part}:c{place}" for place, part in enumerate(self.parts)
        )


class Alike(NamedTuple):
    """A statement as a form, and the values that are its own."""

    form: Form
    values: tuple[int | float | str, ...]


def alike_of(statement: RegisterQuery) -> Alike | None:
    """Return the form and the values of a statement that was read by a form; None for others."""
    found: Alike | None = statement.__dict__.get("alike")
    return found


@dataclass
class Forms:
    """The forms of the statements that were parsed so far.

    Attributes:
        keywords: the words in capitals that may be no names.
        free: which values may differ, by the fixed parts of a text.
        forms: the forms, by the fixed parts and the values that may not differ.
        drop: a DROP QUERY of one name.
    """

    keywords: Collection[str]
    free: dict[tuple[str, ...], list[Kind]] = field(default_factory=dict)
    forms: dict[tuple[tuple[str, ...], tuple[str, ...]], Form] = field(default_factory=dict)
    drop: Drop | None = None

    def read(self, piece: Piece) -> RegisterQuery | Drop | None:
        """Return the statement of a piece that has the form of an earlier one; None for others."""
        head = _HEAD.match(piece.text) or _DROP.fullmatch(piece.text)
        if head is None or head[1].upper() in self.keywords:
            return None
        if head.re is _DROP:
            return self.drop and _dropping(self.drop, piece, _named(head))
        cut = _VALUES.split(piece.text[head.end() :])
        fixed, values = tuple(cut[::2]), cut[1::2]
        free = self.free.get(fixed)
        if free is None:
            return None
        others = tuple(text for text, kind in zip(values, free, strict=True) if not kind)
        form = self.forms.get((fixed, others))
        if form is None:
            return None
        own = [_value(text, kind) for text, kind in zip(values, free, strict=True) if kind]
        form.count += 1
        return None if None in own else _late(piece, _named(head), Alike(form, tuple(own)))  # type: ignore[arg-type]

    def note(self, statement: Statement) -> None:
        """Note the form of a statement that was parsed, for those that follow."""
        text = statement.piece.text
        if isinstance(statement, Drop) and _DROP.fullmatch(text):
            self.drop = statement
        head = _HEAD.match(text)
        if head is None or not isinstance(statement, RegisterQuery):
            return
        start = head.end()
        cut = _VALUES.split(text[start:])
        places = [Span(*match.span()) for match in _VALUES.finditer(text[start:])]
        spans = [Span(start + place.start, start + place.end) for place in places]
        free = _free(statement.select, spans)
        if not any(free):
            return
        if len(self.forms) >= _MOST_FORMS:
            self.free.clear()
            self.forms.clear()
        fixed, values = tuple(cut[::2]), cut[1::2]
        others = tuple(text for text, kind in zip(values, free, strict=True) if not kind)
        parts = [fixed[0]]
        for value, kind, after in zip(values, free, fixed[1:], strict=True):
            if kind:
                parts.append(after)
            else:
                parts[-1] += value + after
        self.free[fixed] = free
        self.forms[fixed, others] = Form(tuple(parts), tuple(kind for kind in free if kind))


def _free(select: Select, values: list[Span]) -> list[Kind]:
    """Return for each value of a SELECT whether it may differ without any other difference."""
    free: list[Kind] = [""] * len(values)
    for place in _places(select):
        inside = [at for at, one in enumerate(values) if place.span.start <= one.start < place.span.end]
        for at in inside[: _measures(place, len(inside))]:
            free[at] = "DOUBLE"
        focal = place.focal if isinstance(place, MovingCircle | MovingRectangle | Nearest) else None
        if isinstance(focal, Literal) and focal.span in values:
            free[values.index(focal.span)] = "STRING" if isinstance(focal.value, str) else "BIGINT"
    return free


def _places(select: Select) -> list[Region | Nearest]:
    """Return what the places of a SELECT's members are measured by."""
    where = select.where.parts if isinstance(select.where, And) else (select.where,)
    places: list[Region | Nearest | None] = [select.region, select.intersects, select.nearest]
    places += [part.region for part in where if isinstance(part, Inside)]
    return [place for place in places if place is not None]


def _measures(place: Region | Nearest, count: int) -> int:
    """Return how many of the first numbers in the text of a place may differ, if it has `count`."""
    if isinstance(place, Rectangle):
        return count if count == _CORNERS else 0
    if isinstance(place, Circle) and count == _CENTRE + 1:
        return count if isinstance(place.radius, Literal) else _CENTRE
    return count if isinstance(place, Nearest) and place.point and count == _CENTRE else 0


def _value(text: str, kind: Kind) -> int | float | str | None:
    """Return a value that may differ; None for one that only the parser can judge, or of another kind."""
    if text.startswith("'"):
        return text[1:-1].replace("''", "'") if kind == "STRING" else None
    found = None if kind == "STRING" else _number(text)
    return None if kind == "BIGINT" and not isinstance(found, int) else found


def _number(text: str) -> int | float | None:
    """Return a number that fits any coordinate; None for a text that only the parser can judge."""
    digits = text.removeprefix("-")
    if digits.isdigit():
        return int(text) if len(digits) <= _MOST_DIGITS else None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _named(head: re.Match[str]) -> Name:
    return Name(head[1], span=Span(*head.span(1)))


def _dropping(drop: Drop, piece: Piece, name: Name) -> Drop:
    return changed(drop, names=(name,), piece=piece, span=Span(0, len(piece.text)))


def _late(piece: Piece, name: Name, alike: Alike) -> RegisterQuery:
    """Return a statement without its SELECT, which it builds when asked for it."""
    made = object.__new__(RegisterQuery)
    made.__dict__.update(name=name, piece=piece, span=Span(0, len(piece.text)), alike=alike)
    return made
