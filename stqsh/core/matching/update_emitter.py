"""Emit updates of queries with regions; add distances and the reason `shed`."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.versions import gather
from stqsh.core.kernels.geometry.distance import distances_between
from stqsh.core.kernels.jit import frozen
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.matching.region_scaling import with_shed_reasons
from stqsh.core.output.batch_output import BatchOutput, QueryUpdates


class UpdateEmitter:
    """Emits updates of a context's queries, given by position, with DISTANCE if it is selected."""

    def __init__(self, context: QueryContext, report: BatchOutput) -> None:
        self._context, self._queries, self._report = context, context.queries, report

    def emit_end(self, step: int, query: Array, why: int, versions: Array) -> None:
        """Emit removals of members at the start of a step, with their rows before it."""
        count = len(query)
        whys = np.full(count, why, np.int8)
        updates = QueryUpdates(np.full(count, step), query, np.full(count, -1, np.int8), whys, versions)
        self.emit(updates, np.full(count, step - 1))

    def emit(self, updates: QueryUpdates, asof: Array | None = None) -> None:
        """Emit updates whose queries are given by position.

        `asof`, int64 (n,), gives the steps after which distances are measured; by default those of the
        updates.
        """
        if not len(updates.step):
            return
        updates = with_shed_reasons(self._context, updates)
        query, show = updates.query.astype(np.int32, copy=False), updates.show.astype(np.int64, copy=False)
        far = self._distances(query, show, updates.step if asof is None else asof)
        self._report.add(updates._replace(query=query, show=show, distance=far), self._queries)

    def _distances(self, query: Array, show: Array, steps: Array) -> Array | None:
        """Return the distances of shown rows, NaN for queries without DISTANCE; None if all are without."""
        far = self._queries.shows_distance
        asking = np.flatnonzero(far[query]) if far.any() else np.empty(0, np.int64)
        if not len(asking):
            return None
        movement, out = self._context.batch.objects, np.full(len(query), np.nan)
        rows, stored = movement.sources
        shown = np.where(show < movement.versions, show, -1)[asking]
        if self._context.batch.spec.extent is not None:
            out[asking] = self._context.distances(query[asking], shown, steps[asking])
            return out
        x, y = (
            gather(frozen(old), frozen(new), shown) for old, new in ((stored.x, rows.x), (stored.y, rows.y))
        )
        x[shown < 0] = np.nan
        centre = self._context.centres(query[asking], steps[asking])
        out[asking] = distances_between(*centre, x, y, self._context.planar)
        return out
