"""A slot's truth in Spark's state store: a snapshot of its arrays, and the log of the chunks applied since.

A batch appends its chunks to the log. When the log has grown past the snapshot, or would take long to apply
again, a new snapshot replaces both. Restoring is: load the snapshot, apply the logged batches again, discard
what they send.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

import pyarrow as pa

from stqsh.core.chunks import CHUNK, Chunk, from_table, to_table

#: Values of the state store are cut into pieces of this size.
PIECE_BYTES = 4 << 20
#: A log smaller than this is never worth a snapshot ...
LOG_BYTES = 32 << 20
#: ... unless it takes longer than this to apply again, and than so many snapshots take to write. Most of what
#: a log holds are names of records (`stqsh.engine.again`), so time decides: a slot of 500 000 objects is back
#: within 10 s, and its snapshots (some 0.5 s each) cost a tenth of what the kernels do, 3 % of a batch.
REPLAY_US = 5_000_000
SNAPSHOT_WORTH = 10

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


class Value(Protocol):
    """The part of Spark's ValueState that is used."""

    def get(self) -> tuple[Any, ...] | None: ...  # noqa: D102
    def update(self, newValue: tuple[Any, ...]) -> None: ...  # noqa: D102


class Pieces(Protocol):
    """The part of Spark's ListState that is used."""

    def get(self) -> Iterator[tuple[Any, ...]]: ...  # noqa: D102
    def appendValue(self, newState: tuple[Any, ...]) -> None: ...  # noqa: D102
    def appendList(self, newState: list[tuple[Any, ...]]) -> None: ...  # noqa: D102
    def clear(self) -> None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Meta:
    """Where a slot stands.

    `version` counts its batches; `stamp` names this very state, for the arena; then the bytes of log and
    snapshot, the time it took to apply what the log holds, and the time that the last snapshot took to write
    (µs).
    """

    version: int = 0
    stamp: str = ""
    log_bytes: int = 0
    snapshot_bytes: int = 0
    replay_us: int = 0
    snapshot_us: int = 0

    def wants_snapshot(self) -> bool:
        """Say whether the log has grown past its use."""
        slow = self.replay_us > max(REPLAY_US, SNAPSHOT_WORTH * self.snapshot_us)
        return slow or self.log_bytes > max(LOG_BYTES, self.snapshot_bytes)


class SlotStore:
    """The three variables of one slot in the state store."""

    def __init__(self, meta: Value, log: Pieces, snapshot: Pieces) -> None:
        self._meta, self._log, self._snapshot = meta, log, snapshot

    def read_meta(self) -> Meta:
        """Give where the slot stands; the zero values for one that has seen no batch."""
        row = self._meta.get()
        return Meta(*row) if row is not None else Meta()

    def write_meta(self, meta: Meta) -> None:
        """Put down where the slot stands."""
        self._meta.update(
            (
                meta.version,
                meta.stamp,
                meta.log_bytes,
                meta.snapshot_bytes,
                meta.replay_us,
                meta.snapshot_us,
            )
        )

    def append(self, version: int, chunks: list[Chunk]) -> int:
        """Append the chunks of batch `version` to the log; give how many bytes that took."""
        content = pack_chunks(chunks)
        self._log.appendList(cut(version, content))
        return content.size

    def replace(self, version: int, pieces: Iterable[bytes]) -> int:
        """Put a snapshot after batch `version` in the place of log and snapshot; give its bytes."""
        self._snapshot.clear()
        size = 0
        for piece in pieces:
            self._snapshot.appendValue((version, piece))
            size += len(piece)
        self._log.clear()
        return size

    def read_snapshot(self) -> list[bytes]:
        """Give the pieces of the last snapshot, none where there has been none."""
        return [bytes(piece) for _, piece in self._snapshot.get()]

    def read_log(self) -> Iterator[list[Chunk]]:
        """Give the chunks of each batch since the snapshot, in order."""
        for _, content in joined(self._log.get()):
            yield unpack_chunks(content)


def pack_chunks(chunks: list[Chunk]) -> pa.Buffer:
    """Give the chunks of a batch as compressed bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, CHUNK, options=_LZ4) as writer:
        writer.write_table(to_table(chunks))
    return sink.getvalue()


def unpack_chunks(content: bytes) -> list[Chunk]:
    """Read the chunks of a batch back."""
    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        return from_table(reader.read_all())


def cut(entry: int, content: pa.Buffer) -> list[tuple[int, bytes]]:
    """Cut bytes into pieces that the state store can hold; `entry` tells neighbours apart."""
    return [
        (entry, content.slice(start, min(PIECE_BYTES, content.size - start)).to_pybytes())
        for start in range(0, content.size, PIECE_BYTES)
    ]


def joined(pieces: Iterator[tuple[Any, ...]]) -> Iterator[tuple[int, bytes]]:
    """Put pieces together again."""
    for entry, some in groupby(pieces, key=lambda piece: int(piece[0])):
        yield entry, b"".join(bytes(piece[1]) for piece in some)
