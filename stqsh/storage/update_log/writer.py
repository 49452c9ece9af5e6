"""Write the update log: a batch's file, and the large payloads beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from stqsh.checksums import Seal
from stqsh.fs import atomic_write
from stqsh.spec.chunk import pack_json
from stqsh.spec.payload_refs import MARK, Reference, reference_in
from stqsh.storage.update_log.files import LoggedFile, batch_path
from stqsh.storage.update_log.reader import clock_of

LOGGED_KINDS = ("clock", "rows", "updates")


def write_batch(updates: Path, batch: int, chunks: pa.Table) -> LoggedFile | None:
    """Write a batch's chunks to the update log if it has updates; return the file to list, or else None.

    A repeated call for the same batch writes identical files. Therefore only the times of the clock chunk are
    kept: its other content, such as a stream's lag, may differ in the repeated batch.

    Args:
        updates: the home's folder of that name.
        batch: the number of the batch.
        chunks: a table of the CHUNK schema (further columns and kinds are dropped). Its payloads may refer to
            hidden files in `updates`, which get their final names.
    """
    kinds = chunks.column("kind")
    if pc.index(kinds, "updates").as_py() < 0:
        return None
    logged = chunks.filter(pc.is_in(kinds, value_set=pa.array(LOGGED_KINDS, kinds.type)))
    kept, beside = _put_in_place(updates, batch, _with_times_only(logged))
    return LoggedFile.sealed(batch, write_chunks(batch_path(updates, batch), kept), beside)


def _with_times_only(chunks: pa.Table) -> pa.Table:
    """Return chunks whose clock chunk is reduced to its times."""
    is_clock = pc.is_in(chunks.column("kind"), value_set=pa.array(["clock"]))
    column = chunks.column_names.index("payload")
    payloads = chunks.column(column)
    times = pa.scalar(pack_json(clock_of(chunks)), payloads.type)
    return chunks.set_column(column, chunks.schema.field(column), pc.if_else(is_clock, times, payloads))


def write_chunks(target: Path, chunks: pa.Table) -> Seal:
    """Write a file of chunks atomically; return its seal."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, chunks.schema) as writer:
        writer.write_table(chunks)
    content = memoryview(sink.getvalue())
    atomic_write(target, content)
    return Seal.of(content)


def _put_in_place(updates: Path, batch: int, chunks: pa.Table) -> tuple[pa.Table, int]:
    """Rename the hidden files to which payloads refer: `.N.UNIQUE.bulk` becomes `%012d.N.bulk`.

    Returns:
        The chunks with references to the new names, and the total size of these files in bytes.
    """
    column = chunks.column_names.index("payload")
    payloads = chunks.column(column)
    if not pc.any(pc.starts_with(payloads, pattern=MARK.decode())).as_py():
        return chunks, 0
    folder, size = str(updates), 0
    names: dict[str, str] = {}
    taken: set[str] = set()
    placed = []
    for payload in payloads.to_pylist():
        reference = reference_in(payload)
        if reference is None:
            placed.append(payload)
            continue
        if reference.file not in names:
            _, name, _, ending = reference.file.split(".")
            target = f"{batch:012d}.{name}.{ending}"
            if target in taken:
                raise ValueError(f"two files want to be {target}: {', '.join(names)}, {reference.file}")
            names[reference.file] = target
            taken.add(target)
            # There is a file for each slot, and pathlib would take three times as long.
            os.replace(f"{folder}/{reference.file}", f"{folder}/{target}")  # noqa: PTH105
            size += os.stat(f"{folder}/{target}").st_size  # noqa: PTH116
        at = reference.at, reference.size
        placed.append(Reference(names[reference.file], *at, checksum=reference.checksum).packed())
    return chunks.set_column(column, chunks.schema.field(column), pa.array(placed, payloads.type)), size
