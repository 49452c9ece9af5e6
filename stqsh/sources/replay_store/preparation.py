"""Prepare the replay store of a stream; an interrupted preparation starts again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from stqsh.errors import SourceError
from stqsh.sources.formats.record_parser import ParsedRecords
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.formats.row_blocks import COMPRESSIONS
from stqsh.sources.generator.replay import begin, extend
from stqsh.sources.replay_store.dead_letters import DEAD_LETTERS, DeadLetterWriter
from stqsh.sources.replay_store.manifest import Manifest, read_manifest, write_manifest
from stqsh.sources.replay_store.replay_order import write_sorted
from stqsh.sources.replay_store.spark_sort import PARTITION_BYTES, SortJob, dead_path, sort_with_spark
from stqsh.sources.replay_store.spatial_extent import with_extent
from stqsh.sources.replay_store.store import StoreWriter
from stqsh.sources.source_files import (
    GROUP_BYTES,
    SourceFile,
    check_files,
    file_source,
    find_files,
    group_files,
    read_group,
)
from stqsh.spec.stream import FileSourceSpec, GeneratorSourceSpec, StreamSpec

__all__ = ["extend", "prepare"]

Report = Callable[[float | None, str], None]

#: Spark sorts sources with more bytes of text than this.
IN_MEMORY_BYTES = 512 << 20
#: The approximate number of bytes of text in a byte of a compressed or columnar file.
_INFLATION = 6
#: Files of a smaller mean size are read by one thread, as most of the work is Python code.
_TINY_BYTES = 64 << 10


def prepare(spec: StreamSpec, directory: Path, *, report: Report, spark: Any = None) -> Manifest:
    """Make the replay store of a stream in `directory`, unless it is there; return its manifest.

    May be called again after a crash at any time.

    Args:
        report: called with the progress (0 to 1, None where unknown) and a message.
        spark: a Spark session for sources larger than memory; None: everything is done here.

    Raises:
        SourceError: the source cannot be read: no file, a missing column, an unknown option or format.
    """
    found = read_manifest(directory)
    if found is None:
        _clear(directory)
        if isinstance(spec.source, GeneratorSourceSpec):
            found = begin(spec, directory, report)
        else:
            found = _prepare_files(spec, directory, report, spark)
    return found


def _clear(directory: Path) -> None:
    """Remove the rest of an interrupted preparation."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)


def _prepare_files(spec: StreamSpec, directory: Path, report: Report, spark: Any) -> Manifest:
    layout, source = RecordSchema.of(spec), file_source(spec)
    files = find_files(source)
    size = sum(text_bytes(file) for file in files)
    if spark is not None and size > IN_MEMORY_BYTES:
        report(None, f"sorting {_count(files)} with Spark")
        check_files(files, source, layout)
        groups = list(group_files(files, GROUP_BYTES))
        return _published(
            _sorted_by_spark(SortJob(str(directory), layout, source, groups), size, spark), directory, spec
        )
    writer = StoreWriter(directory, layout.columns)
    with DeadLetterWriter(directory / DEAD_LETTERS) as dead:
        parts = []
        for part in _read_all(files, source, layout, report):
            dead.write(part.dead)
            parts.append(part)
        report(None, "sorting")
        duplicates = write_sorted(parts, layout, writer)
    return _published(writer.finish(dead=dead.count, duplicates=duplicates), directory, spec)


def _published(manifest: Manifest, directory: Path, spec: StreamSpec) -> Manifest:
    """Write the manifest of a store whose segments are there."""
    layout = RecordSchema.of(spec)
    if layout.event:
        manifest = with_extent(directory, manifest, layout, spec.bounds)
    write_manifest(directory, manifest)
    return manifest


def text_bytes(file: SourceFile) -> int:
    """Estimate how much text a file holds."""
    packed = file.path.suffix.lower() in (*COMPRESSIONS, ".parquet", ".pq")
    return file.size * (_INFLATION if packed else 1)


def _count(files: Sequence[SourceFile]) -> str:
    return "1 file" if len(files) == 1 else f"{len(files)} files"


def _read_all(
    files: Sequence[SourceFile], source: FileSourceSpec, layout: RecordSchema, report: Report
) -> Iterator[ParsedRecords]:
    """Read all files, in order, with as many threads as there are cores; tiny files are quicker with one."""
    groups = list(group_files(files))
    total, done = sum(file.size for file in files) or 1, 0
    threads = os.cpu_count() if total // len(files) > _TINY_BYTES else 1
    with ThreadPoolExecutor(threads) as pool:
        results = pool.map(lambda group: list(read_group(group, source, layout)), groups)
        try:
            for group, parts in zip(groups, results, strict=True):
                yield from parts
                done += sum(file.size for file in group)
                report(done / total, f"reading {_count(files)}")
        except SourceError:
            pool.shutdown(cancel_futures=True)
            raise


def _sorted_by_spark(job: SortJob, size: int, spark: Any) -> Manifest:
    directory = Path(job.directory)
    sorted_ = sort_with_spark(spark, job, partitions=1 + size // PARTITION_BYTES)
    with DeadLetterWriter(directory / DEAD_LETTERS) as dead:
        for group in range(len(job.groups)):
            dead.copy(dead_path(directory, group))
            dead_path(directory, group).unlink()
    return replace(sorted_, dead=dead.count)
