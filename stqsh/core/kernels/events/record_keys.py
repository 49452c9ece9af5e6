"""The previous record of each record's key, and whether an event key is still kept.

Both kernels make one pass in log order and keep one time per key, so records cost the same however many keys
there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Array
from stqsh.core.kernels.jit import kernel


@kernel
def find_previous(keys: Array, times: Array, row: int, latest: Array, since: Array, previous: Array) -> None:
    """Find the row of the previous record with the same key, for each record.

    Args:
        keys: The number of each record's key, int32 (n,), in log order.
        times: Their times, int64 µs (n,).
        row: The number of the first record's row.
        latest: The row of the last record of each key, int64 (keys,), -1 for none; updated.
        since: The time of that record, int64 µs (keys,); updated.
        previous: Filled with the row of the previous record, int64 (n,), -1 for none. A stale record is older
            than the previous one and does not replace it; its entry is -2 minus that row.
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

    Args:
        places: The number of each record's key, int32 (n,).
        times: The times of the records, int64 µs (n,).
        kept_from: The earliest time that is kept when each record arrives, int64 µs (n,).
        latest: The latest accepted time of each key, int64 µs (keys,), the least int64 for none; updated.
    """
    out = np.zeros(len(places), np.bool_)
    for i in range(len(places)):
        place = places[i]
        if latest[place] >= kept_from[i]:
            out[i] = True
        elif latest[place] < times[i]:
            latest[place] = times[i]
    return out
