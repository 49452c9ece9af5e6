"""The totals of groups after each of their changes."""

from __future__ import annotations

import numpy as np

from stqsh.core.kernels.jit import Array, kernel


@kernel
def running_totals(start: Array, base: Array, held: Array, at: Array, amounts: Array) -> Array:
    """Return a total of groups in all their versions, int64 (versions,).

    Args:
        start: The versions of group g are start[g] .. start[g + 1]; int64 (groups + 1,).
        base: The first versions of groups that have a total before, int64.
        held: That total, int64 of the same length; empty if it is 0 everywhere.
        at: The versions with which differences begin to count, int64.
        amounts: The differences, int64 of the same length; empty if they are 0 everywhere.
    """
    out = np.zeros(start[-1], np.int64)
    for i in range(len(held)):
        out[base[i]] = held[i]
    for i in range(len(amounts)):
        out[at[i]] += amounts[i]
    for group in range(len(start) - 1):
        for version in range(start[group] + 1, start[group + 1]):
            out[version] += out[version - 1]
    return out
