"""The memory runner for live streams: records come in from a spool, by a clock that stands still in a batch.

All records that a batch of a live stream takes belong to its last step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pyarrow as pa

from stqsh.engine.config import TUNING, EngineTuning
from stqsh.sources.live.inserted_records import RecordAppender
from stqsh.sources.live.line_spool import SPOOL
from stqsh.sources.live.record_spool import SpoolSegment
from stqsh.spec.chunk import columns_schema
from stqsh.spec.log import RunSteps
from stqsh.spec.stream import InsertsSourceSpec
from stqsh.storage.catalogue_writer import create_stream
from stqsh.storage.control_log import append
from support.cases import Case, by_step
from support.memory import Batches, MemoryEngine, memory_engine
from support.oracle import sorted_out
from support.specs import stream_spec


@dataclass
class StandingClock:
    """A clock of µs that stands until it is set."""

    now_us: int = 0

    def __call__(self) -> int:
        return self.now_us


class LiveMemoryEngine(MemoryEngine):
    """A memory engine whose streams are live.

    Attributes:
        clock: by which it goes.
    """

    def __init__(
        self,
        folder: Path,
        cases: list[Case],
        slots: int,
        *,
        clock: StandingClock,
        tuning: EngineTuning,
    ) -> None:
        self.clock = clock
        clock.now_us = cases[0].clock.at(1)
        super().__init__(folder, cases, slots, tuning=tuning)

    def take(self, first: int, last: int) -> None:
        """Take the commands of step `first` in, and the records up to step `last`, which they belong to."""
        for case in self.cases.values():
            for command in by_step(case.commands).get(first, []):
                self._command(case, command)
            self._insert(case, last)
        append(self.control, RunSteps(last - first + 1))
        if self.offset.base_tick is not None:  # the run begins where its first step is not due yet
            self.clock.now_us = self._at(first - 1)
            self.advance()
        self.clock.now_us = self._at(last)
        self.advance()

    def _at(self, step: int) -> int:
        return next(iter(self.cases.values())).clock.at(step)

    def _insert(self, case: Case, step: int) -> None:
        rows = by_step(case.records).get(step, [])
        if rows:
            records = pa.RecordBatch.from_pylist(rows, columns_schema(stream_spec(case.spec).columns))
            spool = self.home.stream(case.spec["id"]) / SPOOL
            RecordAppender(spool).append(SpoolSegment(records, []))

    def _create_stream(self, case: Case) -> None:
        spec = stream_spec(case.spec, name=f"s{case.spec['id']}", source=InsertsSourceSpec())
        assert create_stream(self.control, "", spec).id == case.spec["id"]


@contextmanager
def live_engine(case: Case, slots: int, tuning: EngineTuning = TUNING) -> Iterator[LiveMemoryEngine]:
    """A live memory engine over a case that is as live streams are, see `as_live`."""
    clock = StandingClock()

    def build(
        folder: Path, cases: list[Case], slots: int, *, ends: bool, tuning: EngineTuning
    ) -> LiveMemoryEngine:
        assert not ends, "an inserted stream has no end"
        return LiveMemoryEngine(folder, cases, slots, clock=clock, tuning=tuning)

    with (
        mock.patch("support.local.wall_clock_us", clock),
        mock.patch("stqsh.engine.operators.data_source._steady_us", clock),
        mock.patch("support.memory.MemoryEngine", build),
        memory_engine([case], slots, tuning=tuning) as engine,
    ):
        assert isinstance(engine, LiveMemoryEngine)
        yield engine


class LiveCase(NamedTuple):
    """A case as live streams have it.

    Attributes:
        sent: what comes in, duplicates among it.
        counted: what counts of that.
        batches: the first and last step of each batch.
    """

    sent: Case
    counted: Case
    batches: Batches


def as_live(case: Case, batches: Batches) -> LiveCase:
    """Return a case as live streams have it.

    The clock begins with a batch of one step, and the records of a batch belong to its last step.
    """
    (first, last), *others = batches
    batches = [(first, first), *([(first + 1, last)] if last > first else []), *others]
    ends = [end for _, end in batches]
    records = [(next(end for end in ends if end >= step), row) for step, row in case.records]
    counted, repeated = sorted_out(case.spec, case.clock, records, live=True)
    counted = replace(case, records=counted, repeated=repeated)
    return LiveCase(replace(case, records=records), counted, batches)
