"""The updates between successive rows of groups."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.updates import LEFT, UpdateArrays
from stqsh.core.kernels.jit import Flag, kernel

OVERTAKEN, EXPIRED, CHANGED = 2, 5, 6
"""Positions in `stqsh.spec.chunk.WHY`."""


class ShownVersions(NamedTuple):
    """How versions of groups appear, (versions,) each.

    Attributes:
        row: The row that is shown, int32; -1 where there is no group.
        same: Whether the row has the content of the version before, where both are shown.
        passes: Whether HAVING lets the row in.
        answered: Whether it is in the answer, which LIMIT may prevent.
    """

    row: Array
    same: Array
    passes: Array
    answered: Array


class ShownGroups(NamedTuple):
    """Groups: the versions of each, start[g] .. start[g + 1], and its query's id, int64 (groups,)."""

    start: Array
    query: Array


@kernel
def row_changes(
    groups: ShownGroups, step: Array, members: Array, shown: ShownVersions, is_event: Flag
) -> UpdateArrays:
    """Return the updates between successive versions of each group: first all rows that leave.

    Args:
        groups: The groups.
        step: The step of each version, int64 (versions,).
        members: Its number of members, int64 (versions,).
        shown: How it appears.
        is_event: Whether members leave by their age alone.
    """
    start, whose, row, same = groups.start, groups.query, shown.row, shown.same
    passes, answered, left, come = shown.passes, shown.answered, np.int64(0), np.int64(0)
    for group in range(len(whose)):
        for v in range(start[group] + 1, start[group + 1]):
            stays = answered[v - 1] & answered[v] & same[v]
            left += np.int64(answered[v - 1] & (not stays))
            come += np.int64(answered[v] & (not stays))
    count = left + come
    steps, query, op = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int8)
    why, show, out, new = np.empty(count, np.int8), np.empty(count, np.int64), np.int64(0), left
    for group in range(len(whose)):
        for v in range(start[group] + 1, start[group + 1]):
            if answered[v - 1] and answered[v] and same[v]:
                continue
            if answered[v - 1]:
                reason = EXPIRED if is_event and members[v] == 0 else LEFT
                if passes[v]:
                    reason = CHANGED if answered[v] else OVERTAKEN
                steps[out], query[out], op[out] = step[v], whose[group], -1
                why[out], show[out] = reason, row[v - 1]
                out += 1
            if answered[v]:
                steps[new], query[new], op[new] = step[v], whose[group], 1
                why[new], show[new] = 0, row[v]
                new += 1
    return UpdateArrays(steps, query, op, why, show)
