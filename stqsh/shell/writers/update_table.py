"""Updates and rows for people: aligned columns, green `+`, red `-`, cut to the terminal's width.

Updates of one query are shown under a header of its select list. If several queries share the screen, their
rows differ in shape, so each value has its column's name. A table of rows fits the terminal: columns without
room in the table are on separate lines below each row, and empty columns are omitted if there is no room for
all.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from stqsh.shell.terminal.capabilities import BOLD, DIM, GREEN, RED
from stqsh.shell.writers.aligned_text import (
    TextColumn,
    aligned,
    cells,
    cut_to,
    fitted,
    fitting_widths,
    row_count,
)
from stqsh.shell.writers.columns import (
    UpdateGroup,
    answer_columns,
    head_columns,
    mark_text,
    only_query,
    render_in_order,
    row_columns,
    selected_columns,
)
from stqsh.shell.writers.text_columns import instant
from stqsh.spec.expression import ColumnExpr
from stqsh.spec.query import SelectColumn

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates
    from stqsh.shell.writers.writer import Target
    from stqsh.storage.rows import QueryRow


_ROOMY = 90
_LEAST = {"op": len("- left")}
"""The initial widths, so that columns need not move later."""


class TableWriter:
    """Writes tables."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lines = UpdateLines(target)

    def updates(self, updates: Updates) -> None:
        """Write a line for each update, under a header if the columns are new."""
        if updates.table.num_rows:
            self._print(self._lines.lines(updates))

    def mark(self, mark: SnapshotMark) -> None:
        """Write a line where the answer begins or ends."""
        self._print([self._lines.mark(mark)])

    def rows(self, statement: int, rows: Rows) -> None:
        """Write a table that fits the terminal; on a terminal, also the number of rows."""
        end = ""
        if self._target.width is not None:
            empty = empty_left_out(rows, self._target.width)
            without = f"; without {', '.join(empty)}: empty" if empty and rows.rows else ""
            end = f"({row_count(len(rows.rows))}{without})\n\n"
        self._target.draw(drawn(rows, self._target) + end)

    def answer(self, statement: int, answer: Answer) -> None:
        """Write the rows in aligned columns, then their number and their step."""
        del statement
        self._print(self._lines.answer(answer))

    def script(self, text: str) -> None:
        """Write the script unchanged."""
        self._target.write_script(text)

    def _print(self, lines: Sequence[str]) -> None:
        self._target.draw("\n".join(lines) + "\n")


class UpdateLines:
    """Formats updates as lines; keeps header and widths, so that the columns stay aligned.

    Attributes:
        is_narrow: Whether dates are omitted, and the key, too, if it is selected.
        heading: The header of the lines, without colours.
    """

    def __init__(self, target: Target, *, is_narrow: bool | None = None) -> None:
        self._target = target
        by_width = target.width is not None and target.width < _ROOMY
        self.is_narrow = by_width if is_narrow is None else is_narrow
        self._header: tuple[str, ...] = ()
        self._widths: list[int] = []
        self.heading = ""

    def lines(self, updates: Updates) -> list[str]:
        """Return the lines for these updates, starting with a header if the columns are new."""
        before = self._header
        rows = self.rows(updates)
        lines = [] if self._header == before else [self._target.style(self.heading, BOLD)]
        colours = {"+": GREEN, "-": RED}
        signs = head_columns(updates).op.texts()
        return lines + [self._target.style(row, colours[sign]) for row, sign in zip(rows, signs, strict=True)]

    def rows(self, updates: Updates) -> list[str]:
        """Return the lines without header and colours; the header is in `heading`."""
        columns = self._columns(updates)
        header = tuple(column.name for column in columns)
        if header != self._header:
            self._header, self._widths = header, [_LEAST.get(name, cells(name)) for name in header]
        self._widths = [
            max(width, self._width(column)) for width, column in zip(self._widths, columns, strict=True)
        ]
        self.heading, *rows = self._arranged(columns, self._widths)
        return rows

    def answer(self, answer: Answer) -> list[str]:
        """Return the lines of a snapshot's rows, with header and footer."""
        columns = [TextColumn(one.title, one.readable(), one.is_numeric) for one in answer_columns(answer)]
        widths = [max(cells(column.name), self._width(column)) for column in columns]
        head, *lines = self._arranged(columns, widths)
        room = self._target.width
        shown = len(columns) if room is None else len(fitting_widths(columns, widths, room))
        remarks = [_footer(answer), *([_cut_remark(len(columns), shown)] if shown < len(columns) else [])]
        return [
            self._target.style(head, BOLD),
            *lines,
            *(self._target.style(self._cut(remark), DIM) for remark in remarks),
        ]

    def mark(self, mark: SnapshotMark) -> str:
        """Return the line at the beginning or end of a TAIL's initial answer."""
        return self.remark(mark_text(mark))

    def remark(self, text: str) -> str:
        """Return a line that is not data."""
        return self._target.style(self._cut(text), DIM)

    def _width(self, column: TextColumn) -> int:
        """Return the width of a column's values, limited unless something else limits it."""
        return column.bounded_width if self._target.width is None else column.value_width

    def _arranged(self, columns: Sequence[TextColumn], widths: Sequence[int]) -> list[str]:
        """Return the header and the rows, at most as wide as the terminal."""
        room = self._target.width
        if room is None:
            return aligned(columns, widths)
        return list(map(self._cut, fitted(columns, fitting_widths(columns, widths, room))))

    def _columns(self, updates: Updates) -> list[TextColumn]:
        head = head_columns(updates)
        query = only_query(updates, one_query=self._target.one_query)
        times = head.at.texts()
        if self.is_narrow:
            times = [text[11:].rstrip("Z") for text in times]
        pairs = zip(head.op.texts(), head.why.texts(), strict=True)
        columns = [
            TextColumn("step", head.step.texts(), True),
            TextColumn("at", times, False),
            TextColumn("op", [op if op == "+" else f"{op} {why}" for op, why in pairs], False),
        ]
        if not self._target.one_query:
            columns.insert(2, TextColumn("query", head.query.readable(), False))
        if query is None or not (self.is_narrow and _selects_key(updates, query)):
            columns.append(TextColumn("key", head.key.readable(), False))
        if query is None:
            return [*columns, TextColumn("row", render_in_order(updates, _pairs), False)]
        selected = selected_columns(updates, query)
        return [*columns, *(TextColumn(one.title, one.readable(), one.is_numeric) for one in selected)]

    def _cut(self, line: str) -> str:
        width = self._target.width
        if width is None or len(line) <= width // 2:
            return line
        return line if cells(line) <= width else cut_to(line, width)


