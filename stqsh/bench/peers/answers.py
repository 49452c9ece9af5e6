"""Compare the answers of two systems by their updates.

Updates are int64 (n, 4): step, query, key, op (+1 entered, -1 left), in any order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Updates = NDArray[np.int64]

NONE: Updates = np.empty((0, 4), np.int64)
_STEP, _QUERY, _KEY, _OP = range(4)


def updates(step: object, query: object, key: object, op: object) -> Updates:
    """Return updates of their columns, each an array or one number for all rows."""
    columns = [np.asarray(column, np.int64) for column in (step, query, key, op)]
    return np.stack(np.broadcast_arrays(*columns), axis=1)


def answer(sent: Updates, step: int) -> Updates:
    """Return the answers after a step: their members, as updates + of that step.

    Raises:
        ValueError: a member enters twice, or leaves without having entered.
    """
    some = sent[sent[:, _STEP] <= step]
    pairs, where = np.unique(some[:, [_QUERY, _KEY]], axis=0, return_inverse=True)
    counts = np.bincount(where.reshape(-1), weights=some[:, _OP], minlength=len(pairs)).astype(np.int64)
    odd = np.flatnonzero((counts != 0) & (counts != 1))
    if len(odd):
        query, key = pairs[odd[0]].tolist()
        raise ValueError(
            f"the updates of query {query} and object {key} do not fold: they add up to {counts[odd[0]]}"
        )
    members = pairs[counts == 1]
    return updates(step, members[:, 0], members[:, 1], 1)


def normal(sent: Updates, fill: int, last: int) -> Updates:
    """Return the sorted rows that must be equal: the answers after step `fill`, the updates up to `last`."""
    later = sent[(sent[:, _STEP] > fill) & (sent[:, _STEP] <= last)]
    rows = np.concatenate([answer(sent, fill), later])
    return rows[np.lexsort(rows.T[::-1])]


def difference(ours: Updates, theirs: Updates) -> str:
    """Describe how two normal forms differ, with the first difference; "" where they are equal."""
    if np.array_equal(ours, theirs):
        return ""
    rows, where = np.unique(np.concatenate([ours, theirs]), axis=0, return_inverse=True)
    signs = np.concatenate([np.ones(len(ours)), -np.ones(len(theirs))])
    excess = np.bincount(where.reshape(-1), weights=signs, minlength=len(rows))
    missing, extra = int(excess[excess > 0].sum()), int(-excess[excess < 0].sum())
    first = int(np.flatnonzero(excess)[0])
    step, query, key, op = rows[first].tolist()
    whose = "only stqsh has" if excess[first] > 0 else "stqsh has not"
    what = f"step {step}: {'+' if op > 0 else '-'} object {key} of query {query}"
    return f"{missing:,} updates missing, {extra:,} too many; {whose} {what}"
