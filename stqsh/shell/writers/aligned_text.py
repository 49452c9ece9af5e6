"""Columns of text side by side: widths in terminal columns, padding, cutting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

_WIDEST = 40
"""The maximum width of a text column, in terminal columns, if the output is not a terminal."""
_SHORT = 16
"""The minimum width of a cut text column; columns that then do not fit are omitted, and counted."""
_LAST = 8
"""The same for the last column."""
_GAP = 2
"""Blanks between columns."""


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column's name and its values as text; numbers are aligned to the right."""

    name: str
    values: Sequence[str]
    is_right: bool

    @property
    def width(self) -> int:
        """The width of the widest line of the name and the values, in terminal columns."""
        return max(cells(line) for value in (self.name, *self.values) for line in value.split("\n"))

    @property
    def longest_word(self) -> int:
        """The width of the longest word of a value, in terminal columns."""
        return max((cells(word) for value in self.values for word in value.split()), default=0)

    @property
    def value_width(self) -> int:
        """The width of the values."""
        return max(map(cells, self.values), default=0)

    @property
    def bounded_width(self) -> int:
        """The width of the values, at most `_WIDEST`."""
        return min(_WIDEST, self.value_width)

    def cut(self, width: int) -> TextColumn:
        """Return the column with its name and values cut to a width."""
        if self.width <= width:
            return self
        values = [value if cells(value) <= width else cut_to(value, width) for value in self.values]
        name = self.name if cells(self.name) <= width else cut_to(self.name, width)
        return TextColumn(name, values, self.is_right)

    def padded(self, width: int) -> list[str]:
        """Return the name and the values, padded to a width; longer ones stay unchanged."""
        return [self._pad(text, width) for text in (self.name, *self.values)]

    def _pad(self, text: str, width: int) -> str:
        blank = " " * (width - cells(text))
        return blank + text if self.is_right else text + blank


def fitting_widths(columns: Sequence[TextColumn], widths: Sequence[int], room: int) -> list[int]:
    """Return the widths of the first columns that fit side by side, at least one.

    The widest texts are cut first, down to `_SHORT`; numbers are never cut. If the last columns do not fit,
    there are fewer widths than columns.

    Args:
        columns: The columns.
        widths: The desired widths.
        room: The available terminal columns.
    """
    # Take one character at a time from the widest text, so that texts end up about equally wide.
    found = [min(width, room) for width in widths]
    excess = sum(found) + _GAP * (len(found) - 1) - room
    while excess > 0:
        texts = [place for place, column in enumerate(columns) if not column.is_right]
        widest = max(texts, key=found.__getitem__, default=0)
        if not texts or found[widest] <= _SHORT:
            break
        found[widest] -= 1
        excess -= 1
    if excess > 0 and not columns[-1].is_right and found[-1] - excess >= _LAST:
        found[-1] -= excess
    elif excess > 0:
        room -= _GAP + cells(_left_out(len(columns)))
        while len(found) > 1 and sum(found) + _GAP * (len(found) - 1) > room:
            found.pop()
    return found


def fitted(columns: Sequence[TextColumn], widths: Sequence[int]) -> list[str]:
    """Return the header and the rows of the first columns, cut to their widths.

    The header ends with the number of columns without a width, which are omitted.
    """
    shown = [column.cut(width) for column, width in zip(columns, widths, strict=False)]
    head, *rows = aligned(shown, widths)
    hidden = len(columns) - len(widths)
    return [f"{head}  {_left_out(hidden)}" if hidden else head, *rows]


def _left_out(count: int) -> str:
    return f"… {count} more"


def aligned(columns: Sequence[TextColumn], widths: Sequence[int]) -> list[str]:
    """Return the header and the rows of columns, two spaces between the columns."""
    padded = [column.padded(width) for column, width in zip(columns, widths, strict=True)]
    return ["  ".join(values).rstrip() for values in zip(*padded, strict=True)]


def cells(text: str) -> int:
    """Return the width of a text in terminal columns."""
    return len(text) if text.isascii() else cell_len(text)


def cut_to(text: str, width: int) -> str:
    """Cut a text that is too wide to `width` terminal columns, with an ellipsis at its end."""
    return set_cell_size(text, width - 1) + "…"


def row_count(count: int) -> str:
    """Return `1 row`, `2 rows` and so on."""
    return f"{count} row{'' if count == 1 else 's'}"
