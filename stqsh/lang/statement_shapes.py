"""The shape of a statement: what may differ in one that says the same, and an expression that matches such.

What may differ are a name and the parts of a place: a region's numbers, its lengths in metres, and the key of
the object that it moves with. These are its holes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from lark.lexer import Token

from stqsh.lang.ast.expressions import (
    Circle,
    Expression,
    Literal,
    MovingCircle,
    MovingRectangle,
    Name,
    Nearest,
    Quantity,
    Rectangle,
)
from stqsh.lang.ast.source import Piece, Source, Span
from stqsh.lang.ast.statements import Drop, RegisterQuery, Select
from stqsh.lang.errors import LangError
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.printer.values import number
from stqsh.lang.syntax.parse import parse_piece, parse_tokens

Filling: TypeAlias = dict[str, Any]
"""What is in holes, by field: numbers, and a key."""
FOCAL = "focal"
"""The hole that holds a key; the others hold numbers, and come before it."""

_NAME = r"[^\W\d]\w*"
_NUMBER = r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?"
"""Numbers that fit, whole or not; the grammar says of others what is wrong with them."""
_METRES = "m"
"""The only unit of a number that may differ: the number is the length."""
_LENGTH = r"(?:[0-9]{1,18}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?"
_FRACTION = r"[0-9]{0,5}\.[0-9]{0,8}[1-9]"
"""A length without a unit: not a whole number, for of those it is printed whether they had a point."""
_STRING = r"(?:[^']|'')*"
_WHOLE = r"0|[1-9][0-9]{0,17}"
"""Keys: what stands between a string's quotes, and whole numbers as they are printed."""
_PROBE = "a_name_of_no_other"
_KEYS = {"STRING": "a key of no other", "INTEGER": 810_002_300_000_000_018}
_FRACTIONS = (0.125, 0.25, 0.375, 0.5)
_MARKS = tuple(float(f"{digit}.000123e-7{digit}") for digit in range(1, 5))
"""Numbers that no pattern has: where they are printed, and one of `_KEYS`, there go those of a statement."""


@dataclass(frozen=True)
class Hole:
    """A part of a statement that may differ: its field in the tree, its place, and what may stand there."""

    field: str
    span: Span
    content: str


@dataclass(frozen=True, eq=False)
class Shape:
    """A statement as the grammar reads it, the holes of its place, and what matches others of its kind.

    `holes` are the fields in the order in which they are printed. `pattern` matches the text of a statement;
    its groups are `name` and the holes. `name_at` is where the name begins.
    """

    first: RegisterQuery | Drop
    holes: tuple[str, ...]
    name_at: int
    pattern: re.Pattern[str]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The text of the SELECT around its holes: one more than there are holes."""
        assert isinstance(self.first, RegisterQuery)
        marks = _filling(self.first.select, self.holes, _MARKS)
        between = "|".join(re.escape(_printed(mark)) for mark in marks.values())
        return tuple(re.split(between, to_sql(_filled(self.first.select, marks))))


def shape_of(piece: Piece) -> Shape | None:
    """The shape of a statement; None where the grammar has to read each of its kind.

    Raises `SyntaxFault` where the statement is none.
    """
    statement, tokens = parse_tokens(piece)
    holes: list[Hole] = []
    if isinstance(statement, Drop) and statement.kind == "QUERY":
        name = tokens[-1]
    elif isinstance(statement, RegisterQuery):
        name, holes = tokens[2], _holes(statement.select, piece.text, tokens)
        if not holes:
            return None
    else:
        return None
    if name.type != "IDENT" or name.value.startswith('"'):
        return None
    named = Hole("name", _span(name), _NAME)
    pattern = re.compile(_expression(piece.text, [named, *holes]))
    shape = Shape(statement, tuple(hole.field for hole in holes), named.span.start, pattern)
    return shape if _holds(shape, piece.text, [named, *holes]) else None


# Where holes are.


def _holes(select: Select, text: str, tokens: Sequence[Token]) -> list[Hole]:
    """The holes of a query's place, in the order in which they are printed."""
    if select.region is not None and select.nearest is not None:
        return []
    place = _place(select)
    find = _FINDERS.get(type(place))
    return [] if find is None else find(place, text, tokens)


def _circle(region: Circle, text: str, tokens: Sequence[Token]) -> list[Hole]:
    places = _coordinates(("x", "y"), _numbers(tokens, region.span)[:2])
    return [*places, *_length("radius", region.radius, text)] if places else []


def _nearest(place: Nearest, text: str, tokens: Sequence[Token]) -> list[Hole]:
    if place.focal is not None:
        return [*_key(place.focal, text)]
    return _coordinates(("x", "y"), _numbers(tokens, place.span)[-2:])


def _moving_rectangle(region: MovingRectangle, text: str, _: Sequence[Token]) -> list[Hole]:
    sides = (*_length("xdist", region.xdist, text), *_length("ydist", region.ydist, text))
    return [*sides, *_key(region.focal, text)]


_FINDERS: dict[type[Any], Callable[[Any, str, Sequence[Token]], list[Hole]]] = {
    Rectangle: lambda region, _, tokens: _coordinates(
        ("x1", "y1", "x2", "y2"), _numbers(tokens, region.span)
    ),
    Circle: _circle,
    Nearest: _nearest,
    MovingRectangle: _moving_rectangle,
    MovingCircle: lambda region, text, _: [
        *_length("radius", region.radius, text),
        *_key(region.focal, text),
    ],
}


