"""Kinds whose answers need the objects of all slots: slots offer candidates, and Aggregate merges them."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import QueryKind, QueryLogic, StreamBatch
from stqsh.core.kernels.events.updates import DROPPED, ENDED
from stqsh.core.output.batch_output import BatchOutput
from stqsh.core.output.merge import MergedUpdates, MergeInput, first_k
from stqsh.core.output.partials import DROP, END, PAUSE, REGISTER, RESIZE, Partials
from stqsh.core.queries.query_table import ACTIVE
from stqsh.core.queries.registrations import NewQueries
from stqsh.spec.chunk import Chunk
from stqsh.spec.query import GroupForm


class MergingKind(QueryKind):
    """A kind whose answers are merged; its logic is a `MergingLogic`.

    Attributes:
        holds_back: Whether Aggregate applies DWELL to the merged rows. If not, the kind does so itself.
    """

    holds_back: bool = True

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Merge the slots' offers in a batch, and return the updates of the whole answers.

        This runs on the slot of Aggregate that has the queries; the kind keeps its arrays below `prefix` of
        that slot's state. The default merges answers that are the first k by (rank, key).
        """
        return first_k(batch)


class MergingLogic(QueryLogic):
    """The logic of a merging kind, which reports changes of queries to Aggregate.

    `on_events` offers each change of a candidate with `self.partials.offer`. After a pause, candidates that
    have changed or gone since then are offered or taken back at the step in which the query resumes.
    """

    finds_crossings = True
    is_merged = True

    def __init__(self, kind: QueryKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        self.partials = Partials(batch, kind.name)

    def register(self, positions: Array, new: NewQueries) -> None:
        """Announce new queries to Aggregate."""
        super().register(positions, new)
        self._mark(positions, self.batch.timing.first, REGISTER)
        self._add_up(positions, new)

    def pause(self, positions: Array) -> None:
        """Mark queries as paused, so that Aggregate freezes their answers."""
        self._mark(positions, self.batch.timing.first, PAUSE)

    def resize(self, positions: Array) -> None:
        """Announce the `limits` of altered queries to Aggregate.

        They count from the next step in which the slots offer candidates of the query.
        """
        if len(positions):
            self._mark(positions, self.batch.timing.first, RESIZE)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Remove queries, and mark them so that Aggregate retracts their answers."""
        if why == ENDED:
            self._hold(positions)
        for step in np.unique(steps).tolist():
            self._mark(positions[steps == step], step, DROP if why == DROPPED else END)
        super().retire(positions, steps, why)

    def chunks(self) -> list[Chunk]:
        """Return the candidates and marks of the batch."""
        self._hold(np.arange(len(self.queries)))
        return self.partials.chunks()

    def limits(self, positions: Array) -> Array:
        """Return the maximum number of members of each query's answer, int32 (n,); by default its k."""
        limits: Array = self.queries.k[positions]
        return limits

    def syncs(self) -> Array:
        """Return the SYNC of each query, µs, int64 (queries,); by default 0, for following every step."""
        return np.zeros(len(self.queries), np.int64)

    def _add_up(self, positions: Array, new: NewQueries) -> None:
        """Send the aggregates of queries whose merged rows are added up."""
        mine = new.spread([spec.adds_up_rows for spec in new.patterns], np.bool_)
        if mine.any():
            texts = [
                "" if spec.aggregates is None else GroupForm(spec.aggregates, spec.timing.looks).text
                for spec in new.patterns
            ]
            self.partials.add_up(self.queries.id[positions[mine]], texts, new.which[mine])

    def _hold(self, positions: Array) -> None:
        """Report active queries with DWELL, so that Aggregate sends their changes that are due."""
        queries = self.queries
        held = positions[(queries.dwell[positions] > 0) & (queries.mode[positions] == ACTIVE)]
        if len(held):
            self.partials.hold(queries.id[held], queries.dwell[held], self.syncs()[held])

    def _mark(self, positions: Array, step: int, mark: int) -> None:
        queries = self.queries
        shows = queries.shows_distance[positions] > 0
        self.partials.mark(queries.id[positions], step, mark, self.limits(positions), shows)
