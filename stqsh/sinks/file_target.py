"""Sinks TO FILE: one file per batch, or several for a batch with very many updates.

A file is written under a hidden name. The position that is recorded next names the file; only then the file
is renamed to its final name. Therefore a file appears complete and exactly once, even if a reader removes it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from stqsh.client.results import Updates
from stqsh.fs import force, is_durable
from stqsh.shell.messages import file_error_reason
from stqsh.shell.writers.arrow_files import update_tables
from stqsh.shell.writers.csv_writer import CsvWriter
from stqsh.shell.writers.jsonl import JsonLinesWriter
from stqsh.shell.writers.writer import Target as WriterTarget
from stqsh.sinks.sink_reader import SinkPart, replace_position
from stqsh.sinks.target import TargetBusyError
from stqsh.spec.sink import FileTargetSpec, SinkSpec
from stqsh.storage.output_files import file_name, hidden_name, is_file_of
from stqsh.storage.sinks.sink_position import SinkPosition


class FileSink:
    """Writes a sink's parts as files."""

    rows = 1 << 20

    def __init__(self, spec: SinkSpec, target: FileTargetSpec) -> None:
        self._spec, self._format, self._folder = spec, target.format, Path(target.folder)

    def open(self, position: SinkPosition) -> SinkPosition:
        """Rename the files that a predecessor completed, and remove those that it did not."""
        try:
            self._place(position)
            for path in self._folder.glob(".*.part"):
                if is_file_of(path.name, self._spec.name):
                    path.unlink()
        except OSError as error:
            raise self._busy(error) from error
        return position

    def write(self, part: SinkPart) -> SinkPosition:
        """Write the files of a part under hidden names."""
        names = []
        try:
            for number, content in enumerate(self._contents(part)):
                name = file_name(self._spec.name, (part.step, part.number, number), self._format)
                hidden = self._folder / hidden_name(name)
                hidden.write_bytes(content)
                hidden.chmod(self._folder.stat().st_mode & 0o666)  # not private, unlike the session
                if is_durable():
                    force(hidden)
                names.append(name)
            if names and is_durable():
                force(self._folder)  # the next position names them
        except OSError as error:
            raise self._busy(error) from error
        return replace_position(part.reached, placed=tuple(names))

    def settle(self, position: SinkPosition) -> None:
        """Rename the files of the position to their final names."""
        try:
            self._place(position)
        except OSError as error:
            raise self._busy(error) from error

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _place(self, position: SinkPosition) -> None:
        for name in position.placed:
            hidden = self._folder / hidden_name(name)
            if hidden.exists():
                hidden.replace(self._folder / name)
        if position.placed and is_durable():
            force(self._folder)

    def _contents(self, part: SinkPart) -> Iterator[bytes | memoryview]:
        """Yield the content of each file of a part: one, or several for Parquet with several select lists."""
        if not part.updates:
            return
        if self._format == "parquet":
            tables: dict[pa.Schema, list[pa.Table]] = {}
            for table in chain.from_iterable(map(update_tables, part.updates)):
                tables.setdefault(table.schema, []).append(table)
            yield from (_parquet(pa.concat_tables(pieces)) for pieces in tables.values())
            return
        out = io.BytesIO()
        target = WriterTarget(out, one_query=len(self._spec.queries) == 1)
        writer = JsonLinesWriter(target) if self._format == "jsonl" else CsvWriter(target, ",")
        for updates in part.updates:
            writer.updates(updates)
        yield out.getbuffer()

    def _busy(self, error: OSError) -> TargetBusyError:
        if not self._folder.exists():
            reason = "it is not there; make it again, or drop the sink"
        else:
            reason = file_error_reason(error) if self._folder.is_dir() else "not a folder"
        return TargetBusyError(f"cannot write to {self._folder}: {reason}")


def _parquet(table: pa.Table) -> memoryview:
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd", row_group_size=1 << 16)
    return memoryview(sink.getvalue())


def json_lines(updates: tuple[Updates, ...]) -> bytes:
    """Return updates as JSON lines."""
    out = io.BytesIO()
    writer = JsonLinesWriter(WriterTarget(out))
    for one in updates:
        writer.updates(one)
    return out.getvalue()
