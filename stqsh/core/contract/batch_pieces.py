"""Cut a batch into pieces if its stream grows much in it.

Some values are fixed for a batch, such as the circle of a kNN query, and must suit the objects both at its
start and at its end. In the first batch of a replay there are hardly any objects at the start, so the circles
would hold everything, and all later records of the batch would fall inside them. The division of a run into
batches never affects its answers, so a batch may be cut further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.base.clock import BatchTiming
from stqsh.core.queries.query_table import QueryCommands, digest

_SMALL = 256
"""The number of records that a piece may have even if there are fewer objects."""


@dataclass(frozen=True)
class CopyInput:
    """What a batch, or a piece of it, contains for the copy by key of a stream, see `stqsh.core.keyed_copy`.

    Attributes:
        records: Payloads of records.
        older: The queries that move to the copy.
        commands: The commands to its queries.
    """

    records: list[pa.RecordBatch]
    older: QueryCommands
    commands: QueryCommands


@dataclass(frozen=True)
class BatchPiece:
    """What a stream's batch, or a piece of it, contains.

    Attributes:
        timing: Its steps.
        records, focal: Payloads of "records" and "focal" chunks.
        commands: The commands.
        passed: The number of further records, which no query needs.
        copy: The input of the copy by key; None without a copy.
    """

    timing: BatchTiming
    records: list[pa.RecordBatch]
    focal: list[pa.RecordBatch]
    commands: QueryCommands
    passed: int = 0
    copy: CopyInput | None = None


def pieces(whole: BatchPiece, population: Callable[[], int]) -> Iterator[BatchPiece]:
    """Cut a batch between steps, so that no piece has far more records than there are objects before it.

    `population` returns the number of objects; it is called before each piece, after the previous piece was
    processed.
    """
    timing, of_rows = whole.timing, _steps(whole.records)
    if (of_rows[1:] < of_rows[:-1]).any():
        of_rows.sort()  # rare: the rows of a store are already in this order
    rest = np.flatnonzero(np.diff(of_rows, append=timing.last + 1)) + 1
    steps = of_rows[rest - 1]
    first, at = timing.first, 0
    while at < len(steps):
        taken = rest[at - 1] if at else 0
        until = np.searchsorted(rest, taken + max(population(), _SMALL), side="right")
        at = max(at + 1, int(until))
        last = timing.last if at == len(steps) else int(steps[at]) - 1
        yield whole if first == timing.first and last == timing.last else between(whole, first, last)
        first = last + 1
    if not len(steps):
        yield whole


def single_steps(whole: BatchPiece, watched: Callable[[], bool]) -> Iterator[BatchPiece]:
    """Cut a batch into its steps, each a piece; a run of steps without input is one piece.

    `watched` returns whether an empty step must be a separate piece; it is called before each empty step,
    after the previous step was processed.
    """
    first, last = whole.timing.first, whole.timing.last
    if last < first:
        yield whole
        return
    busy = np.unique(_steps([*whole.records, *whole.focal]))
    busy = busy[busy >= first]
    if whole.commands.any:
        busy = np.union1d(busy, [first])
    for step in [*busy.tolist(), last + 1]:
        while first < step:
            until = first if watched() else step - 1
            yield between(whole, first, until)
            first = until + 1
        if step <= last:
            yield between(whole, step, step)
            first = step + 1


def _steps(batches: list[pa.RecordBatch]) -> Array:
    return np.concatenate([np.empty(0, np.int64), *(batch.column("_step").to_numpy() for batch in batches)])


def between(whole: BatchPiece, first: int, last: int) -> BatchPiece:
    """Return the steps first .. last; records from before the batch belong to its first piece."""
    begins = first == whole.timing.first
    commands = whole.commands if begins else digest([])
    passed = whole.passed if begins else 0
    copy = whole.copy
    records, focal, keyed = (
        [_rows(batch, -1 if begins else first, last) for batch in batches]
        for batches in (whole.records, whole.focal, copy.records if copy else [])
    )
    if copy:
        copy = replace(copy, records=keyed) if begins else CopyInput(keyed, digest([]), digest([]))
    return replace(
        whole,
        timing=whole.timing._replace(first=first, last=last),
        records=records,
        focal=focal,
        commands=commands,
        passed=passed,
        copy=copy,
    )


def _rows(batch: pa.RecordBatch, first: int, last: int) -> pa.RecordBatch:
    steps = batch.column("_step").to_numpy()
    begin, end = np.searchsorted(steps, [first, last + 1]).tolist()
    if (steps[:begin] < first).all() and (steps[end:] > last).all():
        inside = steps[begin:end]
        if ((inside >= first) & (inside <= last)).all():
            return batch.slice(begin, end - begin)
    mask: Any = pa.array((steps >= first) & (steps <= last))
    return batch.filter(mask)
