"""Prepare the replay store of a stream; an interrupted preparation starts over."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path

from stqsh.sources.dead_letters import DEAD_LETTERS, DeadLetterWriter
from stqsh.sources.formats.record_parser import ParsedRecords
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.formats.row_blocks import COMPRESSIONS
from stqsh.sources.generator.replay import begin, extend
from stqsh.sources.parallel_reading import read_in_threads
from stqsh.sources.replay_store.manifest import Manifest, read_manifest, write_manifest
from stqsh.sources.replay_store.replay_order import RUN_BYTES, write_sorted
from stqsh.sources.replay_store.spatial_extent import with_extent
from stqsh.sources.replay_store.store import StoreWriter
from stqsh.sources.source_files import (
    GROUP_BYTES,
    SourceFile,
    file_source,
    find_files,
    group_files,
    read_group,
)
from stqsh.spec.stream import FileSourceSpec, GeneratorSourceSpec, StreamSpec

__all__ = ["extend", "prepare"]

Report = Callable[[float | None, str], None]

#: The estimated number of bytes of text per byte of a compressed or columnar file.
_INFLATION = 6
#: Files with a smaller mean size are read by one thread, because most of the work is Python code.
_TINY_BYTES = 64 << 10


def prepare(spec: StreamSpec, directory: Path, *, report: Report, run_bytes: int = RUN_BYTES) -> Manifest:
    """Make the replay store of a stream in `directory`, unless it exists; return its manifest.

    It may be called again after a crash at any time.

    Args:
        report: called with the progress (0 to 1, None if unknown) and a message.
        run_bytes: how many bytes of records are sorted in memory.

    Raises:
        SourceError: the source cannot be read: no file, a missing column, an unknown option or format.
    """
    found = read_manifest(directory)
    if found is None:
        _clear(directory)
        if isinstance(spec.source, GeneratorSourceSpec):
            found = begin(spec, directory, report)
        else:
            found = _prepare_files(spec, directory, report, run_bytes)
    return found


def _clear(directory: Path) -> None:
    """Remove the files of an interrupted preparation."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)


def _prepare_files(spec: StreamSpec, directory: Path, report: Report, run_bytes: int) -> Manifest:
    layout, source = RecordSchema.of(spec), file_source(spec)
    files = find_files(source)
    writer = StoreWriter(directory, layout.columns)
    with DeadLetterWriter(directory / DEAD_LETTERS) as dead:
        parts = _read_all(files, source, layout, dead, report)
        duplicates = write_sorted(parts, layout, writer, directory, run_bytes)
    return _published(writer.finish(dead=dead.count, duplicates=duplicates), directory, spec)


def _published(manifest: Manifest, directory: Path, spec: StreamSpec) -> Manifest:
    """Write the manifest of a store whose segments are complete."""
    layout = RecordSchema.of(spec)
    if layout.event:
        manifest = with_extent(directory, manifest, layout, spec.bounds)
    write_manifest(directory, manifest)
    return manifest


def text_bytes(file: SourceFile) -> int:
    """Estimate the size of a file's text."""
    packed = file.path.suffix.lower() in (*COMPRESSIONS, ".parquet", ".pq")
    return file.size * (_INFLATION if packed else 1)


def _count(files: Sequence[SourceFile]) -> str:
    return "1 file" if len(files) == 1 else f"{len(files)} files"


def _read_all(
    files: Sequence[SourceFile],
    source: FileSourceSpec,
    layout: RecordSchema,
    dead: DeadLetterWriter,
    report: Report,
) -> Iterator[ParsedRecords]:
    """Read all files, in order, with one thread per core; tiny files are read faster by a single thread."""
    groups = list(group_files(files))
    total = sum(text_bytes(file) for file in files) or 1
    ends = list(accumulate(sum(text_bytes(file) for file in group) for group in groups))
    threads = (os.cpu_count() or 1) if total // len(files) > _TINY_BYTES else 1
    readers = [partial(read_group, group, source, layout) for group in groups]
    done = before = 0
    for number, part in read_in_threads(readers, threads):
        done = min(max(done, ends[number - 1] if number else 0) + GROUP_BYTES, ends[number])
        report(done / total, f"reading {_count(files)}")
        dead.write(part.dead)
        yield part.numbered_from(before, layout.position(layout.key)) if layout.numbers_rows else part
        before += part.rows
    report(None, "sorting")
