"""Markdown tables, to paste into an issue or a page: whole values, `|` escaped, numbers to the right.

Updates of one query have its select list as columns; where several share the output, `row` has it as
JSON, as JSON lines have it. A new shape begins a new table after an empty line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stqsh.shell.writers.text_columns import is_numeric, texts
from stqsh.shell.writers.update_columns import cell, holds_numbers, update_columns

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates
    from stqsh.shell.writers.writer import Target


class MarkdownWriter:
    """A `Writer` of Markdown tables."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._header: tuple[str, ...] | None = None
        self._begun = False

    def updates(self, updates: Updates) -> None:
        """One row an update, below a header where the shape is new."""
        if updates.table.num_rows:
            shape = update_columns(updates, one_query=self._target.one_query)
            self._table(shape.names, shape.columns, shape.numeric, goes_on=True)

    def mark(self, mark: SnapshotMark) -> None:
        """A line of text between tables."""
        edge = "the answer after" if mark.edge == "begin" else "the changes since"
        self._paragraph(f"{_escaped(mark.query.name)}: {edge} step {mark.step}\n")

    def rows(self, statement: int, rows: Rows) -> None:
        """A table of their own."""
        del statement
        columns = [[cell(row[place]) for row in rows.rows] for place in range(len(rows.columns))]
        numeric = [holds_numbers([row[place] for row in rows.rows]) for place in range(len(rows.columns))]
        self._table(rows.columns, columns, numeric)

    def answer(self, statement: int, answer: Answer) -> None:
        """A table of their own."""
        del statement
        found = [answer.table.column(place) for place in range(answer.table.num_columns)]
        self._table(answer.names, [texts(column) for column in found], [is_numeric(one) for one in found])

    def script(self, text: str) -> None:
        """The script as a block of code."""
        self._paragraph(f"```sql\n{text.rstrip()}\n```\n")

    def _table(
        self,
        names: Sequence[str],
        columns: Sequence[Sequence[str]],
        numeric: Sequence[bool],
        *,
        goes_on: bool = False,
    ) -> None:
        lines = []
        if not goes_on or tuple(names) != self._header:
            rules = ["--:" if right else "---" for right in numeric]
            lines = [_line([_escaped(name) for name in names]), _line(rules)]
        body = [
            _line(row) for row in zip(*([_escaped(one) for one in column] for column in columns), strict=True)
        ]
        text = "".join(f"{line}\n" for line in [*lines, *body])
        if lines:
            self._paragraph(text)
        else:
            self._target.write(text.encode())
        self._header = tuple(names) if goes_on else None

    def _paragraph(self, text: str) -> None:
        self._target.write((("\n" if self._begun else "") + text).encode())
        self._begun, self._header = True, None


def _line(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"


def _escaped(text: str) -> str:
    if not any(special in text for special in "\\|\n\r"):
        return text
    text = text.replace("\\", "\\\\").replace("|", "\\|")
    return "<br>".join(text.splitlines())
