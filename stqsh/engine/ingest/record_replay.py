"""Record replay: slot logs refer to rows of replay stores instead of holding the records.

A replay store is as durable as a log: it is in the session's home, and its rows never change once they are
published. So the log of a batch names the task's slice (stream, rows, steps), and recovery reads the slice
with the same task code, including routing. The log holds all other chunks in full, for example commands and
looked-up records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import orjson

from stqsh import routing
from stqsh.engine.ingest.stream_routing import StreamRouting
from stqsh.engine.ingest.task_reader import CHUNK_RECORDS, record_chunks
from stqsh.engine.planning.tasks import SourceTask, StreamSlice
from stqsh.errors import EngineError
from stqsh.spec.chunk import Chunk, ChunkKind, ChunkOrder, Phase, unpack_struct
from stqsh.spec.clock import DealOrder
from stqsh.spec.payload_refs import Reference, reference_in
from stqsh.spec.region import Key
from stqsh.spec.stream import FileSourceSpec, StreamSpec
from stqsh.storage.blobs import Blobs
from stqsh.storage.stream_routes import INITIAL

#: The readable versions of references and of the cutting of slices into chunks. A slot's records of a slice
#: are in chunks of CHUNK_RECORDS, or in one chunk, depending on the version.
FORMAT, WHOLE = 3, 4
_OTHER_VERSION = "open the session with that version; or DUMP what it defines, for a new one"


class RecordReplayError(EngineError):
    """A slot's log refers to records that can no longer be read."""


class StreamColumns(msgspec.Struct, frozen=True):
    """The columns of a stream that the task code needs.

    Older versions did not record the column of times, nor the column of texts.
    """

    key: str
    x: str
    y: str
    time: str = ""
    text: str | None = None


class SliceReference(msgspec.Struct, frozen=True, kw_only=True):
    """The slice from which a chunk can be remade, as stored in logs.

    Attributes:
        format: the version of references and of the cutting of slices into chunks.
        routing: the lowest version of the routing that can deal the records again.
        route: the number of the stream's routing; older versions had only the initial one.
        dealt: the routings that dealt the rows, None if no objects cross.
        copied: whether the stream has a copy by key.
        dealing: whether the stream's records go to a dealer.
        sifted: whether records of no use to the slot may have been left out; replay includes all of them.
        task: the number of slots, the first and last step, and the tick of step 1.
        stream: the stream's columns.
        slice: the stream, the rows from and to, the index of the slice, and its focal keys.
    """

    format: tuple[int, int]
    routing: int
    route: int = INITIAL
    dealt: tuple[tuple[int, int], ...] | None = None
    copied: bool = False
    dealing: bool = False
    sifted: bool = False
    task: tuple[int, int, int, int]
    stream: StreamColumns
    slice: tuple[int, int, int, int, tuple[Key, ...]]


def replay_reference(task: SourceTask, chunk: Chunk) -> Any:
    """Return the JSON from which a task's chunk can be remade; None if it is not part of a slice."""
    if chunk.order.phase != Phase.RECORDS or task.streams[chunk.stream].is_live:
        return None  # logs hold records of live streams in full, because sources may delete them
    [piece] = [
        piece for piece in task.slices if (piece.stream_id, piece.index) == (chunk.stream, chunk.order.piece)
    ]
    stream = task.streams[piece.stream_id]
    reference = SliceReference(
        format=(WHOLE if task.is_whole(piece.stream_id) else FORMAT, CHUNK_RECORDS),
        routing=_version(task, piece.stream_id),
        route=task.routes.get(piece.stream_id, (INITIAL,))[-1],
        dealt=task.dealt.get(piece.stream_id),
        copied=piece.stream_id in task.copied,
        dealing=piece.stream_id in task.dealing,
        sifted=task.is_sifted(piece.stream_id),
        task=(task.slots, task.first_step, task.last_step, task.base_tick),
        stream=StreamColumns(stream.key, stream.x, stream.y, stream.time, stream.text),
        slice=(piece.stream_id, piece.start, piece.stop, piece.index, piece.focal),
    )
    return msgspec.to_builtins(reference)


def _version(task: SourceTask, stream: int) -> int:
    """Return the lowest version of the routing that can deal a stream's records again."""
    if task.is_sifted(stream):
        return routing.VERSION
    if stream in task.dealing:
        return routing.UNSIFTED
    if stream in task.copied:
        return routing.UNDEALT
    return routing.UNCOPIED if stream in task.dealt else routing.UNCROSSED


def shorten_read(task: SourceTask, chunk: Chunk, least: int) -> Chunk:
    """Return a chunk that a task has read, in the form that a log stores.

    Args:
        task: the task.
        chunk: the chunk, with its content.
        least: smaller payloads (bytes) are kept as they are.
    """
    size = len(chunk.payload) if chunk.batch is None else chunk.batch.nbytes
    again = replay_reference(task, chunk) if size >= least else None
    return chunk.packed() if again is None else _named(chunk, again)


