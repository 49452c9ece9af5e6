"""Pieces: messages decoded ahead of the batch that takes them, one file for each run of places.

A piece contains exactly what decoding the places `start <= place < stop` of a part always gives. So it does
not matter which process made it, and a reader without a piece decodes the messages itself. A file's name
describes its content, and the file appears atomically.
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
    """An order from the planner to read a stream from a position on.

    Attributes:
        stream: the stream's number.
        folder: the folder for its pieces, below the processes' folder; each order has a new one.
        spec: the stream; None to stop reading it.
        position: the first place of each part.
    """

    stream: int
    folder: str
    spec: StreamSpec | None = None
    position: Position = {}


class ReadPiece(NamedTuple):
    """The identity of a piece: its number within its folder, and its places."""

    number: int
    held: MessageRange

    @property
    def file(self) -> str:
        """The name of its file."""
        part, start, stop = self.held
        words = (f"{self.number:010d}", quote(part, safe="").replace(_BETWEEN, "%7E"), str(start), str(stop))
        return _BETWEEN.join(words) + _ENDING


class PieceContent(NamedTuple):
    """The records of a piece, and counts of the messages that were taken."""

    records: pa.RecordBatch
    taken: TakenMessages


class FoundPiece(NamedTuple):
    """A piece as read from its file: a record batch whose metadata describe the messages taken."""

    held: pa.RecordBatch

    @property
    def records(self) -> pa.RecordBatch:
        """The records, without the file's metadata."""
        return self.held.replace_schema_metadata()

    @property
    def taken(self) -> TakenMessages:
        """The counts of the messages taken, with all their dead letters."""
        return msgspec.json.decode(self.held.schema.metadata[_TAKEN], type=TakenMessages)


def ready_file(process: int) -> str:
    """Return the name of the file by which the process with a number reports that it reads ahead."""
    return f"ready-{process}"


def piece_named(file: str) -> ReadPiece | None:
    """Return the piece that a file name describes; None for other names.

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
        OSError: the file cannot be written, or the folder is gone.
    """
    schema = content.records.schema.with_metadata({_TAKEN: msgspec.json.encode(content.taken)})
    unfinished = folder / f"{piece.number}{_ENDING_UNFINISHED}"
    with unfinished.open("wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(content.records.replace_schema_metadata(schema.metadata))
    size = unfinished.stat().st_size
    unfinished.rename(folder / piece.file)
    return size


def read_pieces(folder: Path, wanted: Iterable[MessageRange]) -> list[FoundPiece] | None:
    """Return the pieces that contain exactly some ranges, in order; None if one is missing."""
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
