"""Read the source of a table into one file, keeping each key once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from stqsh.checksums import DamagedFileError, Seal, Sealer
from stqsh.core.state.interner import SeenKeys
from stqsh.errors import SourceError
from stqsh.fs import replacing
from stqsh.sources.dead_letters import DEAD_LETTERS, DeadLetterWriter
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.source_files import SourceFile, file_source, find_files, group_files, read_group
from stqsh.spec.stream import FileSourceSpec, TableSpec
from stqsh.storage.blobs import Blobs, home_blobs

CONTENT = "content.arrow"
"""The file with the rows of a table: an Arrow IPC file with the declared columns."""

SEAL = "content.seal"
"""Size and checksum of `CONTENT`, written before it is renamed; tables of older sessions have none."""

BATCH_ROWS = 1 << 16
"""The number of rows in each of its record batches, and therefore in a chunk."""

_SEALED_AT_ONCE = 1 << 20
_MAKE_AGAIN = "DROP the table and make it again from its source"

Report = Callable[[float | None, str], None]


class TableContent(NamedTuple):
    """The number of rows of a table, and the number of its dead letters."""

    rows: int
    dead: int


def prepare_table(spec: TableSpec, directory: Path, *, report: Report) -> TableContent:
    """Read a table's source into `directory`, unless that has been done, and count its rows.

    Rows are ordered by the files' names, then by their places in the files. A row without a key, or with the
    key of an earlier row, becomes a dead letter. It may be called again after a crash.

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
        return TableContent(rows, sum(1 for _ in letters))


def table_blobs(place: Path | Blobs) -> Blobs:
    """Return the files of a table as blobs; errors show their names relative to the session's folder."""
    return place if isinstance(place, Blobs) else home_blobs(place, f"{place.parent.name}/{place.name}/")


def read_table(place: Path | Blobs) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a prepared table, mapped from its file, at most `BATCH_ROWS` at a time.

    Raises:
        SourceError: the file cannot be read.
        DamagedFileError: the file is missing or differs from what was written.
    """
    blobs = table_blobs(place)
    try:
        content = blobs.local(CONTENT)
        with pa.memory_map(str(content)) as mapped:
            _check(blobs, mapped.read_buffer())
            mapped.seek(0)
            reader = pa.ipc.open_file(mapped)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)
    except FileNotFoundError:
        raise DamagedFileError(f"{blobs.within}{CONTENT}", "is gone") from None
    except (OSError, pa.ArrowInvalid) as problem:
        raise SourceError(f"the table in {blobs.within} cannot be read: {problem}") from problem


def _check(blobs: Blobs, content: pa.Buffer) -> None:
    try:
        written = bytes(blobs.read(SEAL))
    except DamagedFileError:
        return  # written by an older version, without a seal
    try:
        size, checksum = written.decode("ascii").split()
        seal = Seal(int(size), int(checksum, 16))
    except ValueError:
        raise DamagedFileError(f"{blobs.within}{SEAL}", hint=_MAKE_AGAIN) from None
    if Seal.of(memoryview(content)) != seal:
        raise DamagedFileError(f"{blobs.within}{CONTENT}", hint=_MAKE_AGAIN)


def _seal(file: Path, directory: Path) -> None:
    """Write the seal of a table's file, before the file gets its final name."""
    sealer = Sealer()
    with file.open("rb") as written:
        while piece := written.read(_SEALED_AT_ONCE):
            sealer.add(piece)
    with replacing(directory / SEAL) as hidden:
        hidden.write_text("{} {:016x}\n".format(*sealer.seal), encoding="ascii")


def _write(spec: TableSpec, directory: Path, report: Report) -> None:
    layout, source = RecordSchema.of_table(spec), file_source(spec)
    files = find_files(source)
    with replacing(directory / CONTENT) as hidden:
        with (
            DeadLetterWriter(directory / DEAD_LETTERS) as dead,
            pa.OSFile(str(hidden), "wb") as sink,
            pa.ipc.new_file(sink, layout.schema) as writer,
        ):
            for batch in _batches(files, source, layout, dead, report):
                writer.write_batch(batch)
        _seal(hidden, directory)


def _batches(
    files: list[SourceFile],
    source: FileSourceSpec,
    layout: RecordSchema,
    dead: DeadLetterWriter,
    report: Report,
) -> Iterator[pa.RecordBatch]:
    """Read all files in order, so that the first of several rows with the same key is kept."""
    total, done, known = sum(file.size for file in files) or 1, 0, SeenKeys()
    for group in group_files(files):
        for part in read_group(group, source, layout, known):
            dead.write(part.dead)
            rows = pa.RecordBatch.from_arrays(part.columns, schema=layout.schema)
            for start in range(0, rows.num_rows, BATCH_ROWS):
                yield rows.slice(start, BATCH_ROWS)
        done += sum(file.size for file in group)
        report(done / total, "reading")
