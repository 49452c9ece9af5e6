"""Chunks: the only data in Spark. Each row addresses a packed payload to a slot and a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from functools import partial
from typing import Any, NamedTuple, TypeVar

import orjson
import pyarrow as pa
from msgspec import json, to_builtins

T = TypeVar("T")


class ChunkKind(StrEnum):
    """The kinds of chunks.

    A query kind that merges answers has two more, see `stqsh.core.output.partials`.
    """

    # From the source to the slots.
    CLOCK = "clock"
    """The steps of the batch and the engine's progress: JSON. One per batch and slot."""
    LOOKUP = "lookup"
    """Keys whose last records are requested: a JSON list."""
    ASK = "ask"
    """Snapshot questions: a JSON list."""
    TABLE_DEFINE = "table_define"
    """A new table: its JSON spec. The table's id replaces the stream's."""
    TABLE = "table"
    """Rows of a table: a record batch."""
    TABLE_DROP = "table_drop"
    """The end of a table: an empty JSON object."""
    AREA_DEFINE = "area_define"
    """A new area: a record batch [member, wkb]. The area's id replaces the stream's."""
    AREA_DROP = "area_drop"
    """The end of an area: an empty JSON object."""
    DEFINE = "define"
    """A new stream: its JSON spec."""
    COMMANDS = "commands"
    """Commands about queries and shedding: a JSON list."""
    REGISTER_ALIKE = "register_alike"
    """New queries of one pattern, see `stqsh.core.queries.registrations`."""
    RELEASE = "release"
    """The ids of queries in whose regions a slot has no records after the batch: a JSON list."""
    RECORDS = "records"
    """A slot's own records: a record batch with `_step` and `_hash`, and `_role` where objects cross."""
    FOCAL = "focal"
    """Records of focal objects, for every slot: in the form of `RECORDS`."""
    SIZES = "sizes"
    """The bytes of a slice's records, for every slot of a stream that keeps a size: a record batch.

    See `stqsh.core.objects.kept_sizes`.
    """

    # From the source to the copy by key of a stream on the slots, see `stqsh.core.keyed_copy`.
    COPY_BEGIN = "keyed/begin"
    """The beginning of the copy: an empty JSON object."""
    COPY_END = "keyed/end"
    """The end of the copy, after the batch: an empty JSON object."""
    COPY_SEEDS = "keyed/seeds"
    """The last records of all objects before the copy began: in the form of `RECORDS`."""
    COPY_RECORDS = "keyed/records"
    """The records of the copy's objects on the slot: in the form of `RECORDS`, without roles."""

    # To and from the dealer of a stream that is routed by space, see `stqsh.engine.ingest.dealer`.
    DEAL_ORDER = "deal/order"
    """The dealer's order for a batch: a JSON `DealOrder`. From the source."""
    DEAL_END = "deal/end"
    """The end of a dropped stream's dealer, where one operator has all dealers: an empty JSON object."""
    DEAL_RECORDS = "deal/records"
    """Records of a live stream, by key: in the form of `RECORDS`, without roles. From the source."""
    DEAL_SIZES = "deal/sizes"
    """The same for every dealer of the stream, in the form of `SIZES`."""
    DEAL_SEND = "deal/send"
    """An order to the slots to send the last records of all objects: an empty JSON object."""
    DEAL_SEEDS = "deal/seeds"
    """These records: a record batch of the declared columns with `_step` and `_hash`. From the slots.

    For events, the keys that are kept, and the counts of a stream that keeps a number of bytes.
    """

    # From the slots to Deliver.
    TAKEN = "taken"
    """A task's counts of a live stream's messages, and dead letters: JSON. From the source to Deliver."""
    SIFTED = "sifted"
    """The numbers of a slice's records sent and not sent to a slot: JSON. Bypasses the slot."""
    ROWS = "rows"
    """The rows to which updates refer: a record batch of the stream's declared columns."""
    UPDATES = "updates"
    """Updates: a record batch of the schema `UPDATES`."""
    COUNTS = "counts"
    """The growth of answers: a record batch of the schema `COUNTS`."""
    NOTICE = "notice"
    """Events in the life of queries: a JSON list."""
    FOUND = "found"
    """The last records of looked-up keys: a record batch."""
    ANSWER = "answer"
    """A slot's share of a snapshot's answer: a record batch. `order.number` is the question's number."""
    ARCHIVED = "archived"
    """Events that are no longer kept, of a stream with an archive: a record batch of its declared columns."""
    STATS = "stats"
    """A slot's statistics for the batch: JSON."""
    TIMING = "timing"
    """The split of a task's time: JSON."""


