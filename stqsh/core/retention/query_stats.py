"""Measure queries between two batches: their own regions, the objects inside, and the regions' areas."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import BatchTiming
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.query_context import QueryContext, context_of
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.core.objects.object_table import ObjectTable
from stqsh.core.queries.query_table import ACTIVE, AREA, CIRCLE, digest
from stqsh.core.retention import region_sizes
from stqsh.core.retention.interest_table import CIRCLING, InterestTable
from stqsh.core.retention.knn_interest import KnnInterest
from stqsh.core.retention.region_sizes import cache_distance
from stqsh.core.state.retention_mode import memory_of
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.stream import StreamSpec


class ProperRegions(InterestTable):
    """A read-only view of an `InterestTable` with the queries' own regions, without cache areas."""

    def array(self, name: str) -> Array:
        """Return an array; arrays of regions do not include cache areas."""
        values = super().array(name)
        if name not in ("x2", "radius"):
            return values
        moving = (self.focal >= 0) & (self.k == 0)
        if name == "x2":
            return np.where(moving, np.nan, values)
        left = self.own_radius if self.shares is None else self.own_radius * np.sqrt(self.shares)
        return np.where(moving & (self.shape == CIRCLE), left, values)


@dataclass(frozen=True)
class QuerySizes:
    """Sizes of queries, (n,) each.

    Attributes:
        inside: Kept objects in the query's own region, int64.
        area: The area of that region, float64.
        extended: The area of the extended region, float64.
    """

    inside: Array
    area: Array
    extended: Array


def private_copy(state: SlotState, stream: int) -> SlotState:
    """Copy a stream's arrays and the polygons.

    Published arrays are read-only, and kernels would have to be compiled separately for them.
    """
    names = state.names((f"s{stream}/", "areas/"))
    lengths = {name: len(state.array(name)) for name in names}
    return SlotState({**state.header, "lengths": lengths}, {name: state.array(name).copy() for name in names})


def at_rest(state: SlotState, spec: StreamSpec) -> StreamBatch:
    """Return a batch without steps, whose state is that after the slot's last step."""
    clock, prefix = state.clock, f"s{spec.id}"
    last = clock.step
    report = -1 if spec.report_every_us is None else spec.report_every_us
    timing = BatchTiming(last + 1, last, clock.base_tick or 0, clock.tick_us or 1, report)
    objects = ObjectTable(state, f"{prefix}/objects", spec)
    focal = ObjectTable(state, f"{prefix}/focal", spec, columns=False)
    return StreamBatch(
        state, spec, timing, BatchObjects(objects, [], timing), BatchObjects(focal, [], timing), digest([])
    )


def sizes_of(state: SlotState, spec: StreamSpec, at: Array) -> QuerySizes:
    """Return the sizes of the queries at these positions of the interest table."""
    batch = at_rest(state, spec)
    table = InterestTable(state, spec.id)
    last, memory = batch.timing.last, memory_of(state, spec.id)
    distance = cache_distance(spec, batch.timing.tick, memory.factor * memory.cache)
    near = KnnInterest(batch, distance)
    extended = _context(batch, table)
    proper = replace(extended, queries=ProperRegions(state, spec.id))
    mode = table.mode[at]
    inside = np.zeros(len(table), np.int64)
    members = proper.members(at[mode == ACTIVE], last)
    inside += np.bincount(members.query, minlength=len(table))
    inside += np.minimum(near.neighbours(table), table.held)  # some are kept only for other queries
    radius = near.radii(extended, at[mode == CIRCLING])
    areas = []
    for context, more in ((proper, 0.0), (extended, distance)):
        area = _areas(context, at, last)
        looks = np.where(table.focal[at[mode == CIRCLING]] >= 0, 3.0, 1.0) * more
        own = region_sizes.circles(radius + looks, context.planar)
        own[np.isnan(context.centres(at[mode == CIRCLING], np.full(len(radius), last))[0])] = np.nan
        area[mode == CIRCLING] = own
        areas.append(area)
    return QuerySizes(inside[at], *areas)


def _context(batch: StreamBatch, table: InterestTable) -> QueryContext:
    conditions = QueryConditions(batch.state, table.prefix, table, batch.objects, batch.focal)
    return context_of(batch, table, conditions, table.prefix)


def _areas(context: QueryContext, at: Array, step: int) -> Array:
    """Return the areas of regions after a step, float64 (n,); NaN while a focal object is absent."""
    queries, planar = context.queries, context.planar
    out = region_sizes.boxes(context.boxes(at, step), planar)
    x, _ = context.centres(at, np.full(len(at), step))
    rounds = queries.shape[at] == CIRCLE
    out[rounds] = np.where(
        np.isnan(x[rounds]), np.nan, region_sizes.circles(queries.radius[at[rounds]], planar)
    )
    shaped = np.flatnonzero(queries.shape[at] == AREA)
    if len(shaped):
        shares = queries.shares
        left = 1.0 if shares is None else shares[at[shaped]]
        out[shaped] = left * region_sizes.polygons(context.batch.state, queries.area[at[shaped]], planar)
    return out
