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
import pyarrow as pa
from msgspec.structs import astuple

from stqsh.fs import replacing
from stqsh.sources.dead_letters import DeadLetter
from stqsh.sources.formats.record_parser import ParsedRecords
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.live.decoding import Decoded
from stqsh.sources.live.protocol import MessageRange, RecordsGoneError

PART = "rows"
"""The name of a spool's only part in positions."""
_ENDING = ".arrow"
_LETTERS = b"letters"


class SpoolSegment(NamedTuple):
    """What is appended at once: records in order, and the dead letters of unreadable ones."""

    records: pa.RecordBatch
    dead: list[DeadLetter]

    @staticmethod
    def of(part: ParsedRecords, layout: RecordSchema) -> SpoolSegment:
        """Return parsed records as a segment."""
        return SpoolSegment(pa.RecordBatch.from_arrays(part.columns, schema=layout.schema), part.dead)

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
    schema = segment.records.schema.with_metadata({_LETTERS: letters})
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


class RecordReader:
    """A spool of records in a worker."""

    def __init__(self, spool: Path) -> None:
        self._spool = spool

    def read(self, wanted: MessageRange) -> Iterator[Decoded]:
        """Yield the records of a range, one segment after the other.

        Raises:
            RecordsGoneError: a segment has been deleted.
        """
        at, found = wanted.start, segments(self._spool)
        for place, (first, path) in enumerate(found):
            if at >= wanted.stop or first > at:
                break
            if place + 1 < len(found) and found[place + 1][0] <= at:
                continue
            records, dead = _read_segment(path)
            start, stop = at - first, min(wanted.stop - first, records.num_rows + 1)
            some = records.slice(start, max(0, min(stop, records.num_rows) - start))
            yield Decoded(some, dead if stop > records.num_rows else [], some.nbytes)
            at = first + stop
        if at < wanted.stop:
            raise RecordsGoneError(
                f"the session's folder lacks places {at} to {wanted.stop} of {self._spool}"
            )


def _read_segment(path: Path) -> tuple[pa.RecordBatch, list[DeadLetter]]:
    with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
        letters: Mapping[bytes, bytes] = file.schema.metadata
        records = file.get_batch(0).replace_schema_metadata(None)
        dead = msgspec.json.decode(letters[_LETTERS], type=list[tuple[str, int, str, str]])
        return records, [DeadLetter(*letter) for letter in dead]


def trim(spool: Path, taken: int) -> None:
    """Delete the segments with only places before `taken`, except the last one."""
    for (_, path), (after, _) in pairwise(segments(spool)):
        if after <= taken:
            path.unlink(missing_ok=True)
