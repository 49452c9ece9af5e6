"""Statements that differ in a name and in the numbers of a region only: read once, then matched.

A script of a hundred thousand REGISTER QUERYs says the same thing over and over. The first of such a run goes
through the grammar; a regular expression made from its tokens reads the others, and takes only what the
grammar would read in the same way. Whatever it does not match goes through the grammar too.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lark.lexer import Token

from stqsh.lang.ast import Drop, RegisterQuery, Select, Statement
from stqsh.lang.errors import LangError
from stqsh.lang.expressions import Circle, Literal, Name, Quantity, Rectangle
from stqsh.lang.keywords import KEYWORDS
from stqsh.lang.parse import parse_piece, parse_tokens
from stqsh.lang.printer import to_sql
from stqsh.lang.printing.values import number
from stqsh.lang.source import NOWHERE, Piece, Source, Span

FEWEST = 16
"""So many neighbours have to look alike before they are tried."""

_NAME = r"([^\W\d]\w*)"
_NUMBER = r"([+-]?(?:[0-9]{1,18}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)"
"""Numbers that fit, whole or not; the grammar says of others what is wrong with them."""
_CHANGING = re.compile(r"[+-]?[\w.]*\d[\w.]*(?:[+-]\d+)?")
_FIRST = ("REGISTER", "DROP")
_METRES = "m"
"""The only unit of a number that may differ: the number is the length."""
_LENGTH = r"((?:[0-9]{1,18}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)"
_FRACTION = r"([0-9]{0,5}\.[0-9]{0,8}[1-9])"
"""A length without a unit: not a whole number, for of those it is printed whether they had a point."""
_PROBE = "a_name_of_no_other", (0.125, 0.25, 0.375, 0.5)
_MARKS = tuple(float(f"{digit}.000123e-7{digit}") for digit in range(1, 5))
"""Numbers that no pattern has; where they are printed, those of a statement go."""


@dataclass(frozen=True, eq=False)
class Run:
    """Statements of one shape that follow each other.

    `first` is the first as the grammar reads it. `holes` are the fields of its region that differ, and
    `numbers` has a column for each of them, as typed; `names` and `pieces` are those of all, `name_at` is
    where in its piece each name begins.
    """

    first: RegisterQuery | Drop
    holes: tuple[str, ...]
    name_at: int
    names: Sequence[str]
    numbers: tuple[array[float], ...]
    pieces: Sequence[Piece]

    def statements(self) -> list[Statement]:
        """The statements one by one; what makes them up is read when it is asked for."""
        kind = AlikeRegister if isinstance(self.first, RegisterQuery) else AlikeDrop
        return [kind(self, row) for row in range(len(self.pieces))]

    @cached_property
    def shared(self) -> dict[str, Any]:
        """The fields of a statement that all have in common, but for where they stand."""
        told = vars(self.first).items()
        return {name: value for name, value in told if name not in ("name", "select", "piece", "span")}

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The text of the SELECT around its numbers: one more than there are holes."""
        assert isinstance(self.first, RegisterQuery)
        return _words(_with(self.first, None, _MARKS[: len(self.holes)]).select)


class _Alike:
    """A statement of a `Run` that is read when a part of it is asked for."""

    run: Run
    row: int

    def __init__(self, run: Run, row: int) -> None:
        fields = self.__dict__
        fields.update(run.shared)
        fields["run"], fields["row"] = run, row

    @property
    def piece(self) -> Piece:
        return self.run.pieces[self.row]

    @property
    def span(self) -> Span:
        return Span(0, len(self.piece.text))

    @property
    def name(self) -> Name:
        text = self.run.names[self.row]
        return Name(text, span=Span(self.run.name_at, self.run.name_at + len(text)))

    @property
    def parsed(self) -> Statement:
        """The same as the grammar reads it."""
        return parse_piece(self.piece)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.parsed, name)

    def __eq__(self, other: object) -> bool:
        return bool(plain(self) == plain(other))

    def __hash__(self) -> int:
        return hash(self.parsed)

    def __repr__(self) -> str:
        return repr(self.parsed)


