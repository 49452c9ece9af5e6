"""Find each record's previous one, as a stream of moving objects replaces them."""

from __future__ import annotations

from stqsh.core.kernels.jit import Array, kernel


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
