"""A spool of records: parsed input that cannot be read again, kept until slots have stored it.

A directory contains segments `N.arrow`, where N is the number of the first place. A segment of n records has
n + 1 places; the last one stands for its dead letters. Segments are deleted once the batches that took them
are committed. How far a spool is filled is recorded elsewhere, after its segments are written; nothing beyond
that is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import astuple
from numpy.typing import NDArray

from stqsh.fs import replacing
from stqsh.sources.dead_letters import DeadLetter
from stqsh.sources.formats.record_parser import ParsedRecords
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.live.decoding import Decoded, PlacedRecords
from stqsh.sources.live.protocol import MessageRange, RecordsGoneError

PART = "rows"
"""The name of a spool's only part in positions."""
_ENDING = ".arrow"
_LETTERS, _FILE, _LINES = b"letters", b"file", b"lines"


class Origin(NamedTuple):
    """Where records are from: the name of a file, and the line where each begins, int64 (n,)."""

    file: str
    lines: NDArray[np.int64]


class SpoolSegment(NamedTuple):
    """What is appended at once: records in order, the dead letters of unreadable ones, and their origin."""

    records: pa.RecordBatch
    dead: list[DeadLetter]
    origin: Origin | None = None

    @staticmethod
    def of(part: ParsedRecords, layout: RecordSchema, file: str | None = None) -> SpoolSegment:
        """Return parsed records as a segment; with the name of their file, it keeps their lines in it."""
        lines = np.zeros(0, np.int64) if part.lines is None else part.lines
        origin = None if file is None else Origin(file, lines)
        return SpoolSegment(pa.RecordBatch.from_arrays(part.columns, schema=layout.schema), part.dead, origin)

    @property
    def places(self) -> int:
        """The number of places that the segment takes."""
        return self.records.num_rows + 1


def segments(spool: Path) -> list[tuple[int, Path]]:
    """Return the segments of a spool with their first places, in order."""
    found = spool.glob(f"*{_ENDING}")
    return sorted((int(path.stem), path) for path in found if path.stem.isdigit())


def write_segment(spool: Path, first: int, segment: SpoolSegment, *, durable: bool | None = None) -> int:
    """Write a segment at a place, and return the place after it.

    A segment left there by a killed writer is replaced. `durable` is as in `stqsh.fs.replacing`.
    """
    letters = msgspec.json.encode([astuple(letter) for letter in segment.dead])
    origin = {} if segment.origin is None else _to_bytes(segment.origin)
    schema = segment.records.schema.with_metadata({_LETTERS: letters, **origin})
    path = spool / f"{first:015d}{_ENDING}"
    with (
        replacing(path, private=True, durable=durable) as new,
        pa.ipc.new_file(str(new), schema) as file,
    ):
        file.write_batch(segment.records.replace_schema_metadata(schema.metadata))
    return first + segment.places


def parts(spool: Path, start: int, stop: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files, with their names, of a spool that has the places start <= place < stop."""
    found = segments(spool)
    for (first, path), after in zip(found, [*(first for first, _ in found[1:]), stop], strict=True):
        if first < stop and after > start:
            yield path.name, path.read_bytes()


def end_of_parts(spool: Path, stop: int, end: int) -> int:
    """Return the place after the segments that `parts` yields up to `stop`; `end` is that of the spool."""
    return next((first for first, _ in segments(spool) if first >= stop), end)


class RecordReader:
    """A spool of records in a worker."""

    def __init__(self, spool: Path) -> None:
        self._spool = spool

    def read(self, wanted: MessageRange) -> Iterator[Decoded]:
        """Yield the records of a range, one segment after the other.

        Raises:
            RecordsGoneError: a segment has been deleted.
        """
        for segment, _ in self._read(wanted):
            yield Decoded(segment.records, segment.dead, segment.records.nbytes)

    def read_placed(self, wanted: MessageRange) -> Iterator[tuple[PlacedRecords, str, int]]:
        """Yield the records of a range with their lines and file, and the place after them; see `read`."""
        for segment, after in self._read(wanted):
            assert segment.origin is not None, "the writer keeps the lines of records"
            file, lines = segment.origin
            yield PlacedRecords(segment.records, lines, segment.dead), file, after

    def _read(self, wanted: MessageRange) -> Iterator[tuple[SpoolSegment, int]]:
        """Yield the part of each segment that is in a range, and the place after it."""
        at, found = wanted.start, segments(self._spool)
        for place, (first, path) in enumerate(found):
            if at >= wanted.stop or first > at:
                break
            if place + 1 < len(found) and found[place + 1][0] <= at:
                continue
            segment = _read_segment(path)
            count = segment.records.num_rows
            start, stop = at - first, min(wanted.stop - first, count + 1)
            yield _part(segment, start, stop), first + stop
            at = first + stop
        if at < wanted.stop:
            raise RecordsGoneError(
                f"the session's folder lacks places {at} to {wanted.stop} of {self._spool}"
            )


def _part(segment: SpoolSegment, start: int, stop: int) -> SpoolSegment:
    """Return the places start <= place < stop of a segment; its dead letters are at the last one."""
    records, dead, origin = segment
    count = records.num_rows
    if origin is not None:
        origin = origin._replace(lines=origin.lines[start:stop])
    some = records.slice(start, max(0, min(stop, count) - start))
    return SpoolSegment(some, dead if stop > count else [], origin)


def _to_bytes(origin: Origin) -> dict[bytes, bytes]:
    return {_FILE: origin.file.encode(), _LINES: origin.lines.astype("<i8").tobytes()}


def _read_segment(path: Path) -> SpoolSegment:
    with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
        kept: Mapping[bytes, bytes] = file.schema.metadata
        records = file.get_batch(0).replace_schema_metadata(None)
        dead = msgspec.json.decode(kept[_LETTERS], type=list[tuple[str, int, str, str]])
        origin = None
        if _FILE in kept:
            origin = Origin(kept[_FILE].decode(), np.frombuffer(kept[_LINES], "<i8"))
        return SpoolSegment(records, [DeadLetter(*letter) for letter in dead], origin)


def trim(spool: Path, taken: int) -> None:
    """Delete the segments with only places before `taken`, except the last one."""
    for (_, path), (after, _) in pairwise(segments(spool)):
        if after <= taken:
            path.unlink(missing_ok=True)