COPY_COMMANDS = "keyed/"
"""The prefix of kinds of chunks with commands to the copy by key, followed for example by `COMMANDS`."""
COPY_OLDER = "keyed/older/"
"""The prefix of kinds of chunks with queries that move to the copy by key."""

ROLE = "_role"
"""The column with the `RecordRole` (int8) in records of a moving stream that is routed by space."""


class RecordRole(IntEnum):
    """The role of a record on its slot, for streams whose objects cross between slots."""

    REGULAR = 0
    """The object is on this slot from this record on."""
    DEPARTED = 1
    """The object leaves this slot: this record and later ones belong to another slot."""
    PREVIOUS = 2
    """The object's record before the step, from its old slot; sent to the new slot with the crossing."""
    STALE = 3
    """Older than the previous record of its key; only counted."""


FOR_DELIVER = (ChunkKind.TIMING, ChunkKind.TAKEN, ChunkKind.SIFTED)
"""The kinds that the source and dealers send to Deliver, bypassing the slots."""


class Phase(IntEnum):
    """The order in which chunks of one stream and batch take effect."""

    DEFINE = 0
    LOOKUP = 1
    SNAPSHOT = 2
    COMMANDS = 3
    SEEDS = 4
    RECORDS = 5
    EVALUATED = 6
    """Made by Evaluate."""
    MERGED = 7
    """Made by Aggregate."""


class ChunkOrder(NamedTuple):
    """The position of a chunk among those of one stream and batch; compares in reading order.

    Attributes:
        phase: see `Phase`.
        piece: the slice of the store with the records, or the piece of the batch from which Evaluate made the
            chunk.
        number: a sequence number.
        sender: the slot that sent the chunk to another one.
    """

    phase: int = Phase.DEFINE
    piece: int = 0
    number: int = 0
    sender: int = 0


