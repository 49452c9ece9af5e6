"""Updates and rows for human eyes: aligned columns, green `+`, red `-`, cut to the terminal's width.

Updates of one query are shown under a header of its select list. Where several queries share the screen,
their rows differ in shape, so each value carries its column's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stqsh.shell.terminal.capabilities import BOLD, DIM, GREEN, RED, RESET
from stqsh.shell.writers.table_layout import drawn
from stqsh.shell.writers.text_columns import (
    alike,
    cells,
    cut_to,
    instant,
    integers,
    is_numeric,
    occurring,
    outputs,
    readable,
    selected,
    steps_at,
    texts,
)
from stqsh.spec.expression import ColumnExpr
from stqsh.spec.query import SelectColumn
from stqsh.storage.update_log.reader import REASONS

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates
    from stqsh.shell.writers.writer import Target
    from stqsh.storage.rows import QueryRow

_WIDEST = 40
_ROOMY = 90
_LEAST = {"op": len("- left")}
"""Widths from the first line on, so that the columns need not move later."""
_OPS = {(1, 0): "+"} | {(-1, code): f"- {reason}" for code, reason in enumerate(REASONS)}


class TableWriter:
    """A `Writer` of tables; also draws the lines of the live view."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lines = UpdateLines(target)

    def updates(self, updates: Updates) -> None:
        """One line an update, under a header where the shape is new."""
        if updates.table.num_rows:
            self._print(self._lines.lines(updates))

    def mark(self, mark: SnapshotMark) -> None:
        """A line that says where the answer as it stands begins or ends."""
        self._print([self._lines.mark(mark)])

    def rows(self, statement: int, rows: Rows) -> None:
        """A table as wide as the terminal lets it be; on one, the number of rows too."""
        count = len(rows.rows)
        end = "" if self._target.width is None else f"({count} row{'' if count == 1 else 's'})\n\n"
        self._target.draw(drawn(rows, self._target) + end)

    def answer(self, statement: int, answer: Answer) -> None:
        """The rows in aligned columns, and below how many there are and as of when."""
        del statement
        self._print(self._lines.answer(answer))

    def script(self, text: str) -> None:
        """The script as it is."""
        self._target.draw(text if text.endswith("\n") else text + "\n")

    def _print(self, lines: Sequence[str]) -> None:
        self._target.draw("\n".join(lines) + "\n")