def _coordinates(fields: Sequence[str], spans: Sequence[Span]) -> list[Hole]:
    """Holes for coordinates; none where not all of them were found."""
    if len(spans) != len(fields):
        return []
    return [Hole(field, span, _NUMBER) for field, span in zip(fields, spans, strict=True)]


def _length(field: str, length: Expression, text: str) -> Iterator[Hole]:
    """A hole for a length in metres, or without a unit where it is such as `_FRACTION` matches; else none."""
    start, end = length.span
    if isinstance(length, Quantity):
        metres = re.fullmatch(rf"({_LENGTH})\s*{_METRES}", text[start:end])
        if metres is not None:
            yield Hole(field, Span(start, start + metres.end(1)), _LENGTH)
    elif re.fullmatch(_FRACTION, text[start:end]):
        yield Hole(field, Span(start, end), _FRACTION)


def _key(focal: Literal, text: str) -> Iterator[Hole]:
    """A hole for the key of a focal object; none for a number that is not as it is printed."""
    start, end = focal.span
    if focal.kind == "STRING":
        yield Hole(FOCAL, Span(start + 1, end - 1), _STRING)
    elif re.fullmatch(_WHOLE, text[start:end]):
        yield Hole(FOCAL, Span(start, end), _WHOLE)


def _numbers(tokens: Sequence[Token], span: Span) -> list[Span]:
    """Where the numbers within a span stand, with their signs, but for those that are not by themselves."""
    inside = [at for at, token in enumerate(tokens) if span.start <= _span(token).start < span.end]
    cuts = [_number(tokens, at) for at in inside if tokens[at].type == "NUMBER"]
    return [cut for cut in cuts if cut is not None]


def _number(tokens: Sequence[Token], at: int) -> Span | None:
    """Where a number stands with its sign; None unless between commas or parentheses."""
    place, before = _span(tokens[at]), at - 1
    if tokens[before].value in ("+", "-"):
        sign, before = _span(tokens[before]), before - 1
        if sign.end != place.start:
            return None
        place = Span(sign.start, place.end)
    is_alone = tokens[before].value in ("(", ",") and tokens[at + 1].value in (")", ",")
    return place if is_alone else None


def _span(token: Token) -> Span:
    start = token.start_pos or 0
    return Span(start, start + len(token))


def _expression(text: str, holes: Iterable[Hole]) -> str:
    """The expression that matches a text with other things in its holes."""
    parts, end = [], 0
    for hole in sorted(holes, key=lambda hole: hole.span):
        parts += [re.escape(text[end : hole.span.start]), f"(?P<{hole.field}>{hole.content})"]
        end = hole.span.end
    return "".join([*parts, re.escape(text[end:])])


# Whether they are what they seem to be.


def _holds(shape: Shape, text: str, holes: Sequence[Hole]) -> bool:
    """Whether the grammar reads what stands in these places as the name and the holes of the place."""
    first, probe = shape.first, text
    told = {} if isinstance(first, Drop) else _filling(first.select, shape.holes, _FRACTIONS)
    for hole in sorted(holes, key=lambda hole: hole.span, reverse=True):
        put = _PROBE if hole.field == "name" else _printed(told[hole.field])
        probe = probe[: hole.span.start] + put + probe[hole.span.end :]
    expected: Any = replace(first, name=Name(_PROBE))
    if isinstance(first, RegisterQuery):
        expected = replace(expected, select=_filled(first.select, told))
    try:
        return bool(parse_piece(Piece(Source(probe), 0, probe)) == expected) and _is_printable(shape)
    except LangError:
        return False


def _is_printable(shape: Shape) -> bool:
    """Whether each of the holes comes once in the text of the SELECT."""
    if not isinstance(shape.first, RegisterQuery):
        return True
    marks = _filling(shape.first.select, shape.holes, _MARKS)
    text = to_sql(_filled(shape.first.select, marks))
    return all(text.count(_printed(mark)) == 1 for mark in marks.values())


def _filling(select: Select, holes: Sequence[str], numbers: Sequence[float]) -> Filling:
    """What may be put into holes: these numbers, and a key as the one that is there."""
    told: Filling = dict(zip((hole for hole in holes if hole != FOCAL), numbers, strict=False))
    if FOCAL in holes:
        told[FOCAL] = _KEYS[_place(select).focal.kind]
    return told


def _printed(content: float | str) -> str:
    """What is in a hole, as it is printed, and may be typed."""
    return content if isinstance(content, str) else number(content)


def _place(select: Select) -> Any:
    """The part of a query that has holes."""
    return select.region if select.nearest is None else select.nearest


def _filled(select: Select, told: Filling) -> Select:
    """A query with other things in its holes."""
    place = _place(select)
    if "x" in told and isinstance(place, Nearest):
        return replace(select, nearest=replace(place, point=(told["x"], told["y"])))
    changed = replace(place, **{field: _put(getattr(place, field), what) for field, what in told.items()})
    return replace(select, **{"region" if select.nearest is None else "nearest": changed})


def _put(old: Any, content: Any) -> Any:
    """A part of a place with another number, or another key."""
    if isinstance(old, Quantity):
        return replace(old, number=content)
    if isinstance(old, Literal):
        return replace(old, value=content, kind="DECIMAL" if isinstance(content, float) else old.kind)
    return content
