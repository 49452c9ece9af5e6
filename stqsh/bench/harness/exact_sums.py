"""Compare sums of real numbers, rounded once, with plain floating-point sums, in one slot of the core."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np

from stqsh.arrays import Array
from stqsh.bench.figures import Row
from stqsh.bench.harness.one_slot import MOVING, OneSlot
from stqsh.bench.harness.workload import Motion, rectangles
from stqsh.core.aggregates import states
from stqsh.spec.aggregate import AggregateSpec, GroupOutput, Measure, measure_column
from stqsh.spec.expression import ColumnExpr
from stqsh.spec.query import AGGREGATE, Members, Result, SlotQuery
from stqsh.spec.region import RectangleSpec

_OBJECTS, _PER_TICK, _TICKS, _BATCHES = 200_000, 100_000, 4, 5


def measure_sums(count: int) -> Row:
    """Return how much longer a batch takes with exact sums of this many squares than with plain ones.

    Both run in turn on the same records, so that whatever else the machine does meets both.
    """
    slots = [_slot(count) for _ in range(2)]
    exact, plain = [], []
    for _ in range(_BATCHES):
        exact.append(slots[0].run(_TICKS).seconds)
        with mock.patch.object(states, "add_terms", _plain_terms):
            plain.append(slots[1].run(_TICKS).seconds)
    ratios = [one / other for one, other in zip(exact[1:], plain[1:], strict=True)]
    return {"queries": count, "ratio": ratios}


def _slot(count: int) -> OneSlot:
    ticks = _OBJECTS // _PER_TICK + _TICKS * _BATCHES
    slot = OneSlot(Motion(_OBJECTS, _PER_TICK, ticks, "jump"))
    measure = Measure("sum", ColumnExpr(MOVING.x), "DOUBLE")
    spec = AggregateSpec(measures=(measure,), select=(GroupOutput("sum", measure_column(0), "DOUBLE"),))
    boxes = rectangles(count).tolist()
    slot.register(
        [
            SlotQuery(
                id=number,
                kind=AGGREGATE.name,
                members=Members(region=RectangleSpec(*box)),
                result=Result(aggregates=spec),
            )
            for number, box in enumerate(boxes, 1)
        ]
    )
    return slot


def _plain_terms(name: str, values: Any, rows: Array, signs: Array, count: int) -> dict[str, Array]:
    """Return sums as one double each, as bits: what a system does that does not mind the last digits."""
    numbers = values.to_numpy(zero_copy_only=False) * signs
    return {f"{name}.0": np.bincount(rows, weights=numbers, minlength=count).view(np.int64)}
