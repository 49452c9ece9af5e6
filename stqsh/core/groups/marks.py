"""Marks: state changes of aggregate queries that slots send to Aggregate in "marks" chunks.

All slots that hold a query send the same mark, which counts once. BEGIN starts a query's answer, for the
first time or again, as after a pause: slots then send all of its members. WAKE is sent in each batch for a
query whose rows change as time passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.base.clock import BatchTiming
from stqsh.core.kernels.events.updates import DROPPED
from stqsh.spec.clock import BatchClock

REGISTER, BEGIN, DROP, END, WAKE = 1, 2, 3, 4, 5

_MARKS: list[tuple[str, pa.DataType]] = [
    ("query", pa.int64()),
    ("step", pa.int64()),
    ("mark", pa.int8()),
    ("spec", pa.dictionary(pa.int32(), pa.string())),
]
MARKS = pa.schema(_MARKS)
"""A change of a query at a step; `spec` is the JSON of its `GroupForm` for REGISTER, and that of the
batch's `GroupClock` for WAKE."""


class GroupClock(msgspec.Struct, frozen=True, array_like=True):
    """The steps of a batch and their times, for rows at Aggregate that change as time passes.

    Attributes:
        first: The first step.
        last: The last step.
        base: The tick of step 1.
        tick: The length of a tick, µs.
        closing: The step after the end of all streams, 0 if it is not in the batch.
    """

    first: int
    last: int
    base: int
    tick: int
    closing: int

    @property
    def timing(self) -> BatchTiming:
        """The timing of the steps."""
        return BatchTiming(self.first, self.last, self.base, self.tick, -1)


class GroupMarks(NamedTuple):
    """Marks, (n,) each: query id and step, int64; mark, int8; and spec, a position in the texts."""

    query: Array
    step: Array
    mark: Array
    spec: Array

    def those(self, mark: int) -> GroupMarks:
        """Return the marks of one type."""
        return GroupMarks(*(column[self.mark == mark] for column in self))


class MarkWriter:
    """The marks that one slot sends in a batch."""

    def __init__(self) -> None:
        self._marks: list[GroupMarks] = []
        self._specs: list[str] = []

    def add(self, query: Array, step: int, mark: int) -> None:
        """Add a mark for queries, given by their ids."""
        count = len(query)
        none = np.full(count, -1, np.int32)
        self._marks.append(GroupMarks(query, np.full(count, step), np.full(count, mark, np.int8), none))

    def wake(self, query: Array, clock: BatchClock) -> None:
        """Add WAKE for queries whose rows change as time passes."""
        if len(query) and clock.base_tick is not None and clock.tick_us is not None:
            times = GroupClock(
                clock.first_step, clock.last_step, clock.base_tick, clock.tick_us, clock.closing
            )
            text = msgspec.json.encode(times).decode()
            self._add_texts(query, clock.first_step, WAKE, [text], np.zeros(len(query), np.int32))

    def register(self, query: Array, step: int, specs: list[str], which: Array) -> None:
        """Add the registration of queries; `which` has the position of each one's spec in `specs`."""
        self._add_texts(query, step, REGISTER, specs, which)

    def _add_texts(self, query: Array, step: int, mark: int, texts: list[str], which: Array) -> None:
        count, place = len(query), (which + len(self._specs)).astype(np.int32)
        self._specs += texts
        self._marks.append(GroupMarks(query, np.full(count, step), np.full(count, mark, np.int8), place))

    def retire(self, query: Array, steps: Array, why: int) -> None:
        """Add the marks of queries, given by id, that are dropped, or whose FOR ends, at these steps."""
        for step in np.unique(steps).tolist():
            self.add(query[steps == step], step, DROP if why == DROPPED else END)

    def batch(self) -> pa.RecordBatch | None:
        """Return all marks as a record batch of `MARKS`; None if there are none."""
        if not sum(len(some.query) for some in self._marks):
            return None
        query, step, mark, spec = (np.concatenate(column) for column in zip(*self._marks, strict=True))
        indices: Any = pa.array(spec, pa.int32(), mask=spec < 0)
        specs = pa.DictionaryArray.from_arrays(indices, pa.array(self._specs, pa.string()))
        arrays: list[Any] = [pa.array(query), pa.array(step), pa.array(mark, pa.int8()), specs]
        return pa.RecordBatch.from_arrays(arrays, schema=MARKS)


def read_marks(batches: Iterable[pa.RecordBatch]) -> tuple[GroupMarks, list[str]]:
    """Return the marks of several slots without duplicates, by query, and the specs that they refer to."""
    table = pa.Table.from_batches(list(batches), MARKS).unify_dictionaries().combine_chunks()
    query, step, mark = (table.column(i).to_numpy() for i in range(3))
    _, first = np.unique(query * (WAKE + 1) + mark, return_index=True)
    if not table.num_rows:
        return GroupMarks(query, step, mark, np.empty(0, np.int32)), []
    specs: Any = table.column(3).chunk(0)
    place = specs.indices.fill_null(-1).to_numpy()
    columns = (column[first] for column in (query, step, mark, place))
    return GroupMarks(*columns), specs.dictionary.to_pylist()
