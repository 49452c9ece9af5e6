"""Rows as a table that fits the terminal: what does not fit beside the rest goes on lines of its own below.

Empty columns are left out where there is no room for all.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from stqsh.shell.terminal.capabilities import BOLD, DIM
from stqsh.shell.writers.aligned_text import TextColumn, aligned
from stqsh.shell.writers.columns import row_columns

if TYPE_CHECKING:
    from stqsh.client.results import Rows
    from stqsh.shell.writers.writer import Target

_GAP = 2
"""Blanks between columns."""
_ROOMY = 32
"""The narrowest column in which a text is folded; with less room it goes below."""
_SHORT = 16
"""Texts up to this width stay in the table, whatever its width."""
_FEWEST = 2
"""Number of columns that always stay in the table."""
_INDENT = "    "


def drawn(rows: Rows, target: Target) -> str:
    """Return the rows as a table of the target's width."""
    beside, below = fitted(_text_columns(rows), target.width)
    if not below:
        return _ruled(beside, len(rows.rows), target)
    return _with_lines_below(beside, below, len(rows.rows), target)


def empty_left_out(rows: Rows, width: int) -> list[str]:
    """Return the names of the empty columns that `drawn` leaves out."""
    columns = _text_columns(rows)
    shown = [column for some in fitted(columns, width) for column in some]
    return [column.name for column in columns if column not in shown]


def _text_columns(rows: Rows) -> list[TextColumn]:
    return [TextColumn(one.title, one.readable(), one.is_numeric) for one in row_columns(rows)]


def fitted(columns: Sequence[TextColumn], width: int | None) -> tuple[list[TextColumn], list[TextColumn]]:
    """Return the columns that stay in a table of a width, and those that go below its rows."""
    beside, below = [*columns], list[TextColumn]()
    if width is None or _total_width(beside) <= width:
        return beside, []
    beside = [column for column in beside if any(column.values)] or beside
    while _total_width(beside) > width:
        texts = [column for column in beside[1:] if not column.is_right and column.width > _SHORT]
        if not texts and len(beside) > _FEWEST:  # a folded number reads as another number
            below.append(beside.pop())
            continue
        if not texts:
            break
        widest = max(texts, key=lambda column: column.width)
        room = width - _total_width(beside) + widest.width
        if not below and room >= max(_ROOMY, widest.longest_word):
            break  # it is folded where it is
        beside.remove(widest)
        below.append(widest)
    return beside, [column for column in columns if column in below]


def _total_width(columns: Sequence[TextColumn]) -> int:
    return sum(column.width + _GAP for column in columns) - _GAP


def _with_lines_below(
    beside: Sequence[TextColumn], below: Sequence[TextColumn], count: int, target: Target
) -> str:
    """Return the table, with the columns that have no room in it below each row."""
    head, *lines = aligned(beside, [column.width for column in beside])
    shown = [target.style(head, BOLD), "─" * min(target.width or 0, _total_width(beside))]
    is_named = len(below) > 1 or below[0].width <= _SHORT
    for row in range(count):
        shown.append(lines[row])
        for column in below:
            shown += _below(column, row, target, is_named=is_named)
    return "\n".join(shown) + "\n"


def _below(column: TextColumn, row: int, target: Target, *, is_named: bool) -> list[str]:
    """Return a value on lines of its own, with its column's name where there are several."""
    value = column.values[row]
    if not value:
        return []
    lines = textwrap.wrap(
        f"{column.name}: {value}" if is_named else value,
        max(_ROOMY, (target.width or 0) - 1),
        initial_indent=_INDENT,
        subsequent_indent=_INDENT + "  ",
        break_on_hyphens=False,
    )
    return [target.style(line, DIM) for line in lines]


def _ruled(columns: Sequence[TextColumn], count: int, target: Target) -> str:
    """Return the columns side by side, with texts folded where they must be."""
    from rich import box, console, table, text  # 60 ms that other formats need not spend

    ruled = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.is_right else "left"
        ruled.add_column(text.Text(column.name), justify=justify, overflow="fold")
    for row in range(count):
        ruled.add_row(*(text.Text(column.values[row]) for column in columns))
    file, width = io.StringIO(), target.width or 100_000
    drawer = console.Console(file=file, force_terminal=target.colour, no_color=not target.colour, width=width)
    drawer.print(ruled)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"
