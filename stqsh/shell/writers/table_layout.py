"""Rows as a table that fits the terminal: what does not fit beside the rest goes on lines of its own below.

Columns that hold nothing are left out where there is no room for all.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stqsh.shell.terminal.capabilities import BOLD, DIM, RESET
from stqsh.shell.writers.text_columns import cells, escaped
from stqsh.shell.writers.update_columns import holds_numbers

if TYPE_CHECKING:
    from stqsh.client.results import Rows
    from stqsh.shell.writers.writer import Target

_GAP = 2
"""Blanks between columns."""
_ROOMY = 32
"""A text may be folded in a column at least so wide; in less room it goes below."""
_SHORT = 16
"""Texts up to so wide stay in the table, whatever its width."""
_FEWEST = 2
"""So many columns stay in the table in any case."""
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class _Column:
    """A column's name and its values as texts; `wide`: the widest of them, and `long` the widest word."""

    name: str
    values: tuple[str, ...]
    is_right: bool

    @property
    def wide(self) -> int:
        lines = (line for value in (self.name, *self.values) for line in value.split("\n"))
        return max(map(cells, lines))

    @property
    def longest_word(self) -> int:
        return max((cells(word) for value in self.values for word in value.split()), default=0)


def drawn(rows: Rows, target: Target) -> str:
    """The rows as a table of the target's width."""
    columns = [
        _Column(
            name, tuple(_cell(row[place]) for row in rows.rows), holds_numbers([r[place] for r in rows.rows])
        )
        for place, name in enumerate(rows.columns)
    ]
    beside, below = fitted(columns, target.width)
    if not below:
        return _ruled(beside, len(rows.rows), target)
    return _with_lines_below(beside, below, len(rows.rows), target)


def fitted(columns: Sequence[_Column], width: int | None) -> tuple[list[_Column], list[_Column]]:
    """The columns that stay in a table of a width, and those that go below its rows."""
    beside, below = [*columns], list[_Column]()
    if width is None or _natural(beside, _GAP) <= width:
        return beside, []
    beside = [column for column in beside if any(column.values)] or beside
    while _natural(beside, _GAP) > width:
        texts = [column for column in beside[1:] if not column.is_right and column.wide > _SHORT]
        if not texts and len(beside) > _FEWEST:  # a number that is folded is another number
            below.append(beside.pop())
            continue
        if not texts:
            break
        widest = max(texts, key=lambda column: column.wide)
        room = width - _natural(beside, _GAP) + widest.wide
        if not below and room >= max(_ROOMY, widest.longest_word):
            break  # it is folded where it stands
        beside.remove(widest)
        below.append(widest)
    return beside, [column for column in columns if column in below]


def _natural(columns: Sequence[_Column], gap: int) -> int:
    return sum(column.wide + gap for column in columns) - gap


def _with_lines_below(beside: Sequence[_Column], below: Sequence[_Column], count: int, target: Target) -> str:
    """The table, with the columns that have no room in it below each row."""
    padded = [[_padded(column, text) for text in (column.name, *column.values)] for column in beside]
    head, *lines = ["  ".join(texts).rstrip() for texts in zip(*padded, strict=True)]
    shown = [_styled(head, BOLD, target), "─" * min(target.width or 0, _natural(beside, _GAP))]
    named = len(below) > 1 or below[0].wide <= _SHORT
    for row in range(count):
        shown.append(lines[row])
        for column in below:
            shown += _below(column, row, target, named=named)
    return "\n".join(shown) + "\n"


def _padded(column: _Column, text: str) -> str:
    blank = " " * (column.wide - cells(text))
    return blank + text if column.is_right else text + blank


def _below(column: _Column, row: int, target: Target, *, named: bool) -> list[str]:
    """A value on lines of its own; with its column's name where there are several."""
    value = column.values[row]
    if not value:
        return []
    text = f"{column.name}: {value}" if named else value
    lines = textwrap.wrap(
        text,
        max(_ROOMY, (target.width or 0) - 1),
        initial_indent=_INDENT,
        subsequent_indent=_INDENT + "  ",
        break_on_hyphens=False,
    )
    return [_styled(line, DIM, target) for line in lines]


def _styled(line: str, style: str, target: Target) -> str:
    return f"{style}{line}{RESET}" if target.colour else line


def _ruled(columns: Sequence[_Column], count: int, target: Target) -> str:
    """The columns side by side, texts folded where they must be."""
    from rich import box, console  # 60 ms that other formats need not spend
    from rich import table as tables
    from rich import text as texts

    table = tables.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for column in columns:
        table.add_column(
            texts.Text(column.name), justify="right" if column.is_right else "left", overflow="fold"
        )
    for row in range(count):
        table.add_row(*(texts.Text(column.values[row]) for column in columns))
    file = io.StringIO()
    width = target.width or 100_000
    console.Console(file=file, force_terminal=target.colour, no_color=not target.colour, width=width).print(
        table
    )
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else escaped([str(value)], but="\n")[0]
