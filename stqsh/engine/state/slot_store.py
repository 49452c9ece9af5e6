"""The durable state of a slot: a snapshot of its arrays, and the log of the chunks applied since.

A batch appends its chunks to the log. When the log has grown past the snapshot, or would take long to apply
again, a new snapshot replaces both. To restore a state, load the snapshot, apply the logged batches again,
and discard their output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from stqsh.engine.config import TUNING, EngineTuning
from stqsh.errors import EngineError
from stqsh.spec.chunk import CHUNK, Chunk, from_table, to_table

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)  # payloads are one column


class StaleBatchError(EngineError):
    """A batch that comes after a slot has stored a later one: a late attempt, or older files of Spark's."""

    def __init__(self, slot: str, batch: int, stored: int) -> None:
        super().__init__(
            f"batch {batch} of slot {slot} is too late: the slot has stored batch {stored}",
            hint="if the session's folder comes from a backup, put back all of it, made while no engine ran; "
            "or DUMP what the session defines, for a new one",
        )


@dataclass(frozen=True, slots=True)
class SlotMeta:
    """The position of a slot, and what its log and snapshot cost.

    Attributes:
        version: the number of its batches.
        stamp: names this state, for the arena.
        log_bytes: the size of the log.
        snapshot_bytes: the size of the snapshot.
        replay_us: the time it took to apply what the log holds, in µs.
        snapshot_us: the time it took to write the last snapshot, in µs.
    """

    version: int = 0
    stamp: str = ""
    log_bytes: int = 0
    snapshot_bytes: int = 0
    replay_us: int = 0
    snapshot_us: int = 0

    def wants_snapshot(self, tuning: EngineTuning = TUNING) -> bool:
        """Return whether a snapshot should replace the log.

        A log mostly names records (`stqsh.engine.ingest.record_replay`), so time is usually what decides.
        """
        slow = self.replay_us > max(tuning.snapshot_replay_us, tuning.snapshot_worth * self.snapshot_us)
        return slow or self.log_bytes > max(tuning.snapshot_log_bytes, self.snapshot_bytes)


class SlotStore(Protocol):
    """The durable state of one slot of one operator.

    `stqsh.engine.state.file_store` keeps it. What is written becomes valid with the batch: a batch that is
    repeated finds the state before it.
    """

    def read_meta(self) -> SlotMeta:
        """Return the slot's position before the batch; the zero values if it has seen none.

        It is called first, with the slot's lock held.
        """

    def write_meta(self, meta: SlotMeta) -> None:
        """Write the slot's position, after everything to which it refers."""

    def append(self, version: int, chunks: list[Chunk]) -> int:
        """Append the chunks of version `version` to the log, and return their size in bytes."""

    def replace(self, version: int, pieces: Iterable[bytes]) -> int:
        """Replace log and snapshot by a snapshot of version `version`, and return its size in bytes."""

    def read_snapshot(self) -> list[memoryview]:
        """Return the pieces of the last snapshot; an empty list if there is none."""

    def read_log(self) -> Iterator[list[Chunk]]:
        """Return the chunks of each batch since the snapshot, in order."""


def pack_chunks(chunks: list[Chunk]) -> pa.Buffer:
    """Return the chunks of a batch as compressed bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, CHUNK, options=_LZ4) as writer:
        writer.write_table(to_table(chunks))
    return sink.getvalue()


def unpack_chunks(content: bytes | memoryview) -> list[Chunk]:
    """Read the chunks of a batch back."""
    [chunks] = unpack_logs(content)
    return chunks


def unpack_logs(content: bytes | memoryview) -> Iterator[list[Chunk]]:
    """Yield the chunks of each batch that `pack_chunks` has packed, one behind the other."""
    source = pa.BufferReader(pa.py_buffer(content))
    while source.tell() < source.size():
        yield from_table(pa.ipc.open_stream(source).read_all())
