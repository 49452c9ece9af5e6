"""The durable state of a slot in Spark's state store, on clusters; Spark moves and commits it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Protocol

import pyarrow as pa

from stqsh.engine.config import TUNING, EngineTuning
from stqsh.engine.state.slot_store import SlotMeta, pack_chunks, unpack_chunks
from stqsh.spec.chunk import Chunk


class ValueState(Protocol):
    """The part of Spark's ValueState that is used."""

    def get(self) -> tuple[Any, ...] | None: ...  # noqa: D102
    def update(self, newValue: tuple[Any, ...]) -> None: ...  # noqa: D102


class ListState(Protocol):
    """The part of Spark's ListState that is used."""

    def get(self) -> Iterator[tuple[Any, ...]]: ...  # noqa: D102
    def appendValue(self, newState: tuple[Any, ...]) -> None: ...  # noqa: D102
    def appendList(self, newState: list[tuple[Any, ...]]) -> None: ...  # noqa: D102
    def clear(self) -> None: ...  # noqa: D102


class SparkStore:
    """The three variables of one slot in the state store; a `SlotStore`."""

    def __init__(
        self, meta: ValueState, log: ListState, snapshot: ListState, tuning: EngineTuning = TUNING
    ) -> None:
        self._meta, self._log, self._snapshot, self._tuning = meta, log, snapshot, tuning

    def read_meta(self) -> SlotMeta:
        """Return the slot's position; the zero values if it has seen no batch."""
        row = self._meta.get()
        return SlotMeta(*row) if row is not None else SlotMeta()

    def write_meta(self, meta: SlotMeta) -> None:
        """Write the slot's position."""
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
        """Append the chunks of batch `version` to the log, and return their size in bytes."""
        content = pack_chunks(chunks)
        self._log.appendList(cut_pieces(version, content, self._tuning.state_piece_bytes))
        return content.size

    def replace(self, version: int, pieces: Iterable[bytes]) -> int:
        """Replace log and snapshot by a snapshot after batch `version`, and return its size in bytes."""
        self._snapshot.clear()
        size = 0
        for piece in pieces:
            self._snapshot.appendValue((version, piece))
            size += len(piece)
        self._log.clear()
        return size

    def read_snapshot(self) -> list[bytes]:
        """Return the pieces of the last snapshot; an empty list if there is none."""
        return [bytes(piece) for _, piece in self._snapshot.get()]

    def read_log(self) -> Iterator[list[Chunk]]:
        """Return the chunks of each batch since the snapshot, in order."""
        for _, content in join_pieces(self._log.get()):
            yield unpack_chunks(content)


def cut_pieces(entry: int, content: pa.Buffer, piece_bytes: int) -> list[tuple[int, bytes]]:
    """Cut bytes into pieces of at most `piece_bytes`; `entry` distinguishes neighbours."""
    return [
        (entry, content.slice(start, min(piece_bytes, content.size - start)).to_pybytes())
        for start in range(0, content.size, piece_bytes)
    ]


def join_pieces(pieces: Iterator[tuple[Any, ...]]) -> Iterator[tuple[int, bytes]]:
    """Join the pieces of each entry; yield the entry and its bytes."""
    for entry, some in groupby(pieces, key=lambda piece: int(piece[0])):
        yield entry, b"".join(bytes(piece[1]) for piece in some)
