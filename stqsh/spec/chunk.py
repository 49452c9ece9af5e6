"""Chunks: the only thing that crosses Spark. One row says which slot and stream a packed payload is for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson
import pyarrow as pa

_CHUNK_TYPES: list[tuple[str, pa.DataType]] = [
    ("slot", pa.int32()),
    ("stream", pa.int32()),
    ("kind", pa.string()),
    ("part", pa.int32()),
    ("first_step", pa.int64()),
    ("last_step", pa.int64()),
    ("rows", pa.int64()),
    ("payload", pa.binary()),
]
CHUNK = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _CHUNK_TYPES])

WHY = (
    "none",
    "left",
    "overtaken",
    "disconnected",
    "gone",
    "expired",
    "changed",
    "shed",
    "dropped",
    "ended",
)
"""The meaning of the int8 codes in the column `why` of updates; 0 belongs to positive updates."""

UPDATES = pa.schema(
    [
        ("step", pa.int64()),
        ("query", pa.int64()),
        ("op", pa.int8()),
        ("why", pa.int8()),
        ("row", pa.int32()),
    ]
)
"""Payload of kind "updates"; `row` points into the "rows" of the same slot, stream and part."""

COUNTS = pa.schema([("query", pa.int64()), ("delta", pa.int64())])
"""Payload of kind "counts": by how much each query's answer grew on one slot; Deliver adds up."""

_ARROW_TYPES: dict[str, pa.DataType] = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True)
class Chunk:
    """One packed payload and where it belongs; the fields are the columns of `CHUNK`.

    slot: index 0 .. n-1. stream: id, 0 for what concerns the whole slot. part: running number that, with
    `stream`, restores the order of a batch. first_step, last_step: the steps of the rows within.
    """

    slot: int
    stream: int
    kind: str
    part: int
    first_step: int
    last_step: int
    rows: int
    payload: bytes


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a column type as spelled in a stream's spec.

    Raises:
        ValueError: no such type.
    """
    try:
        return _ARROW_TYPES[name]
    except KeyError:
        raise ValueError(f"no column type {name!r}; there are {', '.join(_ARROW_TYPES)}") from None


def columns_schema(columns: Iterable[Iterable[str]]) -> pa.Schema:
    """The Arrow schema of a stream's declared columns, `[[name, type], ...]`."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in columns])


def to_table(chunks: list[Chunk]) -> pa.Table:
    """Chunks as rows of the schema `CHUNK`, in the given order."""
    columns = [pa.array([getattr(chunk, field.name) for chunk in chunks], field.type) for field in CHUNK]
    return pa.Table.from_arrays(columns, schema=CHUNK)


def from_table(table: pa.Table | pa.RecordBatch) -> list[Chunk]:
    """The chunks in a table's rows; columns beyond those of `CHUNK` are passed over."""
    columns = [table.column(name).to_pylist() for name in CHUNK.names]
    return [Chunk(*values) for values in zip(*columns, strict=True)]


def in_order(chunks: Iterable[Chunk]) -> list[Chunk]:
    """The chunks of one batch and slot as they are to be read: by stream, then part."""
    return sorted(chunks, key=lambda chunk: (chunk.stream, chunk.part))


def pack(batch: pa.RecordBatch) -> bytes:
    """A record batch as a self-contained Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def unpack(payload: bytes) -> pa.RecordBatch:
    """The record batch within a payload made by `pack`; its columns point into the payload.

    Raises:
        ValueError: the payload holds no record batch, or more than one.
    """
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        batches = list(reader)
    if len(batches) != 1:
        raise ValueError(f"a payload holds one record batch, not {len(batches)}")
    return batches[0]


def pack_json(value: object) -> bytes:
    """A JSON payload."""
    return orjson.dumps(value, default=msgspec.to_builtins)


def unpack_json(payload: bytes) -> Any:
    """The value within a payload made by `pack_json`."""
    return orjson.loads(payload)
