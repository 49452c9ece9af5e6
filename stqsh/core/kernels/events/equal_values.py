"""Conditions that a column equals a constant, tested for all pairs of a batch at once."""

from __future__ import annotations

from typing import NamedTuple

from stqsh.core.kernels.index.static_rects import IS, WAS, CandidatePairs
from stqsh.core.kernels.jit import Array, kernel


class EventValues(NamedTuple):
    """A column before and after events, int64 (n,) each, and whether it is not null, bool (n,)."""

    old: Array
    had: Array
    new: Array
    has: Array


class AskedValues(NamedTuple):
    """Which queries ask for a value of a column, bool (queries,), and for which, int64 (queries,)."""

    asks: Array
    value: Array


@kernel
def clear_unequal(pairs: CandidatePairs, values: EventValues, asked: AskedValues) -> None:
    """Clear WAS and IS of pairs where the object did not, or does not, have the value that is asked for."""
    event, query, flags = pairs
    old, had, new, has = values
    asks, value = asked
    for i in range(len(flags)):
        e, q = event[i], query[i]
        if asks[q]:
            was = had[e] & (old[e] == value[q])
            now = has[e] & (new[e] == value[q])
            flags[i] &= WAS * was + IS * now
