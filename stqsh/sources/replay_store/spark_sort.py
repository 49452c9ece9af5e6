"""Sort sources larger than memory with Spark, by the same parser, into a store.

Each sorted partition becomes a small store of its own; the driver joins their segments. Spark is an argument,
and this module imports nothing of it. The records of event streams are first grouped by key, so that each is
compared with all records of its key; duplicates are marked, counted and dropped.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.sources.formats.pyarrow_typing import Array, pc
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.replay_store.dead_letters import DeadLetterWriter
from stqsh.sources.replay_store.duplicate_keys import KeptEventKeys
from stqsh.sources.replay_store.manifest import Manifest, Segment, read_manifest
from stqsh.sources.replay_store.replay_order import OrderKeys, ticks_of
from stqsh.sources.replay_store.segments import TICK, segment_name, ticks_path, write_index
from stqsh.sources.replay_store.store import StoreWriter
from stqsh.sources.source_files import SourceFile, read_group
from stqsh.spec.stream import FileSourceSpec

#: The number of bytes on disk of a sorted partition.
PARTITION_BYTES = 64 << 20
_SPARK_TYPES = {
    "STRING": "string",
    "BIGINT": "bigint",
    "INT": "int",
    "DOUBLE": "double",
    "FLOAT": "float",
    "BOOLEAN": "boolean",
    "TIMESTAMP": "bigint",
}
_KEYS = ("_key", "_file", "_place")
_AGAIN = "_again"
_PARTITION = "first_key bigint, first_file int, first_place bigint, store string"

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class SortJob:
    """The job of the workers: where to write, how to parse, and the groups of files to read."""

    directory: str
    layout: RecordSchema
    source: FileSourceSpec
    groups: Sequence[Sequence[SourceFile]]


def sort_with_spark(spark: Any, job: SortJob, partitions: int) -> Manifest:
    """Parse and sort all groups into segments in `job.directory`.

    Returns:
        The manifest, without the number of dead letters.
    """
    groups = len(job.groups)
    schema = _spark_schema(job.layout)
    parsed = spark.range(0, groups, 1, groups).mapInArrow(_reader(job), schema)
    if job.layout.event:
        key = f"c{job.layout.position(job.layout.key)}"
        together = parsed.repartition(partitions, key).sortWithinPartitions(*_KEYS)
        parsed = together.mapInArrow(_marker(job), f"{schema}, {_AGAIN} boolean")
    in_order = parsed.repartitionByRange(partitions, *_KEYS).sortWithinPartitions(*_KEYS)
    rows = in_order.mapInArrow(_writer(job), _PARTITION).collect()
    return _in_a_row(job, [row.store for row in sorted(rows)])


def _spark_schema(layout: RecordSchema) -> str:
    """Return the columns for Spark, named by place, as its names ignore case; times are µs."""
    columns = [f"c{i} {_SPARK_TYPES[kind]}" for i, (_, kind) in enumerate(layout.columns)]
    return ", ".join([*columns, "_key bigint", "_file int", "_place bigint"])


def _marker(job: SortJob) -> Callable[[Batches], Batches]:
    """Return the task that marks duplicates among all records of some keys, in replay order."""
    layout = job.layout

    def mark(batches: Batches) -> Batches:
        events = KeptEventKeys(layout)
        for batch in batches:
            times = batch.column(layout.position(layout.time)).to_numpy()
            ticks = ticks_of(batch.column("_key").to_numpy(), layout)
            again = events.duplicates(batch.column(layout.position(layout.key)), times, ticks)
            yield batch.append_column(_AGAIN, pa.array(again))

    return mark


def _reader(job: SortJob) -> Callable[[Batches], Batches]:
    """Return the task that parses groups of files by their numbers; dead letters go to a file."""

    def read(batches: Batches) -> Batches:
        for batch in batches:
            numbers: list[Any] = batch.column(0).to_pylist()
            for number in numbers:
                yield from _read_group(job, number)

    return read


def _read_group(job: SortJob, number: int) -> Batches:
    order_keys = OrderKeys(job.layout)
    with DeadLetterWriter(dead_path(Path(job.directory), number)) as dead:
        for part in read_group(job.groups[number], job.source, job.layout):
            dead.write(part.dead)
            plain = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in part.columns]
            keys = [pa.array(order_keys.of(part)), pa.array(part.files), pa.array(part.places)]
            names = [*(f"c{i}" for i in range(len(plain))), *_KEYS]
            yield pa.RecordBatch.from_arrays([*plain, *keys], names=names)


def dead_path(directory: Path, group: int) -> Path:
    """Return the path of the dead letters of one group of files."""
    return directory / f".dead-{group:06d}.jsonl"


def _writer(job: SortJob) -> Callable[[Batches], Batches]:
    """Return the task that writes a sorted partition as a store, and yields its name and first record."""

    def write(batches: Batches) -> Batches:
        name = f".part-{uuid.uuid4().hex}"
        writer = StoreWriter(Path(job.directory) / name, job.layout.columns)
        first: list[Any] | None = None
        duplicates = 0
        for batch in batches:
            if batch.num_rows:
                first = first or [batch.column(key)[0].as_py() for key in _KEYS]
                new = batch.filter(pc.invert(batch.column(_AGAIN))) if job.layout.event else batch
                duplicates += batch.num_rows - new.num_rows
                writer.append(_stored(new, job.layout))
        writer.publish(duplicates=duplicates)
        if first:
            arrays: list[Array] = [pa.array([first[0]], pa.int64()), pa.array([first[1]], pa.int32())]
            arrays += [pa.array([first[2]], pa.int64()), pa.array([name])]
            yield pa.RecordBatch.from_arrays(
                arrays, names=["first_key", "first_file", "first_place", "store"]
            )

    return write


def _stored(batch: pa.RecordBatch, layout: RecordSchema) -> pa.RecordBatch:
    """Return sorted records in the form of the store."""
    schema = layout.schema.append(pa.field(TICK, pa.int64()))
    ticks = ticks_of(batch.column("_key").to_numpy(), layout)
    columns = [batch.column(i).cast(schema.types[i]) for i in range(len(layout.columns))]
    return pa.RecordBatch.from_arrays([*columns, pa.array(ticks)], schema=schema)


def _in_a_row(job: SortJob, stores: Sequence[str]) -> Manifest:
    """Move the segments of all partitions into one folder, and renumber them and their rows."""
    directory = Path(job.directory)
    segments: list[Segment] = []
    rows = duplicates = 0
    for store in stores:
        manifest = read_manifest(directory / store)
        assert manifest is not None, "a partition is published when its task is done"
        duplicates += manifest.duplicates
        for segment in manifest.segments:
            old, new = directory / store / segment.file, directory / segment_name(len(segments))
            index = np.load(ticks_path(old))
            index[:, 1] += rows + segment.rows - index[-1, 1]  # the last one counts all rows up to here
            ticks_seal = write_index(new, index)
            old.replace(new)
            segments.append(replace(segment, file=new.name, ticks_seal=ticks_seal))
            rows += segment.rows
        shutil.rmtree(directory / store)
    return Manifest(job.layout.columns, tuple(segments), complete=True, duplicates=duplicates)
