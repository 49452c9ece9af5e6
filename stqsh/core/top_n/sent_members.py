"""What queries have sent at their last refreshes, stored from batch to batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.output.sent_answers import SentAnswers
from stqsh.core.queries.query_table import QueryTable
from stqsh.core.state.slot_state import SlotState


class Sent(NamedTuple):
    """Members of queries as they were sent, (n,) each.

    Attributes:
        query: The position of the query, int64.
        obj: The object, int32.
        version: The record that was sent, int32; -1 if a newer one has replaced it.
    """

    query: Array
    obj: Array
    version: Array

    def where(self, which: Array) -> Sent:
        """Return the chosen rows, given by a mask or by positions."""
        return Sent(*(column[which] for column in self))


class SentMembers:
    """The members that queries have sent, and for which of them the sent record is still the last one.

    If a newer record has replaced the sent one, the member is offered again, so that Aggregate shows its last
    record even if it is overtaken. There are two tables: all members (`SentAnswers`, which follow a query to
    the copy by key), and members with an unchanged record. A member that is missing in the second table is
    only offered once more than necessary.
    """

    def __init__(self, state: SlotState, queries: QueryTable) -> None:
        self._queries = queries
        self._all = SentAnswers(state, queries.prefix)
        self._unchanged = SentAnswers(state, f"{queries.prefix}/unchanged")

    def pop(self, positions: Array) -> Sent:
        """Remove the members of queries, and return them, with -1 for replaced records."""
        wanted = self._queries.id[positions].tolist()
        ids, objects = self._all.pop_queries(wanted)
        same = np.isin(_codes(ids, objects), _codes(*self._unchanged.pop_queries(wanted)))
        versions = np.where(same, objects, -1).astype(np.int32)
        return Sent(np.searchsorted(self._queries.id, ids), objects, versions)

    def add(self, sent: Sent, versions: Array) -> None:
        """Store members; `versions` has the version of each object after the batch."""
        ids = self._queries.id[sent.query]
        self._all.add(ids, sent.obj)
        same = (sent.version >= 0) & (versions[sent.obj] == sent.version)
        self._unchanged.add(ids[same], sent.obj[same])

    def forget(self, ids: Iterable[int]) -> None:
        """Forget the members of queries."""
        for table in (self._all, self._unchanged):
            table.pop_queries(ids)


def is_among(some: Sent, query: Array, obj: Array) -> Array:
    """Return whether pairs of queries, by position, and objects are among members; bool (n,)."""
    found: Array = np.isin(_codes(query, obj), _codes(some.query, some.obj))
    return found


def together(some: Iterable[Sent]) -> Sent:
    """Return several tables of members as one."""
    none = Sent(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    return Sent(*(np.concatenate(columns) for columns in zip(none, *some, strict=True)))


def _codes(ids: Array, objects: Array) -> Array:
    """Return query and object as one number each; both are below 2^31."""
    codes: Array = ids.astype(np.int64) << 32 | objects
    return codes
