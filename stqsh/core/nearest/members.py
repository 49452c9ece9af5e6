"""The objects in each query's circle, kept from batch to batch."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.state.table import ArraySpec, StateTable


class MemberTable(StateTable):
    """The members of queries' circles that satisfy the conditions, by the query's position, unordered.

    Query q's members are member_obj[member_start[q] : member_start[q + 1]].
    """

    member_start = ArraySpec(np.int64, length=1)
    member_obj = ArraySpec(np.int32, "objects", length=0)

    def insert_empty(self, positions: Array) -> None:
        """Insert empty lists for new queries at these positions, ascending."""
        lengths = np.zeros(len(self.member_start) - 1 + len(positions), np.int64)
        lengths[np.delete(np.arange(len(lengths)), positions)] = np.diff(self.member_start)
        self.store(member_start=np.concatenate([[0], np.cumsum(lengths)]))

    def remove(self, positions: Array) -> None:
        """Remove the lists of the queries at these positions; the positions of others change."""
        staying = np.delete(np.arange(len(self.member_start) - 1), positions)
        start, obj = self.of(staying)
        self.store(member_start=start, member_obj=obj)

    def of(self, positions: Array) -> tuple[Array, Array]:
        """Return the members of some queries: start int64 (n + 1,), and objects."""
        return _lists(self.member_start[positions], self.member_start[positions + 1], self.member_obj)

    def replace(self, positions: Array, start: Array, obj: Array) -> None:
        """Replace the lists of these queries; the arguments have the form that `of` returns."""
        known = len(self.member_obj)
        begin, end = self.member_start[:-1].copy(), self.member_start[1:].copy()
        begin[positions], end[positions] = known + start[:-1], known + start[1:]
        start, obj = _lists(begin, end, np.concatenate([self.member_obj, obj]))
        self.store(member_start=start, member_obj=obj)


def _lists(begin: Array, end: Array, pool: Array) -> tuple[Array, Array]:
    """Concatenate slices of a pool; return the start of each, int64 (n + 1,), and the elements."""
    lengths = end - begin
    start = np.zeros(len(begin) + 1, np.int64)
    np.cumsum(lengths, out=start[1:])
    return start, pool[np.repeat(begin - start[:-1], lengths) + np.arange(start[-1])]
