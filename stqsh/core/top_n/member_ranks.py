"""The ranks of members in the order of each query, and the changes of a slot's first n."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.groups.group_deltas import MemberChanges
from stqsh.core.kernels.top_n.ranks import RankedChanges, TopNChanges, TopNTerms, first_changes

PlacesOf = Callable[[int, Array], pa.BinaryArray]
"""Returns the places of records, given a form of queries and versions, int32 (n,)."""


class TopNMembers(NamedTuple):
    """Members that come into or leave the first n of their queries; (n,) each.

    Attributes:
        query: The position of the query, int32.
        step: int64.
        version: The member's record, int32; if it leaves, the record with which it was among the first n.
        op: int8, 1 or -1.
        place: Its place in the query's order, a position in the places.
    """

    query: Array
    step: Array
    version: Array
    op: Array
    place: Array

    def where(self, which: Array) -> TopNMembers:
        """Return the chosen rows, given by a mask or by positions."""
        return TopNMembers(*(column[which] for column in self))


class MemberRanks:
    """The ranks of members among all members of their queries.

    Idea: rank every pair of query and record in the batch once, by place. Coming and leaving then only mark
    and unmark ranks, and the first n are the n lowest marked ranks. Cost: one sort of the pairs, and a time
    logarithmic in the number of a query's ranks for each change, for any n.

    Args:
        changes: Members that come and leave. At any step an object is a member with only one record.
        forms: The form of each query, by position, int32.
        versions: The number of versions.
        places_of: Returns the places of records.
    """

    def __init__(self, changes: MemberChanges, forms: Array, versions: int, places_of: PlacesOf) -> None:
        self._changes = changes
        codes = changes.query.astype(np.int64) * versions + changes.version
        distinct, self._member = np.unique(codes, return_inverse=True)
        self._query, self._version = distinct // versions, (distinct % versions).astype(np.int32)
        order, self._place, parts, known = np.zeros(len(distinct), np.int64), np.zeros_like(distinct), [], 0
        form = forms[self._query]
        for number in np.flatnonzero(np.bincount(form, minlength=1)).tolist():
            mine = np.flatnonzero(form == number)
            shown, position = np.unique(self._version[mine], return_inverse=True)
            places = places_of(number, shown)
            order[mine] = _ranks(places)[position]
            self._place[mine] = known + position
            parts.append(places)
            known += len(shown)
        self.places: pa.BinaryArray = pa.concat_arrays(parts) if parts else pa.array([], pa.binary())
        self._ordered = np.lexsort((order, self._query))
        self._start = np.searchsorted(self._query, np.arange(len(forms) + 1))
        self._rank = np.empty(len(distinct), np.int64)
        self._rank[self._ordered] = np.arange(len(distinct)) - self._start[self._query]

    def first(self, limit: Array, base: int) -> TopNMembers:
        """Return the changes of each query's first n after the step `base`; limit: int64 (queries,)."""
        changes, sizes = self._changes, np.diff(self._start)
        order = np.lexsort((changes.step, changes.query))
        start = np.searchsorted(changes.query[order], np.arange(len(sizes) + 1))
        ranked = RankedChanges(
            start.astype(np.int64),
            changes.step[order].astype(np.int64),
            self._rank[self._member[order]],
            changes.sign[order].astype(np.int8),
        )
        return self._members(first_changes(ranked, TopNTerms(sizes, limit.astype(np.int64), base)))

    def _members(self, found: TopNChanges) -> TopNMembers:
        at = self._ordered[self._start[found.query] + found.rank]
        return TopNMembers(found.query, found.step, self._version[at], found.op, self._place[at])


def _ranks(places: pa.BinaryArray) -> Array:
    """Return the rank of each place; int64 (n,)."""
    ranks = np.empty(len(places), np.int64)
    ranks[pc.sort_indices(places).to_numpy()] = np.arange(len(places))
    return ranks
