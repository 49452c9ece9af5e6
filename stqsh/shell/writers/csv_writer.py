"""CSV and TSV: a header, then `query,step,at,op,key`, and the select list if only one query is shown.

If the columns change, an empty line and a new header follow; each snapshot SELECT has a header of its
own select list. The marks around a TAIL's initial answer have `begin` and `end` in the column
`op`. A text that contains the separator, a quote or a line break is quoted, with quotes doubled.
A null is an empty cell, and the empty text `""`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from stqsh.shell.writers.columns import (
    AnyColumn,
    answer_columns,
    head_columns,
    only_query,
    row_columns,
    selected_columns,
    selected_names,
)
from stqsh.shell.writers.text_columns import instant

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates
    from stqsh.shell.writers.writer import Target

HEAD = ("query", "step", "at", "op", "key")


class CsvWriter:
    """Writes lines of values with a separator between them."""

    def __init__(self, target: Target, separator: str) -> None:
        self._target = target
        self._separator = separator
        self._special = re.compile(f'["\r\n{separator}]')
        self._header: tuple[str, ...] | None = None

    def updates(self, updates: Updates) -> None:
        """Write a line for each update."""
        if not updates.table.num_rows:
            return
        head = head_columns(updates)._asdict()
        query = only_query(updates, one_query=self._target.one_query)
        selected = [] if query is None else selected_columns(updates, query)
        self._write_columns([*(head[name] for name in HEAD), *selected])

    def mark(self, mark: SnapshotMark) -> None:
        """Write a line with `begin` or `end` for `op`."""
        selects = selected_names(mark.query) if self._target.one_query else ()
        values = (mark.query.name, str(mark.step), instant(mark.at_us) or "", mark.edge, "")
        cells = [*self._quoted(values, list), *("" for _ in selects)]
        self._write((*HEAD, *selects), [[cell] for cell in cells])

    def rows(self, statement: int, rows: Rows) -> None:
        """Write the rows under a header of their columns."""
        self._write_columns(row_columns(rows))

    def answer(self, statement: int, answer: Answer) -> None:
        """Write the rows under a header with the select list's names, repeated for every snapshot."""
        del statement  # there is no column for it in the select list
        if self._header is not None:
            self._target.write(b"\n")
        self._header = None
        self._write_columns(answer_columns(answer))

    def script(self, text: str) -> None:
        """Write the script unchanged."""
        self._target.write_script(text)

    def _write_columns(self, columns: Sequence[AnyColumn]) -> None:
        names = tuple(column.name for column in columns)
        self._write(names, [self._quoted(column.texts(), column.empty_texts) for column in columns])

    def _write(self, header: tuple[str, ...], columns: Sequence[Sequence[str]]) -> None:
        lines: list[str] = []
        if header != self._header:
            lines += [] if self._header is None else [""]
            lines.append(self._separator.join(self._quoted(header, list)))
            self._header = header
        lines += map(self._separator.join, zip(*columns, strict=True))
        self._target.write(("\n".join(lines) + "\n").encode())

    def _quoted(self, values: Iterable[str], find_empty: Callable[[], list[bool]]) -> list[str]:
        """Return values, quoted if needed: the empty text is quoted, a null is not.

        Args:
            values: the texts, "" for both.
            find_empty: returns which values are empty texts, [] for none; called only if there may be one.
        """
        found = self._target.shown(list(values), keep="\t\n")
        if self._special.search("\x00".join(found)):
            found = [self._quote(value) for value in found]
        if "" in found:
            for place in (place for place, is_empty in enumerate(find_empty()) if is_empty):
                found[place] = '""'
        return found

    def _quote(self, value: str) -> str:
        return '"' + value.replace('"', '""') + '"' if self._special.search(value) else value
