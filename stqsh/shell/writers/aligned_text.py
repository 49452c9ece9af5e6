"""Columns of text side by side: widths in terminal columns, padding, cutting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

_WIDEST = 40
"""The terminal columns that a column of text takes at most."""


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column's name and its values as text; numbers are aligned to the right."""

    name: str
    values: Sequence[str]
    is_right: bool

    @property
    def width(self) -> int:
        """The terminal columns that the widest line of the name and the values takes."""
        return max(cells(line) for value in (self.name, *self.values) for line in value.split("\n"))

    @property
    def longest_word(self) -> int:
        """The terminal columns that the longest word of a value takes."""
        return max((cells(word) for value in self.values for word in value.split()), default=0)

    @property
    def bounded_width(self) -> int:
        """The width of the values, at most `_WIDEST`."""
        return min(_WIDEST, max(map(cells, self.values), default=0))

    def padded(self, width: int) -> list[str]:
        """Return the name and the values, padded to a width; longer ones stay as they are."""
        return [self._pad(text, width) for text in (self.name, *self.values)]

    def _pad(self, text: str, width: int) -> str:
        blank = " " * (width - cells(text))
        return blank + text if self.is_right else text + blank


def aligned(columns: Sequence[TextColumn], widths: Sequence[int]) -> list[str]:
    """Return the header and the rows of columns, two spaces between the columns."""
    padded = [column.padded(width) for column, width in zip(columns, widths, strict=True)]
    return ["  ".join(values).rstrip() for values in zip(*padded, strict=True)]


def cells(text: str) -> int:
    """Return the terminal columns that a text takes."""
    return len(text) if text.isascii() else cell_len(text)


def cut_to(text: str, width: int) -> str:
    """Cut a text that is too wide to `width` terminal columns, with an ellipsis at its end."""
    return set_cell_size(text, width - 1) + "…"


def row_count(count: int) -> str:
    """Return `1 row`, `2 rows` and so on."""
    return f"{count} row{'' if count == 1 else 's'}"
