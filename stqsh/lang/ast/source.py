"""The positions of statements and their parts in the source text."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Span(NamedTuple):
    """A half-open range of characters, counted from the first character of the statement."""

    start: int
    end: int


NOWHERE = Span(-1, -1)


def cover(first: Span, last: Span) -> Span:
    """Return the span from the start of the first to the end of the last; NOWHERE is ignored."""
    if first.start < 0 or last.start < 0:
        return last if first.start < 0 else first
    return Span(first.start, last.end)


class Place(NamedTuple):
    """A position as editors show it: line and column, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, eq=False)
class Source:
    """A complete text with statements, read from a file or typed."""

    text: str
    file: str | None = None

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        find = self.text.find
        while (newline := find("\n", starts[-1])) >= 0:
            starts.append(newline + 1)
        return starts

    def place(self, offset: int) -> Place:
        """Return the line and column of the character at `offset`."""
        line = bisect_right(self._line_starts, offset)
        return Place(line, offset - self._line_starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """Return the text of a line, counted from 1, without its newline."""
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:].rstrip("\r") if end < 0 else self.text[start:end].rstrip("\r")


@dataclass(frozen=True, eq=False)
class Piece:
    """One statement cut from a source: `text` begins at `offset`, without `;` and outer space."""

    source: Source
    offset: int
    text: str

    @property
    def line(self) -> int:
        """The line of the statement's first character, from 1."""
        return self.source.place(self.offset).line

    @property
    def column(self) -> int:
        """The column of the statement's first character, from 1."""
        return self.source.place(self.offset).column