def _selects_key(updates: Updates, query: QueryRow) -> bool:
    """Return whether a query's select list has the key under its own name."""
    key = updates.stream.spec.key
    return SelectColumn(key, ColumnExpr(key)) in query.spec.result.select


def _footer(answer: Answer) -> str:
    if answer.is_timeless:
        return f"({row_count(answer.table.num_rows)})"
    at = instant(answer.at_us)
    as_of = f"step {answer.step}" + (f", at {at}" if at else "")
    return f"({row_count(answer.table.num_rows)}, {as_of})"


def _cut_remark(count: int, shown: int) -> str:
    return rf"{count} columns, {shown} shown; \G shows all, \wide scrolls with ← →"


def _pairs(group: UpdateGroup) -> list[str]:
    """Return the select list of each update as `name=value`, without empty values."""
    columns = group.selected()
    rows = zip(*(column.readable() for column in columns), strict=True)
    return [
        " ".join(f"{column.title}={text}" for column, text in zip(columns, row, strict=True) if text)
        for row in rows
    ]


_GAP = 2
"""Blanks between columns."""
_FOLDED = 32
"""The minimum width of a column with wrapped text; with less room, the text goes below the row."""
_SHORT = 16
"""Texts up to this width stay in the table, whatever its width."""
_FEWEST = 2
"""Number of columns that always stay in the table."""
_INDENT = "    "


def drawn(rows: Rows, target: Target) -> str:
    """Return the rows as a table of the target's width."""
    beside, below = _parted(_text_columns(rows), target.width)
    if not below:
        return _ruled(beside, len(rows.rows), target)
    return _with_lines_below(beside, below, len(rows.rows), target)


def empty_left_out(rows: Rows, width: int) -> list[str]:
    """Return the names of the empty columns that `drawn` leaves out."""
    columns = _text_columns(rows)
    shown = [column for some in _parted(columns, width) for column in some]
    return [column.name for column in columns if column not in shown]


def _text_columns(rows: Rows) -> list[TextColumn]:
    return [TextColumn(one.title, one.readable(), one.is_numeric) for one in row_columns(rows)]


def _parted(columns: Sequence[TextColumn], width: int | None) -> tuple[list[TextColumn], list[TextColumn]]:
    """Split columns into those in a table of a given width, and those below its rows."""
    beside, below = [*columns], list[TextColumn]()
    if width is None or _total_width(beside) <= width:
        return beside, []
    beside = [column for column in beside if any(column.values)] or beside
    while _total_width(beside) > width:
        texts = [column for column in beside[1:] if not column.is_right and column.width > _SHORT]
        if not texts and len(beside) > _FEWEST:  # a wrapped number could be misread
            below.append(beside.pop())
            continue
        if not texts:
            break
        widest = max(texts, key=lambda column: column.width)
        room = width - _total_width(beside) + widest.width
        if not below and room >= max(_FOLDED, widest.longest_word):
            break  # it is wrapped in place
        beside.remove(widest)
        below.append(widest)
    return beside, [column for column in columns if column in below]


def _total_width(columns: Sequence[TextColumn]) -> int:
    return sum(column.width + _GAP for column in columns) - _GAP


def _with_lines_below(
    beside: Sequence[TextColumn], below: Sequence[TextColumn], count: int, target: Target
) -> str:
    """Return the table, with the columns that do not fit below each row."""
    head, *lines = aligned(beside, [column.width for column in beside])
    shown = [target.style(head, BOLD), "─" * min(target.width or 0, _total_width(beside))]
    for row in range(count):
        shown.append(lines[row])
        for column in below:
            shown += _below(column, row, target)
    return "\n".join(shown) + "\n"


def _below(column: TextColumn, row: int, target: Target) -> list[str]:
    """Return a value on separate lines, after its column's name."""
    value = column.values[row]
    if not value:
        return []
    lines = textwrap.wrap(
        f"{column.name}: {value}",
        max(_FOLDED, (target.width or 0) - 1),
        initial_indent=_INDENT,
        subsequent_indent=_INDENT + "  ",
        break_on_hyphens=False,
    )
    return [target.style(line, DIM) for line in lines]


def _ruled(columns: Sequence[TextColumn], count: int, target: Target) -> str:
    """Return the columns side by side, with texts wrapped if necessary."""
    from rich import box, console, table, text  # imported here to save other formats 60 ms

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
