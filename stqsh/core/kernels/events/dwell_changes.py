"""Changes of answers that must last for a dwell time before they are sent.

The changes of an object in an answer alternate, so one pass compares each change with the next one: an
opposite change within the dwell time cancels both. The cost is linear in the number of changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import BatchTiming
from stqsh.core.kernels.jit import Int, kernel


class DwellChanges(NamedTuple):
    """Objects that entered or left answers, (n,) each, by query, object and step.

    Attributes:
        query: The query's position, int32.
        obj: int32.
        step: int64.
        op: +1 or -1, int8.
    """

    query: Array
    obj: Array
    step: Array
    op: Array


@kernel
def _due(step: Int, dwell: Int, timing: BatchTiming) -> Int:
    """Return the first step whose time is at least `dwell` µs after that of the given step."""
    reached = (timing.base + step - 1) * timing.tick + dwell
    return -(-reached // timing.tick) - timing.base + 1


@kernel
def find_lasting(
    toggles: DwellChanges, absent: Array, dwell: Array, until: Array, timing: BatchTiming
) -> tuple[Array, Array, Array]:
    """Find the changes that have lasted for their dwell time, and those that must still wait.

    A change lasts if no opposite change follows within the dwell time. It is sent in the step in which the
    dwell time ends, if that step is in the batch and before the query's end. If the object has disappeared,
    the change is sent in that step without further waiting.

    Args:
        toggles: The changes.
        absent: The step in which the object of each change disappeared, NEVER if it did not; int64, like
            toggles.
        dwell: int64 (queries,), µs.
        until: The step at which each query ends, int64 (queries,).
        timing: The batch's clock.

    Returns:
        The positions of the changes that lasted, the steps in which they are sent, and the positions of the
        changes that wait; int64.
    """
    count = len(toggles.step)
    ripe, due, waiting = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    lasted, left, k = 0, 0, 0
    while k < count:
        q = toggles.query[k]
        end = min(_due(toggles.step[k], dwell[q], timing), absent[k])
        following = k + 1 < count and toggles.query[k + 1] == q and toggles.obj[k + 1] == toggles.obj[k]
        if following and toggles.step[k + 1] <= end:
            k += 2  # both cancel
            continue
        if end <= timing.last and end < until[q]:
            ripe[lasted], due[lasted] = k, end
            lasted += 1
        else:
            waiting[left] = k
            left += 1
        k += 1
    return ripe[:lasted], due[:lasted], waiting[:left]