def shorten_for_log(chunk: Chunk, content: Chunk) -> Chunk:
    """Return a chunk in the form that a log stores: a reference from which to remake it, else its content.

    Args:
        chunk: the chunk as received, perhaps a reference.
        content: the same chunk with its content.
    """
    reference = reference_in(chunk.payload)
    if reference is None or reference.again is None:
        return content
    return _named(chunk, reference.again)


def _named(chunk: Chunk, again: Any) -> Chunk:
    """Return a chunk that holds only the JSON from which it can be remade."""
    return replace(chunk, payload=Reference("", 0, 0, again).packed(), batch=None)


def first_rows(logged: Iterable[Chunk]) -> dict[int, int]:
    """Return what a log refers to, by the number of its row in the control log.

    For a stream it is the first row that the stream's store must keep, for a routing 0.
    """
    first: dict[int, int] = {}
    for chunk in logged:
        reference = reference_in(chunk.payload)
        if reference is not None and reference.again is not None:
            stream, start, *_ = reference.again["slice"]
            first[stream] = min(start, first.get(stream, start))
            first |= dict.fromkeys(_routes_in(reference.again), 0)
        elif chunk.kind == ChunkKind.DEAL_ORDER:
            first[unpack_struct(chunk.payload, DealOrder).route] = 0
    first.pop(INITIAL, None)
    return first


def _routes_in(again: Mapping[str, Any]) -> Iterator[int]:
    """Yield the numbers of the routings that deal a slice's records again."""
    yield again.get("route", INITIAL)
    for route, _ in again.get("dealt") or ():
        yield route


def replay_records(blobs: Blobs, logged: list[Chunk]) -> list[Chunk]:
    """Return a logged batch's chunks, with references resolved from the stores in blobs.

    Raises:
        RecordReplayError: another version of the task code wrote the log, or the store has changed.
    """
    names = [
        (chunk, None if (found := reference_in(chunk.payload)) is None else found.again) for chunk in logged
    ]
    slices = {orjson.dumps(again): again for _, again in names if again is not None}
    slots = sorted({chunk.slot for chunk, again in names if again is not None})
    made = {name: _index_chunks(_chunks(blobs, again, slots)) for name, again in slices.items()}
    return [
        chunk if again is None else _find_chunk(chunk, again, made[orjson.dumps(again)])
        for chunk, again in names
    ]


def _index_chunks(made: Iterable[Chunk]) -> dict[tuple[str, ChunkOrder, int], Chunk]:
    return {(chunk.kind, chunk.order, chunk.slot): chunk for chunk in made}


def _find_chunk(chunk: Chunk, again: Any, made: dict[tuple[str, ChunkOrder, int], Chunk]) -> Chunk:
    found, may_be_more = made.get((chunk.kind, chunk.order, chunk.slot)), again.get("sifted", False)
    if found is None or found.rows < chunk.rows or (found.rows > chunk.rows and not may_be_more):
        raise RecordReplayError(
            f"chunk {chunk.order.number} of slice {chunk.order.piece} of stream {chunk.stream} "
            f"has {found and found.rows} rows, not {chunk.rows}: "
            "the session's folder streams/ has been changed",
            hint="restore the folder, or DUMP the session's definitions and start a new session",
        )
    return found


def _chunks(blobs: Blobs, again: Any, wanted: list[int]) -> Iterator[Chunk]:
    if again.get("format") not in ([FORMAT, CHUNK_RECORDS], [WHOLE, CHUNK_RECORDS]):
        raise RecordReplayError(
            "the session's state was written by another version of stqsh", hint=_OTHER_VERSION
        )
    found = msgspec.convert(again, SliceReference)
    if not routing.UNCROSSED <= found.routing <= routing.VERSION:
        raise RecordReplayError(
            f"the session's state names records by routing {found.routing}, which this version does not know",
            hint=_OTHER_VERSION,
        )
    piece = StreamSlice(*found.slice)
    stream, (slots, first, last, base_tick) = piece.stream_id, found.task
    spec = StreamSpec(name="", columns=(), source=FileSourceSpec(""), **msgspec.structs.asdict(found.stream))
    task = SourceTask(
        blobs,
        slots,
        {stream: spec},
        first,
        last,
        base_tick,
        None,
        (piece,),
        folds=found.format[0] == WHOLE,
        routes={stream: (found.route,)},
        dealt={} if found.dealt is None else {stream: found.dealt},
        copied=(stream,) if found.copied else (),
        dealing=(stream,) if found.dealing else (),
    )
    return record_chunks(task, piece, wanted, StreamRouting(task))
