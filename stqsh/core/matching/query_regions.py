"""The regions of a kind's queries: their index, their conditions, and their scale under load shedding."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.events.updates import ENDED
from stqsh.core.matching.moving_index import release_cells
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.query_context import QueryContext, context_of
from stqsh.core.matching.region_scaling import scale, will_scale
from stqsh.core.matching.static_index import StaticRegionIndex
from stqsh.core.queries.query_table import ACTIVE, QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.retention_mode import memory_of


class QueryRegions:
    """The regions of one kind's queries over a stream, for a batch.

    Attributes:
        conditions: The conditions of the queries.
        index: The index of the regions that do not move; `prepare` updates it.
    """

    def __init__(self, batch: StreamBatch, prefix: str, queries: QueryTable) -> None:
        self._batch, self._prefix, self._queries = batch, prefix, queries
        self.index = StaticRegionIndex(batch, prefix)
        self.conditions = QueryConditions(batch.state, prefix, queries, batch.objects, batch.focal)
        self._area = memory_of(batch.state, batch.spec.id).area
        self._is_outdated = False

    def add(self, positions: Array, new: NewQueries) -> None:
        """Store the conditions and keywords of new queries, and scale their regions."""
        self.conditions.add(positions, self.index.add_keywords(new))
        scale(self._queries, self._area, positions)
        self._is_outdated = True

    def note_change(self) -> None:
        """Mark the index as outdated, because other queries are active now."""
        self._is_outdated = True

    def note_removal(self, why: int, staying: bool | Array, matched: Array | None = None) -> None:
        """Update the index if FOR ended the queries, which is after all events; else mark it outdated."""
        if why == ENDED:
            self.index.fill(self.context(staying), matched)
        else:
            self._is_outdated = True

    def changing(self) -> tuple[Array, Array]:
        """Return the positions of queries whose regions `rescale` changes, and those of the active ones."""
        queries = self._queries
        at = will_scale(queries, self._area, np.flatnonzero(queries.until > self._batch.timing.first))
        return at, at[queries.mode[at] == ACTIVE]

    def rescale(self, positions: Array) -> None:
        """Scale regions to the share of their area that load shedding leaves."""
        scale(self._queries, self._area, positions)

    def relocate(self, positions: Array, new: NewQueries) -> None:
        """Replace the regions, conditions and keywords of queries, and scale the new regions."""
        self._queries.relocate(positions, new, self._batch.focal.table)
        self.conditions.exchange(positions, self.index.exchange_keywords(new))
        scale(self._queries, self._area, positions)
        self._is_outdated = True

    def prepare(self, begun: Array, staying: bool | Array, matched: Array | None = None) -> bool:
        """Update the index before the events of a batch; return whether there are queries.

        For `matched` see `StaticRegionIndex.fill`.
        """
        if self._is_outdated or len(begun) or self.index.is_due:
            self.index.fill(self.context(staying), matched)
        if not len(self._queries):
            self.release_cells()
            return False
        return True

    def release_cells(self) -> None:
        """Release the cells of objects, because they are not updated if no query is matched with events."""
        release_cells(self._batch, self._prefix)

    def skip_events(self) -> None:
        """Skip matching for a batch: only count the terms of its records."""
        self.release_cells()
        self.index.count_terms()

    def context(self, staying: bool | Array) -> QueryContext:
        """Return the context of the batch, valid until queries are added or removed."""
        return context_of(self._batch, self._queries, self.conditions, self._prefix, staying=staying)
