"""The updates between successive rows of groups.

A group's row is sent again only if the row that is shown changes. One pass counts the updates and one writes
them, so the cost is linear in the versions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.updates import LEFT, UpdateArrays
from stqsh.core.kernels.jit import Flag, kernel

OVERTAKEN, EXPIRED, CHANGED = 2, 5, 6
"""Positions in `stqsh.spec.chunk.WHY`."""


class ShownVersions(NamedTuple):
    """The appearance of versions of groups, (versions,) each.

    Attributes:
        row: The row that is shown, int32; -1 for a version without a group.
        same: Whether the row has the same content as the version before, if both are shown.
        passes: Whether the row satisfies HAVING.
        answered: Whether the row is in the answer, from which LIMIT may exclude it.
    """

    row: Array
    same: Array
    passes: Array
    answered: Array


class ShownGroups(NamedTuple):
    """Groups: start[g] .. start[g + 1] are the versions of group g; query ids are int64 (groups,)."""

    start: Array
    query: Array


@kernel
def row_changes(
    groups: ShownGroups, step: Array, members: Array, shown: ShownVersions, is_event: Flag
) -> UpdateArrays:
    """Return the updates between successive versions of each group; all rows that leave come first.

    Args:
        groups: The groups.
        step: The step of each version, int64 (versions,).
        members: The number of members of each version, int64 (versions,).
        shown: The appearance of each version.
        is_event: Whether members leave only because of their age.
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
