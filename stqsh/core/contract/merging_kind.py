"""Kinds whose answers need the objects of all slots: slots offer candidates, and Aggregate merges them."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import QueryKind, QueryLogic, StreamBatch
from stqsh.core.kernels.events.updates import DROPPED
from stqsh.core.output.batch_output import BatchOutput
from stqsh.core.output.merge import MergedUpdates, MergeInput, first_k
from stqsh.core.output.partials import DROP, END, PAUSE, REGISTER, Partials
from stqsh.core.queries.registrations import NewQueries
from stqsh.spec.chunk import Chunk


class MergingKind(QueryKind):
    """A kind whose answers are merged; its logic is a `MergingLogic`."""

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Merge the slots' offers in a batch, and return the updates of the whole answers.

        This runs on the slot of Aggregate that has the queries; the kind keeps its arrays below `prefix` of
        that slot's state. The default is for answers that are the first k by (rank, key).
        """
        return first_k(batch)


class MergingLogic(QueryLogic):
    """The logic of a merging kind, which reports changes of queries to Aggregate.

    `on_events` offers each change of a candidate with `self.partials.offer`. After a pause, candidates that
    have changed or gone since then are offered or taken back at the step in which the query resumes.
    """

    finds_crossings = True

    def __init__(self, kind: QueryKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        self.partials = Partials(batch, kind.name)

    def register(self, positions: Array, new: NewQueries) -> None:
        """Announce new queries to Aggregate."""
        super().register(positions, new)
        self._mark(positions, self.batch.timing.first, REGISTER)

    def pause(self, positions: Array) -> None:
        """Let Aggregate freeze the answers of queries."""
        self._mark(positions, self.batch.timing.first, PAUSE)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Remove queries; Aggregate takes back what they have sent."""
        for step in np.unique(steps).tolist():
            self._mark(positions[steps == step], step, DROP if why == DROPPED else END)
        super().retire(positions, steps, why)

    def chunks(self) -> list[Chunk]:
        """Return the candidates and marks of the batch."""
        return self.partials.chunks()

    def limits(self, positions: Array) -> Array:
        """Return how many members the answers of queries may have, int32 (n,); by default their k."""
        limits: Array = self.queries.k[positions]
        return limits

    def _mark(self, positions: Array, step: int, mark: int) -> None:
        queries = self.queries
        shows = queries.shows_distance[positions] > 0
        self.partials.mark(queries.id[positions], step, mark, self.limits(positions), shows)