class AlikeRegister(_Alike, RegisterQuery):
    """A REGISTER QUERY of a `Run`."""


class AlikeDrop(_Alike, Drop):
    """A DROP QUERY of a `Run`."""


def plain(statement: Any) -> Any:
    """A statement as the grammar reads it, also where it is one of a run."""
    return statement.parsed if isinstance(statement, _Alike) else statement


def parse_pieces(pieces: Sequence[Piece]) -> list[Statement]:
    """The statements of pieces that `split` has cut, in order; those of a `Run` know it.

    Raises `SyntaxFault` at the first thing that is not of the language.
    """
    statements: list[Statement] = []
    unlike: set[str] = set()
    while len(statements) < len(pieces):
        at = len(statements)
        run = _run(pieces, at, unlike)
        statements += [parse_piece(pieces[at])] if run is None else run.statements()
    return statements


def _run(pieces: Sequence[Piece], at: int, unlike: set[str]) -> Run | None:
    """The run that begins at a piece; `unlike` collects the looks of statements that make none."""
    some = pieces[at : at + FEWEST]
    if len(some) < FEWEST or not some[0].text[:8].upper().startswith(_FIRST):
        return None
    look = _look(some[0])
    if look in unlike or any(_look(piece) != look for piece in some[1:]):
        return None
    shape = _shape(some[0])
    if shape is None:
        unlike.add(look)
        return None
    found = []
    for number_ in range(at, len(pieces)):
        match = shape.pattern.fullmatch(pieces[number_].text)
        if match is None or match[1].upper() in KEYWORDS:
            break
        found.append(match.groups())
    if not found:
        unlike.add(look)
        return None
    names, *texts = zip(*found, strict=True)
    numbers = tuple(array("d", map(float, column)) for column in texts)
    return Run(shape.first, shape.holes, shape.name_at, names, numbers, pieces[at : at + len(found)])


def _look(piece: Piece) -> str:
    """A statement's text without its name and without what has digits in it."""
    first, second, *rest = [*piece.text.split(None, 3), "", ""][:5]
    return _CHANGING.sub("0", " ".join((first, second, *rest[1:])))


@dataclass(frozen=True, eq=False)
class _Shape:
    """The first statement of a run, what differs in its region, and what matches the others."""

    first: RegisterQuery | Drop
    holes: tuple[str, ...]
    name_at: int
    pattern: re.Pattern[str]


def _shape(piece: Piece) -> _Shape | None:
    """The shape of a statement; None where the grammar has to read each of its kind."""
    statement, tokens = parse_tokens(piece)
    holes: tuple[str, ...] = ()
    cuts: list[Span] = []
    if isinstance(statement, Drop) and statement.kind == "QUERY":
        name = tokens[-1]
    elif isinstance(statement, RegisterQuery):
        name, (holes, span) = tokens[2], _holes(statement.select)
        if not holes:  # a region that moves, for one: its focal object has to be looked up
            return None
        cuts = _numbers(tokens, span)
        # Behind a circle's centre comes its radius; before the place of KNN, how many are wanted.
        cuts = cuts[-len(holes) :] if statement.select.nearest else cuts[: len(holes)]
    else:
        return None
    if name.type != "IDENT" or name.value.startswith('"') or len(cuts) != len(holes):
        return None
    spans = [_span(name), *cuts]
    shape = _Shape(statement, holes, spans[0].start, re.compile(_expression(piece.text, spans, holes)))
    return shape if _holds(shape, piece.text, spans) else None


def _holes(select: Select) -> tuple[tuple[str, ...], Span]:
    """The fields of a query's place that may differ, and where they stand."""
    region = select.region
    if select.nearest is not None and select.nearest.point is not None and region is None:
        return ("x", "y"), select.nearest.span
    if isinstance(region, Rectangle) and select.nearest is None:
        return ("x1", "y1", "x2", "y2"), region.span
    if isinstance(region, Circle) and select.nearest is None:
        return _round_holes(region), region.span
    return (), NOWHERE


