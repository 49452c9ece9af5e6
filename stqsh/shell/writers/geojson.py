"""GeoJSON, one Feature a line (as GeoJSON text sequences have it, without their separator character).

The geometry is the record's location in the stream's coordinates, `null` where there is none; the properties
are the record that JSON lines have. Of a snapshot, the location is known where both its columns are selected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stqsh.shell.writers.columns import answer_columns, row_columns
from stqsh.shell.writers.jsonl import data_lines, mark_line, update_lines
from stqsh.shell.writers.text_columns import NULL, json_fragments

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates
    from stqsh.shell.writers.text_columns import Column
    from stqsh.shell.writers.writer import Target


class GeoJsonWriter:
    """Writes Features, one a line."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def updates(self, updates: Updates) -> None:
        """Write a Feature for each update, a point at the location of its record."""
        table, stream = updates.table, updates.stream.spec
        if not table.num_rows:
            return
        axes = [f"c.{stream.x}", f"c.{stream.y}"]
        is_placed = set(axes) <= set(table.column_names)  # a row of an aggregate has no place
        points = _points(*(table.column(axis) for axis in axes)) if is_placed else [NULL] * table.num_rows
        self._write(points, update_lines(updates))

    def mark(self, mark: SnapshotMark) -> None:
        """Write a Feature without a geometry."""
        self._write([NULL], [mark_line(mark)])

    def rows(self, statement: int, rows: Rows) -> None:
        """Write Features without a geometry."""
        self._write([NULL] * len(rows.rows), data_lines(statement, row_columns(rows)))

    def answer(self, statement: int, answer: Answer) -> None:
        """Write a Feature for each row."""
        if answer.location is None:
            points = [NULL] * answer.table.num_rows
        else:
            # By place: a select list may name a column twice.
            x, y = (answer.table.column(answer.names.index(name)) for name in answer.location)
            points = _points(x, y)
        self._write(points, data_lines(statement, answer_columns(answer)))

    def script(self, text: str) -> None:
        """Write the script unchanged."""
        self._target.write_script(text)

    def _write(self, points: Iterable[bytes], records: Iterable[bytes]) -> None:
        feature = b'{"type":"Feature","geometry":%b,"properties":%b}\n'
        lines = (feature % pair for pair in zip(points, map(bytes.rstrip, records), strict=True))
        self._target.write(b"".join(lines))


def _points(x: Column, y: Column) -> list[bytes]:
    point = b'{"type":"Point","coordinates":[%b,%b]}'
    return [
        NULL if NULL in pair else point % pair
        for pair in zip(json_fragments(x), json_fragments(y), strict=True)
    ]
