"""Ask slots for snapshots under one routing, as a client does, and time each of them."""

from __future__ import annotations

from collections.abc import Sequence
from time import thread_time_ns
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.bench.papers.routing.driven_slots import DrivenSlots, Nanoseconds, no_area
from stqsh.bench.papers.routing.world import Records, range_queries
from stqsh.client.read.asked_slots import SlotChoice
from stqsh.core.snapshots.select import nothing, part, whole
from stqsh.lang.binder.bind import bind
from stqsh.lang.catalogue import Catalogue
from stqsh.lang.syntax.parse import parse
from stqsh.routing.table import RoutingTable
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.stream import StreamSpec


class Phase(NamedTuple):
    """The slots that are asked at once, int64 (n,), and the thread time of each, ns (n,)."""

    slots: NDArray[np.int64]
    spent: Nanoseconds


class Asked(NamedTuple):
    """What a snapshot took.

    Attributes:
        phases: the slots that are asked first, and those that are asked once these have answered.
        finding: the thread time of finding which slots to ask, ns.
        merging: the thread time of making the answer of their shares, ns.
        answer: the answer.
    """

    phases: list[Phase]
    finding: int
    merging: int
    answer: pa.Table

    @property
    def slots(self) -> int:
        """How many slots were asked."""
        return sum(len(phase.slots) for phase in self.phases)

    @property
    def together(self) -> int:
        """The thread time of all slots together, ns."""
        return int(sum(phase.spent.sum() for phase in self.phases))


class _OneTable:
    """The only routing of a stream."""

    def __init__(self, table: RoutingTable) -> None:
        self._tables = [table]

    def of(self, stream: StreamSpec, step: int, tick_us: int | None) -> list[RoutingTable]:
        """Return the routing."""
        return self._tables


class RoutedSlots:
    """Slots that have taken in the records of one step under a routing."""

    def __init__(self, table: RoutingTable, stream: StreamSpec, drawn: Records) -> None:
        nowhere = np.full((1, 4), 2.0)
        driven = DrivenSlots(table, stream, range_queries(nowhere), nowhere)
        driven.take(drawn, np.random.default_rng(8))
        self.states, self._stream = driven.states, stream
        self._choice = SlotChoice(_OneTable(table), no_area)

    def ask(self, spec: SnapshotSpec, turns: int) -> Asked:
        """Ask the slots that a client asks; the times are the least of some turns."""
        taken = [self._turn(spec) for _ in range(turns)]
        phases = [
            Phase(same[0].slots, np.min([phase.spent for phase in same], axis=0))
            for same in zip(*(one.phases for one in taken), strict=True)
        ]
        finding, merging = (min(times) for times in zip(*(one[1:3] for one in taken), strict=True))
        return Asked(phases, finding, merging, taken[0].answer)

    def _turn(self, spec: SnapshotSpec) -> Asked:
        shares: list[pa.RecordBatch] = []
        begun = thread_time_ns()
        first, _, others = self._choice.chosen(self.states, spec, self._stream, None)
        finding = thread_time_ns() - begun
        phases = [self._phase(first, spec, shares)]
        if others is not None:
            begun = thread_time_ns()
            later = others(list(shares))
            finding += thread_time_ns() - begun
            phases.append(self._phase(later, spec, shares))
        begun = thread_time_ns()
        answer = whole(shares or [nothing(self._stream, spec)], spec)
        return Asked(phases, finding, thread_time_ns() - begun, answer)

    def _phase(self, chosen: NDArray[np.bool_], spec: SnapshotSpec, shares: list[pa.RecordBatch]) -> Phase:
        """Add the shares of some slots, and return the thread time of each."""
        slots = np.flatnonzero(chosen)
        spent = np.zeros(len(slots), np.int64)
        for at, slot in enumerate(slots.tolist()):
            begun = thread_time_ns()
            share = part(self.states[slot], spec)
            spent[at] = thread_time_ns() - begun
            if share is not None:
                shares.append(share)
        return Phase(slots, spent)


def bound(select: str, stream: StreamSpec) -> SnapshotSpec:
    """Return the spec of a SELECT over a stream."""
    [statement] = parse(select)
    spec: SnapshotSpec = bind(statement, Catalogue({stream.name: stream})).spec
    return spec


def check_equal(answers: Sequence[pa.Table], what: str) -> None:
    """Check that the same question has got the same answer each time; raise ValueError if not."""
    if any(not answer.equals(answers[0]) for answer in answers):
        raise ValueError(f"answers to {what} differ")