def _round_holes(region: Circle) -> tuple[str, ...]:
    """The fields of a circle; of a radius, those are in metres, or such as `_FRACTION` matches."""
    radius = region.radius
    if isinstance(radius, Quantity):
        differs = radius.unit == _METRES
    else:
        differs = isinstance(radius, Literal) and re.fullmatch(_FRACTION, repr(radius.value)) is not None
    return ("x", "y", "radius") if differs else ("x", "y")


def _numbers(tokens: Sequence[Token], span: Span) -> list[Span]:
    """Where the numbers within a span stand, with their signs, but for those that are not by themselves."""
    inside = [at for at, token in enumerate(tokens) if span.start <= _span(token).start < span.end]
    cuts = [_number(tokens, at) for at in inside if tokens[at].type in ("NUMBER", "A_LENGTH")]
    return [cut for cut in cuts if cut is not None]


def _number(tokens: Sequence[Token], at: int) -> Span | None:
    """Where a number stands with its sign, or that of metres; None unless between commas or parentheses."""
    place, before = _span(tokens[at]), at - 1
    if tokens[at].type == "A_LENGTH":
        metres = re.fullmatch(rf"{_LENGTH}\s*{_METRES}", tokens[at].value)
        place = Span(place.start, place.start + len(metres[1])) if metres else place
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


def _expression(text: str, spans: Sequence[Span], holes: Sequence[str]) -> str:
    """The expression that matches a text with another name and other numbers."""
    ends = [0, *(span.end for span in spans)]
    starts = [*(span.start for span in spans), len(text)]
    fixed = [re.escape(text[end:start]) for end, start in zip(ends, starts, strict=True)]
    length = _LENGTH if text[ends[-1] :].lstrip().startswith(_METRES) else _FRACTION
    differing = [_NAME, *(length if hole == "radius" else _NUMBER for hole in holes), ""]
    return "".join(part for both in zip(fixed, differing, strict=True) for part in both)


def _holds(shape: _Shape, text: str, spans: Sequence[Span]) -> bool:
    """Whether the grammar reads a name and numbers in these places as those of the query and its region."""
    name, numbers = _PROBE
    probe = text
    for span, other in reversed(list(zip(spans, (name, *map(repr, numbers)), strict=False))):
        probe = probe[: span.start] + other + probe[span.end :]
    try:
        read = parse_piece(Piece(Source(probe), 0, probe))
        expected = _with(shape.first, name, numbers[: len(shape.holes)])
        return bool(read == expected) and _is_printable(shape)
    except LangError:
        return False


def _is_printable(shape: _Shape) -> bool:
    """Whether each number of the region comes once in the text of the SELECT."""
    if not isinstance(shape.first, RegisterQuery):
        return True
    marks = _MARKS[: len(shape.holes)]
    text = to_sql(_with(shape.first, None, marks).select)
    return all(text.count(number(mark)) == 1 for mark in marks)


def _words(select: Select) -> tuple[str, ...]:
    marks = "|".join(re.escape(number(mark)) for mark in _MARKS)
    return tuple(re.split(marks, to_sql(select)))


def _with(statement: Any, name: str | None, numbers: Sequence[float]) -> Any:
    """A statement with another name and other numbers of its region."""
    if name is not None:
        statement = replace(statement, name=Name(name))
    if not numbers:
        return statement
    select = statement.select
    if select.nearest is not None:
        place: dict[str, Any] = {"nearest": replace(select.nearest, point=tuple(numbers))}
    else:
        place = {"region": _region_with(select.region, numbers)}
    return replace(statement, select=replace(select, **place))


def _region_with(region: Any, numbers: Sequence[float]) -> Any:
    """A region with other numbers, as many as it has holes."""
    if isinstance(region, Rectangle):
        x1, y1, x2, y2 = numbers
        return replace(region, x1=x1, y1=y1, x2=x2, y2=y2)
    x, y, *length = numbers
    moved = replace(region, x=x, y=y)
    if not length:
        return moved
    radius = region.radius
    if isinstance(radius, Quantity):
        return replace(moved, radius=replace(radius, number=length[0]))
    return replace(moved, radius=replace(radius, value=length[0], kind="DECIMAL"))
