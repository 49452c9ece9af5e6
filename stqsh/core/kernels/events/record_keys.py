"""What came before with a record's key: its previous record, and whether the key is still kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Array
from stqsh.core.kernels.jit import kernel


@kernel
def find_previous(keys: Array, times: Array, row: int, latest: Array, since: Array, previous: Array) -> None:
    """Find the row that holds the record before each record of its key.

    Args:
        keys: The number of each record's key, int32 (n,), in log order.
        times: Their times, int64 µs (n,).
        row: The number of the first record's row.
        latest: The row of each key's last record, int64 (keys,), -1 for none; updated.
        since: The time of that record, int64 µs (keys,); updated.
        previous: Filled, int64 (n,): the row before, -1 for none; for a stale record, which is older than the
            one before it and replaces nothing, -2 minus that row.
    """
    for i in range(len(keys)):
        key = keys[i]
        before = latest[key]
        if before >= 0 and times[i] < since[key]:
            previous[i] = -2 - before
            continue
        previous[i] = before
        latest[key], since[key] = row + i, times[i]


@kernel
def find_duplicates(
    places: NDArray[np.int32],
    times: NDArray[np.int64],
    kept_from: NDArray[np.int64],
    latest: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Mark the records, in replay order, whose key is still kept, bool (n,).

    places: int32 (n,), the numbers of their keys. times: int64 (n,), µs. kept_from: int64 (n,), the least
    time that is kept when a record comes. latest: int64 (keys,), the latest time accepted of each key, the
    least int64 where there is none; brought up to date.
    """
    out = np.zeros(len(places), np.bool_)
    for i in range(len(places)):
        place = places[i]
        if latest[place] >= kept_from[i]:
            out[i] = True
        elif latest[place] < times[i]:
            latest[place] = times[i]
    return out
