"""Read a slice of a live stream in a worker: decode messages into records and dead letters."""

from __future__ import annotations

from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.checksums import DamagedFileError
from stqsh.engine.planning.tasks import LiveAccess, LiveSlice
from stqsh.sources.dead_letters import DeadLetter, letter_lines
from stqsh.sources.live.decoding import without_collections
from stqsh.sources.live.kafka_client import client_settings
from stqsh.sources.live.line_spool import SPOOL
from stqsh.sources.live.pieces import FoundPiece, read_pieces
from stqsh.sources.live.registry import close_idle_readers, is_from_kafka, read_records
from stqsh.spec.chunk import columns_schema
from stqsh.spec.stats import TakenMessages
from stqsh.spec.stream import StreamSpec
from stqsh.storage.blobs import Blobs

#: The maximum number of dead letters of a slice that are kept with their text; all are counted.
MOST_LETTERS = 10_000


class ReadSlice(NamedTuple):
    """The records of a slice, in its order, and the counts of its messages."""

    records: pa.RecordBatch
    taken: TakenMessages


def read_live(
    stream: StreamSpec, blobs: Blobs, piece: LiveSlice, access: LiveAccess, *, reports: bool = True
) -> ReadSlice:
    """Read and decode messages of a live stream, unless they were read ahead.

    Args:
        stream: the stream.
        blobs: its files in the session's storage.
        piece: what to read.
        access: how to access the source.
        reports: whether to report the counts; one of the tasks that read the same messages does.

    Raises:
        SourceError: the source does not respond, or no longer has the messages.
    """
    if piece.ahead and (found := read_pieces(Path(piece.ahead), piece.ranges)) is not None:
        close_idle_readers()
        records = _joined([each.records for each in found], stream)
        return ReadSlice(
            records, _with_latest(_taken_of(found), records, stream) if reports else TakenMessages()
        )
    batches: list[pa.RecordBatch] = []
    letters: list[DeadLetter] = []
    dead = size = 0
    with without_collections():
        spool = None if is_from_kafka(stream) else spool_of_slice(blobs, piece.spool)
        settings = partial(client_settings, profile=access.profile, sent=access.kafka)
        for decoded in read_records(stream, spool, piece.ranges, settings, skips=access.skips):
            batches.append(decoded.records)
            letters += decoded.dead[: MOST_LETTERS - len(letters)]
            dead += len(decoded.dead)
            size += decoded.size
    records = _joined(batches, stream)
    lines = letter_lines(letters).decode()
    taken = TakenMessages(records.num_rows, dead, size, lines)
    return ReadSlice(records, _with_latest(taken, records, stream))


def spool_of_slice(blobs: Blobs, published: str) -> Path:
    """Return the folder with the part of a live stream's spool for a batch.

    Args:
        blobs: the stream's files in the session's storage.
        published: the folder in which the planner published it, "" if workers read the spool itself.

    Raises:
        DamagedFileError: the folder is missing.
    """
    spool = blobs.below(SPOOL)
    if not published:
        assert spool.folder is not None, "the spool is in the home"
        return spool.folder
    copies = [spool.local(name).parent for name in spool.names(f"{published}/")]
    if not copies:
        raise DamagedFileError(f"{spool.within}{published}", "is gone")
    return copies[0]


def _with_latest(taken: TakenMessages, records: pa.RecordBatch, stream: StreamSpec) -> TakenMessages:
    """Add the latest time in the records."""
    times = records.column(stream.time).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return msgspec.structs.replace(taken, latest_us=pc.max(times).as_py())


def _taken_of(found: list[FoundPiece]) -> TakenMessages:
    """Add up the counts of pieces."""
    taken = [piece.taken for piece in found]
    lines = (line for each in taken for line in each.letters.split("\n") if line)
    return TakenMessages(
        sum(each.records for each in taken),
        sum(each.dead for each in taken),
        sum(each.bytes for each in taken),
        "".join(f"{line}\n" for line in islice(lines, MOST_LETTERS)),
    )


def _joined(batches: list[pa.RecordBatch], stream: StreamSpec) -> pa.RecordBatch:
    schema = columns_schema(stream.columns)
    table = pa.Table.from_batches(batches, schema=schema).combine_chunks()
    return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], schema)
