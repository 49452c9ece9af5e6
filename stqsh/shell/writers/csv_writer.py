"""CSV and TSV: a header, then `query,step,at,op,key`, and the select list where only one query is shown.

Where what comes has another shape than what came, an empty line and a new header stand between; the rows
of a snapshot SELECT come under a header of its select list, one for each snapshot. The
marks around the answer with which a TAIL begins have `begin` and `end` in the place of `op`. A text that
holds the separator, a quote or a line break is quoted, with quotes doubled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from stqsh.shell.writers.text_columns import (
    SIGNS,
    instant,
    integers,
    occurring,
    outputs,
    selected,
    steps_at,
    texts,
)

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates
    from stqsh.shell.writers.writer import Target

HEAD = ("query", "step", "at", "op", "key")


class CsvWriter:
    """A `Writer` of lines of values with a separator between."""

    def __init__(self, target: Target, separator: str) -> None:
        self._target = target
        self._separator = separator
        self._special = re.compile(f'["\r\n{separator}]')
        self._header: tuple[str, ...] | None = None

    def updates(self, updates: Updates) -> None:
        """One line an update."""
        if not updates.table.num_rows:
            return
        queries = occurring(updates)
        single = queries[0] if self._target.one_query and len(queries) == 1 else None
        names = {query.id: query.name for query in queries}
        table = updates.table
        columns: list[list[str]] = [
            [names[number] for number in integers(table, "query")],
            texts(table.column("step")),
            steps_at(table),
            [SIGNS[op] for op in integers(table, "op")],
            texts(table.column("key")),
        ]
        if single is not None:
            columns += map(texts, selected(updates, single))
        self._write((*HEAD, *(outputs(single) if single else ())), columns)

    def mark(self, mark: SnapshotMark) -> None:
        """A line with `begin` or `end` for `op`."""
        selects = outputs(mark.query) if self._target.one_query else ()
        values = (mark.query.name, str(mark.step), instant(mark.at_us) or "", mark.edge, "")
        self._write(
            (*HEAD, *selects),
            [[value] for value in (*values, *("" for _ in selects))],
        )

    def rows(self, statement: int, rows: Rows) -> None:
        """The rows under a header of their columns."""
        columns = [[_plain(row[place]) for row in rows.rows] for place in range(len(rows.columns))]
        self._write(rows.columns, columns)

    def answer(self, statement: int, answer: Answer) -> None:
        """The rows under a header of the select list's names, which each snapshot has anew."""
        del statement  # as a column it would make the header another than the select list
        if self._header is not None:
            self._target.write(b"\n")
        self._header = None
        table = answer.table
        self._write(answer.names, [texts(table.column(place)) for place in range(table.num_columns)])

    def script(self, text: str) -> None:
        """The script as it is."""
        self._target.write(text.encode() if text.endswith("\n") else text.encode() + b"\n")

    def _write(self, header: tuple[str, ...], columns: Sequence[Sequence[str]]) -> None:
        lines: list[str] = []
        if header != self._header:
            lines += [] if self._header is None else [""]
            lines.append(self._separator.join(self._quoted(header)))
            self._header = header
        safe = [self._quoted(column) for column in columns]
        lines += map(self._separator.join, zip(*safe, strict=True))
        self._target.write(("\n".join(lines) + "\n").encode())

    def _quoted(self, values: Iterable[str]) -> list[str]:
        values = list(values)
        if not self._special.search("\x00".join(values)):
            return values
        return [self._quote(value) for value in values]

    def _quote(self, value: str) -> str:
        return '"' + value.replace('"', '""') + '"' if self._special.search(value) else value


def _plain(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