class UpdateLines:
    """Turns updates into lines; remembers the shape and the widths, so that the columns stay in place.

    `is_narrow`: dates are left out, and a key that is selected as well; by default as the width tells.
    """

    def __init__(self, target: Target, *, is_narrow: bool | None = None) -> None:
        self._target = target
        narrow = target.width is not None and target.width < _ROOMY
        self.is_narrow = narrow if is_narrow is None else is_narrow
        self._header: tuple[str, ...] = ()
        self._widths: list[int] = []
        self.heading = ""

    def lines(self, updates: Updates) -> list[str]:
        """The lines for these updates, with a header first where the shape is new."""
        before = self._header
        rows = self.rows(updates)
        lines = [] if self._header == before else [self._painted(self.heading, BOLD)]
        paint = {1: GREEN, -1: RED}
        signs = integers(updates.table, "op")
        return lines + [self._painted(row, paint[sign]) for row, sign in zip(rows, signs, strict=True)]

    def rows(self, updates: Updates) -> list[str]:
        """The same without colours; the header stands in `heading`."""
        header, columns, right = self._columns(updates)
        if header != self._header:
            self._header, self._widths = header, [_LEAST.get(name, cells(name)) for name in header]
        self._widths = [
            max(width, min(_WIDEST, max(map(cells, column), default=0)))
            for width, column in zip(self._widths, columns, strict=True)
        ]
        self.heading, *rows = map(self._cut, _aligned(header, columns, self._widths, right))
        return rows

    def answer(self, answer: Answer) -> list[str]:
        """The lines of a snapshot's rows, with header and footer."""
        found = [answer.table.column(place) for place in range(answer.table.num_columns)]
        columns = [readable(column) for column in found]
        widths = [
            max(cells(name), min(_WIDEST, max(map(cells, column), default=0)))
            for name, column in zip(answer.names, columns, strict=True)
        ]
        head, *lines = _aligned(answer.names, columns, widths, [is_numeric(column) for column in found])
        return [
            self._painted(self._cut(head), BOLD),
            *map(self._cut, lines),
            self._painted(_footer(answer), DIM),
        ]

    def mark(self, mark: SnapshotMark) -> str:
        """The line for the begin or the end of the answer with which a TAIL starts."""
        if mark.edge == "begin":
            text = f"-- {mark.query.name}: the answer after step {mark.step}"
            at = instant(mark.at_us)
            text += f" ({at})" if at else ""
        else:
            text = "-- the changes since then"
        return self.remark(text)

    def remark(self, text: str) -> str:
        """A line that is no data."""
        return self._painted(self._cut(text), DIM)

    def _columns(self, updates: Updates) -> tuple[tuple[str, ...], list[list[str]], list[bool]]:
        """Header, columns of text, and which of them are set to the right."""
        table, queries = updates.table, occurring(updates)
        names = {query.id: query.name for query in queries}
        header = ["step", "at", "op", "key"]
        columns = [
            texts(table.column("step")),
            self._times(steps_at(table)),
            [_OPS[op, why] for op, why in zip(integers(table, "op"), integers(table, "why"), strict=True)],
            readable(table.column("key")),
        ]
        right = [True, False, False, False]
        if not self._target.one_query:
            header.insert(2, "query")
            columns.insert(2, [names[number] for number in integers(table, "query")])
            right.insert(2, False)
        if self._target.one_query and len(queries) == 1:
            shown = selected(updates, queries[0])
            if self.is_narrow and _selects_key(updates, queries[0]):
                del header[3], columns[3], right[3]  # it would stand there twice
            columns += [readable(column) for column in shown]
            right += map(is_numeric, shown)
            return (*header, *outputs(queries[0])), columns, right
        return (*header, "row"), [*columns, _pairs(updates)], [*right, False]

    def _times(self, instants: list[str]) -> list[str]:
        """Steps' times; a narrow terminal gets no date."""
        return [text[11:].rstrip("Z") for text in instants] if self.is_narrow else instants

    def _cut(self, line: str) -> str:
        width = self._target.width
        if width is None or len(line) <= width // 2:
            return line
        return line if cells(line) <= width else cut_to(line, width)

    def _painted(self, line: str, style: str) -> str:
        return f"{style}{line}{RESET}" if self._target.colour else line


def _selects_key(updates: Updates, query: QueryRow) -> bool:
    """Whether a query's select list has the key under its own name."""
    key = updates.stream.spec.key
    return SelectColumn(key, ColumnExpr(key)) in query.spec.select


def _aligned(
    header: Sequence[str], columns: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]
) -> list[str]:
    """The header and the rows of columns of text, each column padded to its width."""
    padded = [
        [_padded(text, width, to_right=to_right) for text in (name, *column)]
        for name, column, width, to_right in zip(header, columns, widths, right, strict=True)
    ]
    return ["  ".join(values).rstrip() for values in zip(*padded, strict=True)]


def _padded(text: str, width: int, *, to_right: bool) -> str:
    blank = " " * (width - cells(text))
    return blank + text if to_right else text + blank


def _footer(answer: Answer) -> str:
    count = answer.table.num_rows
    at = instant(answer.at_us)
    as_of = f"step {answer.step}" + (f", at {at}" if at else "")
    return f"({count} row{'' if count == 1 else 's'}, {as_of})"


def _pairs(updates: Updates) -> list[str]:
    """For each update the select list of its query as `name=value`, empty values left out."""
    ids = updates.table.column("query").to_numpy()
    pairs = [""] * len(ids)
    for group in alike(occurring(updates)):
        places = np.flatnonzero(np.isin(ids, [query.id for query in group]))
        own = replace(updates, table=updates.table.take(places))
        columns = [readable(column) for column in selected(own, group[0])]
        names = outputs(group[0])
        for place, values in zip(places.tolist(), zip(*columns, strict=True), strict=True):
            named = zip(names, values, strict=True)
            pairs[place] = " ".join(f"{name}={text}" for name, text in named if text)
    return pairs
