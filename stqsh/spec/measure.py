"""The cost of a query or a snapshot, for EXPLAIN: candidates, index cells, frequencies of terms, counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

Box: TypeAlias = tuple[float, float, float, float]


class QueryCounters(Struct, frozen=True):
    """Candidates that were tested, those that matched, and updates that were sent."""

    tested: int = 0
    matched: int = 0
    updates: int = 0

    def plus(self, other: QueryCounters) -> QueryCounters:
        """Return the sums."""
        return QueryCounters(
            self.tested + other.tested, self.matched + other.matched, self.updates + other.updates
        )


class QueryMeasure(Struct, frozen=True):
    """The figures of one slot, or of several slots together.

    Attributes:
        objects: the objects present.
        boxed: the objects in the region's box.
        sampled: the examined objects of the box.
        inside: the examined objects in the region.
        satisfied: the objects in the region that also satisfy the condition.
        box: x1, y1, x2, y2 of the region, None if it is unbounded or the focal object is absent.
        sides: by index, the cells in each direction and the number of cells that the box touches.
        terms: the number of counted texts, of `texts`, with each term of the condition.
        own: counters of the query, None if no slot has it.
        all: counters of all queries of the stream.
        holders: the number of slots that have the query.
        in_trees: the number of slots where CH-trees find it.
        slots: the number of slots that were queried.
    """

    objects: int = 0
    boxed: int = 0
    sampled: int = 0
    inside: int = 0
    satisfied: int = 0
    box: Box | None = None
    sides: dict[str, tuple[int, int]] = {}
    terms: dict[str, int] = {}
    texts: int = 0
    own: QueryCounters | None = None
    all: QueryCounters = QueryCounters()
    holders: int = 0
    in_trees: int = 0
    slots: int = 1


def total(measures: Sequence[QueryMeasure]) -> QueryMeasure:
    """Return the figures of all slots as one."""
    own, everything = None, QueryCounters()
    terms: Counter[str] = Counter()
    for one in measures:
        terms.update(one.terms)
        everything = everything.plus(one.all)
        if one.own is not None:
            own = one.own if own is None else own.plus(one.own)
    return QueryMeasure(
        objects=sum(one.objects for one in measures),
        boxed=sum(one.boxed for one in measures),
        sampled=sum(one.sampled for one in measures),
        inside=sum(one.inside for one in measures),
        satisfied=sum(one.satisfied for one in measures),
        box=next((one.box for one in measures if one.box is not None), None),
        sides={name: side for one in measures for name, side in one.sides.items()},
        terms=dict(terms),
        texts=sum(one.texts for one in measures),
        own=own,
        all=everything,
        holders=sum(one.own is not None for one in measures),
        in_trees=sum(one.in_trees for one in measures),
        slots=len(measures),
    )
