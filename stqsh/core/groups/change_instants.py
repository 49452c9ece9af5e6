"""The instants at which members may change: by records, expiry, windows, or comparisons with NOW."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np

from stqsh.arrays import Array
from stqsh.core.aggregates.distinct_numbers import sorted_distinct
from stqsh.core.base.clock import NEVER
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.time_events import compared_values, values_compared
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.spec.expression import Expr


def change_instants(
    batch: StreamBatch, conditions: QueryConditions, compared: Iterable[tuple[Expr, int]]
) -> Array:
    """Return the instants at which time may change members of queries; µs, int64 (n,).

    The beginning of the batch is one of them, because changes before it are no longer known.

    Args:
        batch: The batch.
        conditions: The conditions of the queries.
        compared: Other expressions that queries compare with NOW, and the durations added to NOW, µs.
    """
    found = [np.array([batch.timing.at(batch.timing.first)], np.int64)]
    found += [_silent_from(objects) for objects in (batch.objects, batch.focal)]
    for values, shifts in chain(
        compared_values(conditions, batch.objects), values_compared(compared, conditions, batch.objects)
    ):
        # A comparison changes when NOW reaches the value, or 1 µs later, depending on the operator.
        found += [values - shift + late for shift in shifts.tolist() for late in (0, 1)]
    return _distinct(np.concatenate(found))


def stored_points(batch: StreamBatch, later: int) -> Array:
    """Return the instants from which records count and removed objects no longer do; µs, int64 (n,).

    `later` is the number of steps after its own step at which a record first counts.
    """
    return np.concatenate([_stored_from(objects, later) for objects in (batch.objects, batch.focal)])


def window_points(batch: StreamBatch, windows_us: Array) -> Array:
    """Return the instants at which records enter and leave windows of these lengths; µs, int64 (n,)."""
    times = _times(batch.objects)
    return _distinct(np.concatenate([times + 1, *(times + length + 1 for length in windows_us.tolist())]))


def _stored_from(objects: BatchObjects, later: int) -> Array:
    removed = np.empty(0, np.int64) if objects.removals.since is None else objects.removals.since
    steps = np.concatenate([objects.rows.arrays.step, removed[removed < NEVER]])
    instants: Array = objects.timing.at(np.unique(steps) + later)
    return instants


def _silent_from(objects: BatchObjects) -> Array:
    """Return the instants from which records are too old to count, µs."""
    report = objects.timing.report
    return np.empty(0, np.int64) if report < 0 else _times(objects) + report + 1


def _distinct(instants: Array) -> Array:
    """Return the distinct instants in order; adjacent repeats, which are most, are dropped first."""
    is_new = np.ones(len(instants), np.bool_)
    is_new[1:] = instants[1:] != instants[:-1]
    return sorted_distinct(instants[is_new])


def _times(objects: BatchObjects) -> Array:
    """Return the times of all versions."""
    times: Array = np.concatenate([objects.stored.ts[: objects.numbers.objects], objects.rows.arrays.ts])
    return times