_CHUNK_TYPES: list[tuple[str, pa.DataType]] = [
    ("slot", pa.int32()),
    ("stream", pa.int32()),
    ("kind", pa.string()),
    ("phase", pa.int32()),
    ("piece", pa.int32()),
    ("number", pa.int64()),
    ("sender", pa.int32()),
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
"""Payload of kind "updates"; integers may be stored in fewer bytes, see `stqsh.spec.narrow_columns`.

`row` is an index into the "rows" of the same slot, stream and order.
"""

KEY_COLUMN = b"key"
"""The metadata entry of "rows" with their key column; records of a stream have none."""

DICTIONARY_ROWS = 4
"""The minimum number of rows per value for a dictionary to stay in a payload, see `decoded`."""

COUNTS = pa.schema([("query", pa.int64()), ("delta", pa.int64())])
"""Payload of kind "counts": the growth of each query's answer on one slot; Deliver sums it."""

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
    """One packed payload and its address: the columns of `CHUNK`, of which four form `order`.

    Attributes:
        slot: index 0 .. n-1.
        stream: the stream's id, 0 for the whole slot.
        kind: a `ChunkKind`, or a query kind's own.
        order: its position in the batch.
        first_step: the first step of its rows.
        last_step: the last step of its rows.
        payload: the bytes that `content` unpacks; b"" if there is a batch.
        batch: the content itself, if the chunk never leaves its process.
    """

    slot: int
    stream: int
    kind: str
    order: ChunkOrder
    first_step: int
    last_step: int
    rows: int
    payload: bytes
    batch: pa.RecordBatch | None = None

    @property
    def content(self) -> pa.RecordBatch:
        """The chunk's record batch."""
        return unpack(self.payload) if self.batch is None else self.batch

    def packed(self) -> Chunk:
        """Return the chunk with its content as a payload."""
        return self if self.batch is None else replace(self, payload=pack(self.batch), batch=None)


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type of a column type of a stream's spec.

    Raises:
        ValueError: no such type.
    """
    try:
        return _ARROW_TYPES[name]
    except KeyError:
        raise ValueError(f"no column type {name!r}; there are {', '.join(_ARROW_TYPES)}") from None


def columns_schema(columns: Iterable[Iterable[str]]) -> pa.Schema:
    """Return the Arrow schema of a stream's declared columns, `[[name, type], ...]`."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in columns])


def to_table(chunks: list[Chunk]) -> pa.Table:
    """Return chunks as rows of the schema `CHUNK`, in the given order."""
    columns = chunk_columns(chunks)
    arrays = [pa.array(columns[field.name], field.type) for field in CHUNK]
    return pa.Table.from_arrays(arrays, schema=CHUNK)


def chunk_columns(chunks: Sequence[Chunk]) -> dict[str, list[Any]]:
    """Return chunks as the columns of `CHUNK`, by name."""
    orders = list(zip(*(chunk.order for chunk in chunks), strict=True)) or [()] * len(ChunkOrder._fields)
    columns = {name: list(values) for name, values in zip(ChunkOrder._fields, orders, strict=True)}
    for name in CHUNK.names:
        if name not in columns:
            columns[name] = [getattr(chunk, name) for chunk in chunks]
    return {name: columns[name] for name in CHUNK.names}


def chunks_of_columns(columns: Iterable[Sequence[Any]]) -> Iterator[Chunk]:
    """Yield the chunks whose columns, in the order of `CHUNK`, are given."""
    for slot, stream, kind, phase, piece, number, sender, *rest in zip(*columns, strict=True):
        yield Chunk(slot, stream, kind, ChunkOrder(phase, piece, number, sender), *rest)


def from_table(table: pa.Table | pa.RecordBatch) -> list[Chunk]:
    """Return the chunks in a table's rows; columns beyond those of `CHUNK` are ignored."""
    return list(chunks_of_columns(table.column(name).to_pylist() for name in CHUNK.names))


def in_order(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Return the chunks of one batch and slot in the order of reading: by stream, then `order`."""
    return sorted(chunks, key=lambda chunk: (chunk.stream, chunk.order))


def pack(batch: pa.RecordBatch) -> bytes:
    """Return a record batch as a self-contained Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def unpack(payload: bytes) -> pa.RecordBatch:
    """Return the record batch in a payload made by `pack`; its columns point into the payload.

    Raises:
        ValueError: the payload holds no record batch, or more than one.
    """
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        batches = list(reader)
    if len(batches) != 1:
        raise ValueError(f"a payload holds one record batch, not {len(batches)}")
    return batches[0]


def decoded(batch: pa.RecordBatch, least: int = DICTIONARY_ROWS) -> pa.RecordBatch:
    """Return a batch with plain columns in place of dictionaries that save little space.

    Args:
        batch: The batch.
        least: A dictionary stays if there are at least this many rows for each of its values; 0 for none.
    """
    for at, column in enumerate(batch.columns):
        if not pa.types.is_dictionary(column.type):
            continue
        coded: Any = column
        if not least or len(coded.dictionary) * least > len(coded):
            batch = batch.set_column(at, batch.schema.field(at).name, coded.dictionary.take(coded.indices))
    return batch


def pack_json(value: object) -> bytes:
    """Return a JSON payload of JSON values, or of typed structs."""
    return orjson.dumps(value, default=partial(to_builtins, str_keys=True))


def unpack_json(payload: bytes) -> Any:
    """Return the value in a payload made by `pack_json`."""
    return orjson.loads(payload)


def unpack_struct(payload: bytes, struct: type[T]) -> T:
    """Return the typed struct in a payload made by `pack_json`."""
    return json.decode(payload, type=struct)
