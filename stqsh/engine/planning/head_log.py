"""The part of the control log that the tasks of a batch need: the planner reads it once, workers never.

It is sent with the batch's head, as rows of the log and as payloads of commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec
import pyarrow as pa
from msgspec import Struct, msgpack
from msgspec.structs import replace

from stqsh.engine.ingest.slot_commands import packed_commands
from stqsh.routing.query_routing import MemberBoxes
from stqsh.spec.chunk import ChunkKind
from stqsh.spec.clock import Attachment
from stqsh.spec.command import PauseCommand, RegisterCommand, unpack_commands
from stqsh.spec.log import (
    LogKind,
    QueryAltered,
    QueryBlock,
    QueryDropped,
    QueryPaused,
    QueryResumed,
    decode_entry,
)
from stqsh.spec.query import QuerySpec
from stqsh.spec.query_rows import QueryRows, unpack_query_rows
from stqsh.spec.region import NamedRegionSpec, Region
from stqsh.storage.attachments import decoded_once
from stqsh.storage.blobs import Blobs
from stqsh.storage.control_log import ControlDb
from stqsh.storage.progress import steps_taken
from stqsh.storage.queries.living_queries import LivingQueries
from stqsh.storage.rows import LogRow

Packed: TypeAlias = "tuple[tuple[str, bytes], ...]"
"""Commands in the form that `packed_commands` yields."""

DEFINING: tuple[LogKind, ...] = ("create_table", "create_area")
TAKEN: tuple[LogKind, ...] = (
    "create_stream",
    "drop_stream",
    "drop_table",
    "drop_area",
    "register",
    "register_alike",
    "drop",
    "pause_query",
    "resume_query",
    "alter_query",
    "found",
    "memory",
)
"""The kinds of rows that slots apply, besides definitions of tables and areas."""


class LoggedRow(Struct, frozen=True, array_like=True):
    """A row of the log in its stored form, without the statement."""

    seq: int
    kind: LogKind
    spec: str
    payload: bytes | None

    def row(self) -> LogRow:
        """Return the row."""
        return LogRow(self.seq, 0, decode_entry(self.kind, self.spec), "", self.payload)


class _Packed(Struct, frozen=True):
    """The serialized form of a `HeadLog`."""

    defined: tuple[LoggedRow, ...]
    taken: tuple[LoggedRow, ...]
    before: dict[int, Packed]
    after: dict[int, Packed]
    areas: dict[int, MemberBoxes]


class HeadLog(Struct, frozen=True):
    """A batch's part of the control log, decoded.

    Attributes:
        defined: rows that define tables and areas.
        taken: the other rows that slots apply.
        before: the queries alive before the batch, by stream, if slots or copies may have to add them.
        after: the queries alive after its commands, by stream, if slots may forget some.
        areas: the boxes of the areas that queries use.
    """

    defined: Sequence[LogRow] = ()
    taken: Sequence[LogRow] = ()
    before: Mapping[int, LivingQueries] = {}
    after: Mapping[int, LivingQueries] = {}
    areas: Mapping[int, MemberBoxes] = {}


NOTHING = HeadLog()
_PACKED = msgpack.Decoder(_Packed)


def read_rows(control: ControlDb, span: tuple[int, int], kinds: Sequence[LogKind]) -> tuple[LoggedRow, ...]:
    """Return the rows `first < seq <= last` of the log that are of some kinds."""
    first, last = span
    if first >= last:
        return ()
    marks = ", ".join("?" * len(kinds))
    rows = control.query(
        f"SELECT seq, kind, spec, payload FROM log WHERE seq > ? AND seq <= ? AND kind IN ({marks})"
        " ORDER BY seq",
        first,
        last,
        *kinds,
    )
    return tuple(LoggedRow(*row) for row in rows)


def with_steps(control: ControlDb, rows: tuple[LoggedRow, ...], first: int) -> tuple[LoggedRow, ...]:
    """Return the rows of a batch; set the registration step of the query in ALTER rows.

    A repeated batch may have recorded its steps already; the result is the same.
    """
    if not any(row.kind == "alter_query" for row in rows):
        return rows
    step_of = steps_taken(control)
    return tuple(_with_step(row, step_of, first) if row.kind == "alter_query" else row for row in rows)


def _with_step(row: LoggedRow, step_of: Callable[[int], int | None], first: int) -> LoggedRow:
    entry = decode_entry(row.kind, row.spec)
    assert isinstance(entry, QueryAltered), "the row alters a query"
    step = step_of(entry.id)
    known = step is not None and step < first
    return replace(row, spec=msgspec.json.encode(replace(entry, step=step if known else None)).decode())


def stream_of(row: LoggedRow) -> int | None:
    """Return the stream whose queries a row changes, None if it changes none."""
    entry = decode_entry(row.kind, row.spec)
    if isinstance(entry, QuerySpec | QueryBlock | QueryDropped | QueryPaused | QueryResumed | QueryAltered):
        return entry.stream_id
    return None


def pack_head_log(
    defined: tuple[LoggedRow, ...],
    taken: tuple[LoggedRow, ...],
    before: Mapping[int, LivingQueries],
    after: Mapping[int, LivingQueries],
    boxes: Callable[[int], MemberBoxes],
) -> bytes:
    """Return a batch's part of the log as bytes, b"" if it is empty.

    Args:
        defined, taken, before, after: as for `HeadLog`.
        boxes: returns the boxes of an area's members by its id.
    """
    if not (defined or taken or before or after):
        return b""
    living = [one for some in (before, after) for queries, _ in some.values() for one in queries]
    areas = {area: boxes(area) for area in _areas(_regions(taken, living))}
    known, left = ({stream: _pack(queries) for stream, queries in some.items()} for some in (before, after))
    return msgpack.encode(_Packed(defined, taken, known, left, areas))


def read_head_log(blobs: Blobs, attachment: Attachment | None) -> HeadLog:
    """Return a batch's part of the log.

    Raises:
        DamagedFileError: its blob is missing or damaged.
    """
    return NOTHING if attachment is None else decoded_once(blobs, attachment, _decode)


def _decode(content: pa.Buffer) -> HeadLog:
    found = _PACKED.decode(memoryview(content))
    return HeadLog(
        [row.row() for row in found.defined],
        [row.row() for row in found.taken],
        {stream: _unpack(queries) for stream, queries in found.before.items()},
        {stream: _unpack(queries) for stream, queries in found.after.items()},
        found.areas,
    )


def _pack(living: LivingQueries) -> Packed:
    return tuple(packed_commands([*living.queries, *living.paused]))


def _unpack(packed: Packed) -> LivingQueries:
    living = LivingQueries([], [])
    for kind, payload in packed:
        if kind == ChunkKind.REGISTER_ALIKE:
            living.queries.append(unpack_query_rows(payload))
            continue
        for command in unpack_commands(payload):
            if isinstance(command, PauseCommand):
                living.paused.append(command)
            else:
                assert isinstance(command, RegisterCommand), "these are queries"
                living.queries.append(command)
    return living


def _regions(taken: Iterable[LoggedRow], living: Iterable[RegisterCommand | QueryRows]) -> Iterable[Region]:
    """Yield the regions of queries, one for queries of the same template."""
    for row in taken:
        if row.kind in ("register", "register_alike", "alter_query") and '"area"' in row.spec:
            entry = decode_entry(row.kind, row.spec)
            if isinstance(entry, QueryBlock):
                yield entry.example.region
            elif isinstance(entry, QuerySpec):
                yield entry.region
            elif isinstance(entry, QueryAltered):
                yield entry.query.region
    for one in living:
        yield (one.query if isinstance(one, RegisterCommand) else one.pattern).region


def _areas(regions: Iterable[Region]) -> list[int]:
    """Return the areas that regions use, each once."""
    return sorted({region.area for region in regions if isinstance(region, NamedRegionSpec)})
