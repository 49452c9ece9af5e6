"""Statements that differ in a name and in the holes of a place only: read once, then matched.

A script of a hundred thousand REGISTER QUERYs says the same thing over and over. The first of such a run goes
through the grammar; a regular expression made from its tokens reads the others, and takes only what the
grammar would read in the same way. Whatever it does not match goes through the grammar too. See
`stqsh.lang.statement_shapes`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.source import Piece, Span
from stqsh.lang.ast.statements import Drop, RegisterQuery, Statement
from stqsh.lang.statement_shapes import FOCAL, Shape, shape_of
from stqsh.lang.syntax.keywords import KEYWORDS
from stqsh.lang.syntax.parse import parse_piece

FEWEST = 16
"""So many neighbours have to look alike before they are tried."""
_A_FEW = 2
"""So many of them have to be alike, or their look is tried no more."""

_CHANGING = re.compile(r"'(?:[^']|'')*'|[+-]?[\w.]*\d[\w.]*(?:[+-]\d+)?")
_FIRST = ("REGISTER", "DROP")


@dataclass(frozen=True, eq=False)
class Run:
    """Statements of one shape that follow each other.

    `numbers` has a column for each hole of the shape that holds a number, `keys` what is in the one for a key
    (nothing where there is none), all as typed; `names` and `pieces` are those of all.
    """

    shape: Shape
    names: Sequence[str]
    numbers: tuple[array[float], ...]
    keys: Sequence[str]
    pieces: Sequence[Piece]

    def statements(self) -> list[Statement]:
        """The statements one by one; what makes them up is read when it is asked for."""
        kind = AlikeRegister if isinstance(self.shape.first, RegisterQuery) else AlikeDrop
        return [kind(self, row) for row in range(len(self.pieces))]

    @cached_property
    def shared(self) -> dict[str, Any]:
        """The fields of a statement that all have in common, but for where they stand."""
        told = vars(self.shape.first).items()
        return {name: value for name, value in told if name not in ("name", "select", "piece", "span")}


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
        at = self.run.shape.name_at
        return Name(text, span=Span(at, at + len(text)))

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
    shape = shape_of(some[0])
    found = [] if shape is None else _found(shape, pieces, at)
    if shape is None or len(found) < _A_FEW:
        unlike.add(look)
        return None
    typed: dict[str, Sequence[str]] = dict(
        zip(shape.pattern.groupindex, zip(*found, strict=True), strict=True)
    )
    numbers = tuple(array("d", map(float, typed[hole])) for hole in shape.holes if hole != FOCAL)
    keys = [key.replace("''", "'") for key in typed.get(FOCAL, ())]  # no number has such
    return Run(shape, typed["name"], numbers, keys, pieces[at : at + len(found)])


def _found(shape: Shape, pieces: Sequence[Piece], at: int) -> list[tuple[str, ...]]:
    """What is in the name and the holes of the statements from `at` on, as far as they are of a shape."""
    found = []
    for number in range(at, len(pieces)):
        match = shape.pattern.fullmatch(pieces[number].text)
        if match is None or match["name"].upper() in KEYWORDS:
            break
        found.append(match.groups())
    return found


def _look(piece: Piece) -> str:
    """A statement's text without its name and without what has digits in it."""
    first, second, *rest = [*piece.text.split(None, 3), "", ""][:5]
    return _CHANGING.sub("0", " ".join((first, second, *rest[1:])))
