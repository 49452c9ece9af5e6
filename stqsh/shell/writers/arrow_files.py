"""Arrow and Parquet files: `--output FILE.arrow`, `FILE.parquet`, and the same with `\\o`.

A file has one table. The first table is written to the named file; each further one, with other columns or of
another snapshot, to a file beside it: `out.parquet`, `out-2.parquet`, … Updates of queries with the same
select list share a table of `query, step, at, op, why, key` and the select list; a selected column with
one of these names is called `row.NAME`. Values keep their types; times are timestamps in UTC. Record batches
and row groups have a fixed number of rows, so that a file does not depend on how its rows were delivered. A
file is complete and readable once it has been closed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from stqsh.client.python.tables import distinct, in_utc
from stqsh.errors import StqshError
from stqsh.shell.messages import file_error_reason
from stqsh.shell.writers.columns import UpdateGroup, group_updates, head_columns, row_columns

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates

PIECE = 1 << 16
"""Rows of a record batch or row group."""


class ArrowFileWriter:
    """A `Writer` of Arrow or Parquet files, by the suffix of `path`; `close` completes them.

    An existing file at `path` is deleted, because it could be mistaken for an answer without rows.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with suppress(OSError):  # it may be writable nevertheless
            if path.is_file() and not path.is_symlink():
                path.unlink()
        self._count = 0
        self._open: dict[pa.Schema, _File] = {}

    def updates(self, updates: Updates) -> None:
        """Add rows to the tables of their queries' select lists."""
        if not updates.table.num_rows:
            return
        for table in update_tables(updates):
            self._add(table)

    def mark(self, mark: SnapshotMark) -> None:
        """Write nothing: a table has no place for marks, and its rows have steps."""

    def rows(self, statement: int, rows: Rows) -> None:
        """Write a table of its own; a column of values of different types becomes text."""
        del statement
        columns = [column.arrow() for column in row_columns(rows)]
        self._whole(pa.Table.from_arrays(columns, names=distinct(rows.columns)))

    def answer(self, statement: int, answer: Answer) -> None:
        """Write a table of its own."""
        del statement
        self._whole(in_utc(answer.table).rename_columns(distinct(answer.names)))

    def script(self, text: str) -> None:
        """Raise `StqshError`: a script is not a table."""
        del text
        raise StqshError(
            f"a script cannot be written to {self._path.name} as a table", hint=r"\o FILE.stq takes it"
        )

    def close(self) -> None:
        """Write the remaining rows and complete the files; without rows, there are no files."""
        files, self._open = list(self._open.values()), {}
        for file in files:
            file.close()

    def _add(self, table: pa.Table) -> None:
        if table.schema not in self._open:
            self._open[table.schema] = _File(self._next(), table.schema)
        self._open[table.schema].add(table)

    def _whole(self, table: pa.Table) -> None:
        file = _File(self._next(), table.schema)
        file.add(table)
        file.close()

    def _next(self) -> Path:
        self._count += 1
        number = "" if self._count == 1 else f"-{self._count}"
        return self._path.with_stem(self._path.stem + number)


@dataclass
class _File:
    """The file of one table, written piece by piece."""

    path: Path
    schema: pa.Schema
    _waiting: list[pa.Table] = field(default_factory=list, init=False)
    _rows: int = field(default=0, init=False)
    _writer: Any = field(init=False)
    _file: IO[bytes] = field(init=False)

    def __post_init__(self) -> None:
        try:
            self._file = self.path.open("wb")
        except OSError as error:
            reason = file_error_reason(error)
            raise StqshError(f"cannot write {self.path}: {reason}") from error
        if self.path.suffix == ".parquet":
            self._writer = parquet.ParquetWriter(self._file, self.schema, compression="zstd")
        else:
            self._writer = pa.ipc.new_file(self._file, self.schema)

    def add(self, table: pa.Table) -> None:
        """Add rows, and write complete pieces."""
        self._waiting.append(table)
        self._rows += table.num_rows
        if self._rows >= PIECE:
            self._write(self._rows - self._rows % PIECE)

    def close(self) -> None:
        """Write the last piece and complete the file."""
        if self._rows:
            self._write(self._rows)
        self._writer.close()
        self._file.close()

    def _write(self, count: int) -> None:
        whole = pa.concat_tables(self._waiting).combine_chunks()
        for start in range(0, count, PIECE):
            # Use `take`, because the buffers of a slice would write surrounding rows into the file.
            piece: Any = np.arange(start, min(start + PIECE, count))
            self._writer.write_table(whole.take(pa.array(piece)))
        self._waiting, self._rows = [whole.slice(count)], self._rows - count


def update_tables(updates: Updates) -> list[pa.Table]:
    """Return updates as tables, one for each set of columns, in their order."""
    made: dict[pa.Schema, list[tuple[Any, pa.Table]]] = {}
    for group in group_updates(updates):
        table = _update_table(group)
        made.setdefault(table.schema, []).append((group.places, table))
    tables = []
    for pieces in made.values():  # other expressions under the same names: one table, in order
        order = np.argsort(np.concatenate([places for places, _ in pieces]))
        tables.append(pa.concat_tables([table for _, table in pieces]).take(order))
    return tables


def _update_table(group: UpdateGroup) -> pa.Table:
    """Return updates of queries with the same select list as a table."""
    head, selected = head_columns(group.updates), group.selected()
    columns: list[Any] = [column.values for column in (*head, *selected)]
    plain = [one.dictionary_decode() if isinstance(one, pa.DictionaryArray) else one for one in columns]
    shown = [f"row.{one.name}" if one.name in head._fields else one.name for one in selected]
    return in_utc(pa.Table.from_arrays(plain, names=distinct([*head._fields, *shown])))
