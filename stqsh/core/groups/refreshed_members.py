"""The members of queries at a refresh: of what was stored before its step, as of its instant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.aggregates.states import States
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.groups.group_deltas import GroupDeltas, MemberChanges
from stqsh.core.groups.refresh_times import Refresh, timing_at
from stqsh.core.kernels.events.transitions import places_after, places_at
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.query_context import QueryContext, context_of
from stqsh.core.objects.batch_objects import BatchObjects, ObjectPlaces
from stqsh.core.queries.query_table import QueryTable
from stqsh.spec.aggregate import AggregateSpec

Array = npt.NDArray[Any]


class ObjectsAsOf(BatchObjects):
    """The objects of a batch before a step, present or not as of an instant."""

    def __init__(self, objects: BatchObjects, refresh: Refresh) -> None:
        self.table, self.rows, self.stored = objects.table, objects.rows, objects.stored
        self.sources, self.numbers, self.versions = objects.sources, objects.numbers, objects.versions
        self.removals = objects.removals
        self.timing = timing_at(objects.timing, refresh)
        self._places = {}
        self._objects, self._before = objects, refresh.step - 1

    def at(self, step: int) -> ObjectPlaces:
        """Return all objects as of the instant; `step` is that of the refresh."""
        if step not in self._places:
            versions = self._objects.at(self._before).versions
            x, y = places_at(versions, step, self.rows.arrays, self.stored, self.timing)
            gone = self.removals.cover(versions, self._before)
            x[gone] = y[gone] = np.nan
            self._places = {step: ObjectPlaces(versions, x, y)}
        return self._places[step]

    def places(self, objects: Array, steps: Array) -> tuple[Array, Array]:
        """Return the place of each object as of the instant, float64 (n,) each; NaN if it is not present."""
        versions = self._objects.versions_after(objects, np.full(len(objects), self._before))
        x, y = places_after(versions, steps.astype(np.int64), *self.sources, self.timing)
        gone = self.removals.cover(versions, self._before)
        x[gone] = y[gone] = np.nan
        return x, y

    def times(self, versions: Array) -> Array:
        """Return the times of versions in µs, int64 (n,)."""
        times: Array = np.concatenate([self.stored.ts[: self.numbers.objects], self.rows.arrays.ts])[versions]
        return times


class RefreshedMembers:
    """Finds the members of queries at one refresh of a batch."""

    def __init__(self, batch: StreamBatch, queries: QueryTable, prefix: str, refresh: Refresh) -> None:
        self._objects = ObjectsAsOf(batch.objects, refresh)
        self._refresh = refresh
        as_of = replace(
            batch,
            timing=self._objects.timing,
            objects=self._objects,
            focal=ObjectsAsOf(batch.focal, refresh),
        )
        conditions = QueryConditions(batch.state, prefix, queries, self._objects)
        self._context: QueryContext = context_of(as_of, queries, conditions, prefix)
        self._deltas = GroupDeltas(conditions, self._objects.versions, self._objects.timing, queries.id)

    def of(self, positions: Array, window_us: Array) -> MemberChanges:
        """Return the members of queries, which all come.

        Args:
            positions: The positions of the queries.
            window_us: The WINDOW of each query of the table by position, µs; -1 for none.
        """
        step, instant = self._refresh
        found = self._context.members(positions, step)
        window = window_us[found.query]
        times = self._objects.times(found.version)
        inside = (window < 0) | ((times >= instant - window) & (times < instant))
        query, version = found.query[inside], found.version[inside]
        count = len(query)
        return MemberChanges(query, np.full(count, step), version, np.ones(count, np.int8))

    def groups(
        self, spec: AggregateSpec, members: MemberChanges, ending: int | None = None
    ) -> Iterator[States]:
        """Yield what members of queries of one spec add up to, or take away in the step `ending`."""
        found = self._deltas.of_members(
            spec, members if ending is None else members._replace(sign=-members.sign)
        )
        if found is not None and ending is not None:
            step = pa.array(np.full(found.by.num_rows, ending))
            found = found._replace(by=found.by.set_column(1, "step", step))
        if found is not None:
            yield found
