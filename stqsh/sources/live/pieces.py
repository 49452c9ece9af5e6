"""Pieces: messages that were decoded ahead of the batch that takes them, one file for each run of places.

A piece holds what decoding the places `start <= place < stop` of a part always gives, so it does not matter
who made it, and a reader that lacks one decodes the messages itself. A file's name says what is in it, and
the file appears as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa

from stqsh.sources.live.protocol import MessageRange, Position
from stqsh.spec.stats import TakenMessages
from stqsh.spec.stream import StreamSpec

_TAKEN = b"taken"
_BETWEEN = "~"
_ENDING = ".piece"
_ENDING_UNFINISHED = ".unfinished"


class ReadOrder(msgspec.Struct, frozen=True):
    """What the planner orders: to read a stream from a position on.

    Attributes:
        stream: its number.
        folder: where its pieces go, below the processes' folder; a new one for each order.
        spec: the stream; None to read it no longer.
        position: the first place of each of its parts.
    """

    stream: int
    folder: str
    spec: StreamSpec | None = None
    position: Position = {}


class ReadPiece(NamedTuple):
    """A piece by its name: its number among those of its folder, and its places."""

    number: int
    held: MessageRange

    @property
    def file(self) -> str:
        """The name of its file."""
        part, start, stop = self.held
        words = (f"{self.number:010d}", quote(part, safe="").replace(_BETWEEN, "%7E"), str(start), str(stop))
        return _BETWEEN.join(words) + _ENDING


class PieceContent(NamedTuple):
    """The records of a piece, and what was taken of its messages."""

    records: pa.RecordBatch
    taken: TakenMessages


class FoundPiece(NamedTuple):
    """A piece as its file holds it: a record batch whose metadata say what was taken."""

    held: pa.RecordBatch

    @property
    def records(self) -> pa.RecordBatch:
        """The records, without the file's metadata."""
        return self.held.replace_schema_metadata()

    @property
    def taken(self) -> TakenMessages:
        """What was taken of its messages, with all their dead letters."""
        return msgspec.json.decode(self.held.schema.metadata[_TAKEN], type=TakenMessages)


def ready_file(process: int) -> str:
    """Return the name of the file that says that a process reads ahead, by its number."""
    return f"ready-{process}"


def piece_named(file: str) -> ReadPiece | None:
    """Return the piece of a file's name; None where it is none.

    >>> piece_named(ReadPiece(7, MessageRange("a~b/1", 5, 9)).file)
    ReadPiece(number=7, held=MessageRange(part='a~b/1', start=5, stop=9))
    """
    if not file.endswith(_ENDING):
        return None
    number, part, start, stop = file.removesuffix(_ENDING).split(_BETWEEN)
    return ReadPiece(int(number), MessageRange(unquote(part), int(start), int(stop)))


def write_piece(folder: Path, piece: ReadPiece, content: PieceContent) -> int:
    """Write a piece, and return its size in bytes.

    Raises:
        OSError: it cannot be written, or the folder is gone.
    """
    schema = content.records.schema.with_metadata({_TAKEN: msgspec.json.encode(content.taken)})
    unfinished = folder / f"{piece.number}{_ENDING_UNFINISHED}"
    with unfinished.open("wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(content.records.replace_schema_metadata(schema.metadata))
    size = unfinished.stat().st_size
    unfinished.rename(folder / piece.file)
    return size


def read_pieces(folder: Path, wanted: Iterable[MessageRange]) -> list[FoundPiece] | None:
    """Return the pieces that hold some ranges and nothing else, in order; None where one is missing."""
    try:
        found = [piece for each in folder.iterdir() if (piece := piece_named(each.name)) is not None]
        begun = {(piece.held.part, piece.held.start): piece for piece in found}
        chain: list[ReadPiece] = []
        for part, start, stop in wanted:
            at = start
            while at < stop:
                piece = begun.get((part, at))
                if piece is None or piece.held.stop > stop:
                    return None
                chain.append(piece)
                at = piece.held.stop
        return [_read_piece(folder / piece.file) for piece in chain]
    except FileNotFoundError:
        return None


def _read_piece(file: Path) -> FoundPiece:
    with pa.memory_map(str(file)) as mapped, pa.ipc.open_file(mapped) as reader:
        return FoundPiece(reader.get_batch(0))
