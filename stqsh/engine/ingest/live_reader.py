"""Reading a slice of a live stream in a worker: messages become records and dead letters."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from stqsh.engine.planning.tasks import LiveAccess
from stqsh.sources.formats.record_parser import DeadLetter
from stqsh.sources.live.protocol import MessageRange
from stqsh.sources.live.registry import read_records
from stqsh.sources.replay_store.dead_letters import letter_line
from stqsh.spec.chunk import columns_schema
from stqsh.spec.stats import TakenMessages
from stqsh.spec.stream import StreamSpec

#: So many dead letters of a slice are kept with their text; all are counted.
MOST_LETTERS = 10_000


class ReadSlice(NamedTuple):
    """The records of a slice, in its order, and what was taken."""

    records: pa.RecordBatch
    taken: TakenMessages


def read_live(
    stream: StreamSpec, directory: Path, wanted: Iterable[MessageRange], access: LiveAccess
) -> ReadSlice:
    """Read and decode messages of a live stream.

    Args:
        stream: the stream.
        directory: its folder in the session's home.
        wanted: what to read, in order.
        access: how to get at the source.

    Raises:
        SourceError: the source does not answer, or no longer has the messages.
    """
    batches: list[pa.RecordBatch] = []
    letters: list[DeadLetter] = []
    dead = size = 0
    with _without_collections():
        for found in read_records(stream, directory, wanted, access.profile, skips=access.skips):
            batches.append(found.records)
            letters += found.dead[: MOST_LETTERS - len(letters)]
            dead += len(found.dead)
            size += found.size
    records = _joined(batches, stream)
    lines = b"".join(map(letter_line, letters)).decode()
    return ReadSlice(records, TakenMessages(records.num_rows, dead, size, lines))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Keep Python's collector from looking for cycles among messages, which have none.

    It would look after every few hundred of them, and make fetching 50,000 five times as expensive.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _joined(batches: list[pa.RecordBatch], stream: StreamSpec) -> pa.RecordBatch:
    schema = columns_schema(stream.columns)
    table = pa.Table.from_batches(batches, schema=schema).combine_chunks()
    return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], schema)
