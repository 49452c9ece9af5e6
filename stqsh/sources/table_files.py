"""Tables: a source read once into one file, each key once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from stqsh.errors import SourceError
from stqsh.fs import replacing
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.replay_store.dead_letters import DeadLetterWriter
from stqsh.sources.replay_store.duplicate_keys import SeenKeys
from stqsh.sources.replay_store.store import DEAD_LETTERS
from stqsh.sources.source_files import SourceFile, file_source, find_files, group_files, read_group
from stqsh.spec.stream import FileSourceSpec, TableSpec

#: The rows of a table, an Arrow IPC file of the declared columns.
CONTENT = "content.arrow"
#: Rows of one record batch in it, and so of a chunk.
BATCH_ROWS = 1 << 16

Report = Callable[[float | None, str], None]


class PreparedTable(NamedTuple):
    """How many rows a table has, and how many dead letters."""

    rows: int
    dead: int


def prepare_table(spec: TableSpec, directory: Path, *, report: Report) -> PreparedTable:
    """Read a table's source into `directory`, unless it is there.

    `spec` is a TableSpec. Rows stand in the order of their files' names, then of their place; a row without
    a key, and a later row of a key that is there, is a dead letter. May be called again after a crash.

    Raises:
        SourceError: the source cannot be read: no file, a missing column, an unknown option or format.
    """
    content = directory / CONTENT
    if not content.exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        _write(spec, directory, report)
    rows = sum(batch.num_rows for batch in read_table(directory))
    with (directory / DEAD_LETTERS).open("rb") as letters:
        return PreparedTable(rows, sum(1 for _ in letters))


def read_table(directory: Path) -> Iterator[pa.RecordBatch]:
    """Give the rows of a table that is prepared, at most `BATCH_ROWS` at a time, mapped from its file.

    Raises:
        SourceError: it is not there.
    """
    try:
        with pa.memory_map(str(directory / CONTENT)) as mapped:
            reader = pa.ipc.open_file(mapped)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)
    except (OSError, pa.ArrowInvalid) as problem:
        raise SourceError(f"no table in {directory}: {problem}") from problem


def _write(spec: TableSpec, directory: Path, report: Report) -> None:
    layout, source = RecordSchema.of_table(spec), file_source(spec)
    files = find_files(source)
    with (
        replacing(directory / CONTENT) as hidden,
        DeadLetterWriter(directory / DEAD_LETTERS) as dead,
        pa.OSFile(str(hidden), "wb") as sink,
        pa.ipc.new_file(sink, layout.schema) as writer,
    ):
        for batch in _batches(files, source, layout, dead, report):
            writer.write_batch(batch)


def _batches(
    files: list[SourceFile],
    source: FileSourceSpec,
    layout: RecordSchema,
    dead: DeadLetterWriter,
    report: Report,
) -> Iterator[pa.RecordBatch]:
    """Read all files one after the other, so that of two rows of a key the first one stands."""
    total, done, known = sum(file.size for file in files) or 1, 0, SeenKeys()
    for group in group_files(files):
        for part in read_group(group, source, layout, known):
            dead.write(part.dead)
            rows = pa.RecordBatch.from_arrays(part.columns, schema=layout.schema)
            for start in range(0, rows.num_rows, BATCH_ROWS):
                yield rows.slice(start, BATCH_ROWS)
        done += sum(file.size for file in group)
        report(done / total, "reading")
