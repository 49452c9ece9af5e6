"""EXPLAIN ANALYZE of a snapshot: answer it, and record the time and rows of each operator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.conditions.region_test import RegionNow
from stqsh.core.contract.snapshot_selection import PresentObjects, SnapshotSelection
from stqsh.core.snapshots.select import part, whole
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.region import Key, Place


class OperatorRun(NamedTuple):
    """An operator's work on all slots: its name, the rows that it read and returned, and its time, seconds.

    The time of an operator includes that of operators that it calls.
    """

    name: str
    taken: int
    rows: int
    seconds: float


Archived: TypeAlias = Callable[[list[pa.RecordBatch]], tuple[int, Iterator[pa.RecordBatch]]]
"""Returns the number of archived events to read, and their shares, given the shares of the slots."""


@dataclass
class Analysis:
    """The operators in the order in which they first ran."""

    runs: dict[str, OperatorRun] = field(default_factory=dict)

    def timed(self, name: str, taken: int, run: Callable[[], Any], rows: Callable[[Any], int] = len) -> Any:
        """Run an operator that reads `taken` rows; add its time and rows to those of its other runs."""
        begun = time.perf_counter()
        result = run()
        spent, known = time.perf_counter() - begun, self.runs.get(name, OperatorRun(name, 0, 0, 0.0))
        left = 0 if result is None else rows(result)
        self.runs[name] = OperatorRun(name, known.taken + taken, known.rows + left, known.seconds + spent)
        return result


@dataclass(frozen=True)
class AnalysedSelection(SnapshotSelection):
    """A selection whose operators are timed."""

    analysis: Analysis = field(default_factory=Analysis)

    @property
    def _stored(self) -> int:
        """The number of objects that a scan reads, including objects that are not present."""
        return len(self.present.stored.known)

    def everything(self) -> Array:
        """Return all objects that are present."""
        return self.analysis.timed("scan", self._stored, super().everything)  # type: ignore[no-any-return]

    def count_in_box(self) -> int:
        """Return how many objects are in the region's box."""
        return self.analysis.timed("scan and count in the box", self._stored, super().count_in_box, int)  # type: ignore[no-any-return]

    def in_region(self) -> Array:
        """Return the objects in the region."""
        return self.analysis.timed("scan and spatial filter", self._stored, super().in_region)  # type: ignore[no-any-return]

    def with_key(self, key: Key) -> Array:
        """Return the object with a key."""
        found = super().with_key
        return self.analysis.timed("key look-up", 1, lambda: found(key))  # type: ignore[no-any-return]

    def satisfying(self, objects: Array) -> Array:
        """Return those that satisfy the condition."""
        satisfying = super().satisfying
        return self.analysis.timed("filter", len(objects), lambda: satisfying(objects))  # type: ignore[no-any-return]

    def distances(self, objects: Array) -> Array:
        """Return the distances of objects from the region's centre."""
        distances = super().distances
        return self.analysis.timed("distances", len(objects), lambda: distances(objects))  # type: ignore[no-any-return]


def analyse(
    states: Sequence[SlotState],
    spec: SnapshotSpec,
    place: Place | None,
    empty: pa.RecordBatch,
    archived: Archived | None = None,
) -> tuple[OperatorRun, ...]:
    """Answer a snapshot on the slots' states; return the runs of its operators, with the whole answer last.

    Args:
        states: the states.
        spec: the snapshot.
        place: The place of the focal object of the snapshot's region, None while it is absent.
        empty: The share of a slot without objects, for an answer of which no slot has a share.
        archived: The shares of an archive, for a snapshot of the past.
    """
    analysis = Analysis()

    def selection(present: PresentObjects, given: SnapshotSpec, reach: RegionNow) -> SnapshotSelection:
        return AnalysedSelection(present, given, reach, analysis)

    def answer() -> pa.Table:
        shares = [part(state, spec, place, selection) for state in states]
        parts = [share for share in shares if share is not None] or [empty]
        if archived is not None:
            events, others = archived(parts)
            parts += analysis.timed("read of the archive, and filter", events, lambda: [*others], _rows)
        merged = sum(share.num_rows for share in parts)
        table: pa.Table = analysis.timed("merge, sort and limit", merged, lambda: whole(parts, spec))
        return table

    scanned = [PresentObjects.of(state, spec.stream_id) for state in states]
    stored = sum(len(one.stored.known) for one in scanned if one is not None)
    analysis.timed("answer", stored, answer)
    return tuple(analysis.runs.values())


def _rows(shares: Sequence[pa.RecordBatch]) -> int:
    """Return how many rows shares have."""
    return sum(share.num_rows for share in shares)
