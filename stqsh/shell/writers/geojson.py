"""GeoJSON, one Feature a line (as GeoJSON text sequences have it, without their separator character).

The geometry is the record's location in the stream's coordinates, `null` where there is none; the properties
are the record that JSON lines have. Of a snapshot, the location is known where both its columns are selected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stqsh.shell.writers.jsonl import answer_lines, mark_line, row_lines, update_lines
from stqsh.shell.writers.text_columns import NULL, json_fragments

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates
    from stqsh.shell.writers.text_columns import Column
    from stqsh.shell.writers.writer import Target


class GeoJsonWriter:
    """A `Writer` of Features, one a line."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def updates(self, updates: Updates) -> None:
        """One Feature an update, a point at the location of its record."""
        table, stream = updates.table, updates.stream.spec
        if table.num_rows:
            points = _points(table.column(f"c.{stream.x}"), table.column(f"c.{stream.y}"))
            self._write(points, update_lines(updates))

    def mark(self, mark: SnapshotMark) -> None:
        """A Feature that is nowhere."""
        self._write([NULL], [mark_line(mark)])

    def rows(self, statement: int, rows: Rows) -> None:
        """Features that are nowhere."""
        self._write([NULL] * len(rows.rows), row_lines(statement, rows))

    def answer(self, statement: int, answer: Answer) -> None:
        """One Feature a row."""
        if answer.location is None:
            points = [NULL] * answer.table.num_rows
        else:
            # By place: a select list may name a column twice.
            x, y = (answer.table.column(answer.names.index(name)) for name in answer.location)
            points = _points(x, y)
        self._write(points, answer_lines(statement, answer))

    def script(self, text: str) -> None:
        """The script as it is."""
        self._target.write(text.encode() if text.endswith("\n") else text.encode() + b"\n")

    def _write(self, points: Iterable[bytes], records: Iterable[bytes]) -> None:
        feature = b'{"type":"Feature","geometry":%b,"properties":%b}\n'
        self._target.write(
            b"".join(
                feature % (point, record.rstrip(b"\n")) for point, record in zip(points, records, strict=True)
            )
        )


def _points(x: Column, y: Column) -> list[bytes]:
    point = b'{"type":"Point","coordinates":[%b,%b]}'
    return [
        NULL if NULL in pair else point % pair
        for pair in zip(json_fragments(x), json_fragments(y), strict=True)
    ]
