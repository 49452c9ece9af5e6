"""JSON lines: one record a line, compact, keys in the order of language.md, "Output".

Columns become JSON texts as wholes; a line is then one template filled. That makes several 100 000
updates a second, where a dictionary a row makes a fifth of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from stqsh.shell.writers.text_columns import (
    alike,
    integers,
    json_fragments,
    occurring,
    outputs,
    selected,
    steps_at,
)
from stqsh.storage.update_log.reader import REASONS

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates
    from stqsh.shell.writers.writer import Target
    from stqsh.storage.rows import QueryRow

_OP = {1: b"+", -1: b"-"}
_WHY = [b"", *(b',"why":' + orjson.dumps(reason) for reason in REASONS[1:])]


class JsonLinesWriter:
    """A `Writer` of JSON lines."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def updates(self, updates: Updates) -> None:
        """One line an update."""
        if updates.table.num_rows:
            self._target.write(b"".join(update_lines(updates)))

    def mark(self, mark: SnapshotMark) -> None:
        """`{"query":…,"step":…,"snapshot":"begin"}` and the same with `end`."""
        self._target.write(mark_line(mark))

    def rows(self, statement: int, rows: Rows) -> None:
        """`{"statement":n,"row":{…}}`, one a row."""
        self._target.write(b"".join(row_lines(statement, rows)))

    def answer(self, statement: int, answer: Answer) -> None:
        """`{"statement":n,"row":{…}}`, one a row."""
        self._target.write(b"".join(answer_lines(statement, answer)))

    def script(self, text: str) -> None:
        """The script as it is."""
        self._target.write(text.encode() if text.endswith("\n") else text.encode() + b"\n")


def mark_line(mark: SnapshotMark) -> bytes:
    """The line of a mark."""
    return _line({"query": mark.query.name, "step": mark.step, "snapshot": mark.edge})


def row_lines(statement: int, rows: Rows) -> list[bytes]:
    """The lines of what a SHOW or DESCRIBE answers."""
    return [
        _line({"statement": statement, "row": dict(zip(rows.columns, row, strict=True))}) for row in rows.rows
    ]


def answer_lines(statement: int, answer: Answer) -> list[bytes]:
    """The lines of a snapshot's rows."""
    table = answer.table
    row = [json_fragments(table.column(place)) for place in range(table.num_columns)]
    template = b'{"statement":%d,"row":{%%b}}\n' % statement % _row(answer.names)
    return list(map(template.__mod__, zip(*row, strict=True)))


def update_lines(updates: Updates) -> list[bytes]:
    """The lines of updates (at least one), in their order."""
    queries = occurring(updates)
    names = {query.id: orjson.dumps(query.name) for query in queries}
    groups = alike(queries)  # queries that select alike share a template
    if len(groups) == 1:
        return list(_filled(updates, names, queries[0]))
    ids = updates.table.column("query").to_numpy()
    lines: Any = np.empty(updates.table.num_rows, dtype=object)
    for group in groups:
        places = np.flatnonzero(np.isin(ids, [query.id for query in group]))
        lines[places] = list(_filled(replace(updates, table=updates.table.take(places)), names, group[0]))
    filled: list[bytes] = lines.tolist()
    return filled


def _filled(updates: Updates, names: dict[int, bytes], query: QueryRow) -> Iterator[bytes]:
    """The lines of updates of queries that all select what `query` does."""
    table = updates.table
    head = (
        [names[number] for number in integers(table, "query")],
        json_fragments(table.column("step")),
        [text.encode() for text in steps_at(table)],
        [_OP[op] for op in integers(table, "op")],
        json_fragments(table.column("key")),
    )
    row = (json_fragments(column) for column in selected(updates, query))
    why = [_WHY[code] for code in integers(table, "why")]
    template = b'{"query":%%b,"step":%%b,"at":"%%b","op":"%%b","key":%%b,"row":{%b}%%b}\n' % _row(
        outputs(query)
    )
    return map(template.__mod__, zip(*head, *row, why, strict=True))


def _line(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


def _row(names: Sequence[str]) -> bytes:
    """The inside of a row's braces, as a template of its values."""
    return b",".join(orjson.dumps(name).replace(b"%", b"%%") + b":%b" for name in names)
