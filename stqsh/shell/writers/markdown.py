"""Markdown tables, to paste into an issue or a page: whole values, `|` escaped, numbers right-aligned.

Updates of one query have its select list as columns; if several queries share the output, a column `row` has
the select list as JSON, as in JSON lines. If the columns change, a new table follows after an empty line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stqsh.shell.writers.columns import (
    AnyColumn,
    CellColumn,
    answer_columns,
    head_columns,
    json_rows,
    only_query,
    row_columns,
    selected_columns,
)

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates
    from stqsh.shell.writers.writer import Target


class MarkdownWriter:
    """Writes Markdown tables."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._header: tuple[str, ...] | None = None
        self._has_begun = False

    def updates(self, updates: Updates) -> None:
        """Write a row for each update, below a new header if the columns change."""
        if not updates.table.num_rows:
            return
        query = only_query(updates, one_query=self._target.one_query)
        selected: Sequence[AnyColumn] = (
            [CellColumn("row", json_rows(updates))] if query is None else selected_columns(updates, query)
        )
        self._table([*head_columns(updates), *selected], continues=True)

    def mark(self, mark: SnapshotMark) -> None:
        """Write a line of text between tables."""
        edge = "the answer after" if mark.edge == "begin" else "the changes since"
        self._paragraph(f"{_escaped(*self._shown([mark.query.name]))}: {edge} step {mark.step}\n")

    def rows(self, statement: int, rows: Rows) -> None:
        """Write a table of its own."""
        del statement
        self._table(row_columns(rows))

    def answer(self, statement: int, answer: Answer) -> None:
        """Write a table of its own."""
        del statement
        self._table(answer_columns(answer))

    def script(self, text: str) -> None:
        """Write the script as a block of code."""
        self._paragraph(f"```sql\n{self._shown([text])[0].rstrip()}\n```\n")

    def _table(self, columns: Sequence[AnyColumn], *, continues: bool = False) -> None:
        """Write rows, and a header unless they continue a table with the same header."""
        names = tuple(column.name for column in columns)
        lines = []
        if not continues or names != self._header:
            rules = ["--:" if column.is_numeric else "---" for column in columns]
            lines = [_line(list(map(_escaped, self._shown(names)))), _line(rules)]
        body = map(
            _line, zip(*(map(_escaped, self._shown(column.texts())) for column in columns), strict=True)
        )
        text = "".join(f"{line}\n" for line in [*lines, *body])
        if lines:
            self._paragraph(text)
        else:
            self._target.write(text.encode())
        self._header = names if continues else None

    def _shown(self, values: Sequence[str]) -> list[str]:
        return self._target.shown(list(values), keep="\t\n\r")  # line ends become <br>

    def _paragraph(self, text: str) -> None:
        self._target.write((("\n" if self._has_begun else "") + text).encode())
        self._has_begun, self._header = True, None


def _line(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"


def _escaped(text: str) -> str:
    if not any(special in text for special in "\\|\n\r"):
        return text
    text = text.replace("\\", "\\\\").replace("|", "\\|")
    return "<br>".join(text.splitlines())
