"""Regions that are temporarily reduced: query load shedding (SOLE section 6.3).

If a query keeps the share a of its region's area, its region is scaled by sqrt(a) in both directions about
its centre. This applies to a rectangle's sides and a circle's radius, fixed or moving; polygons and areas
are scaled about the centre of their box. A rectangle from -180 to 180 keeps its width, and the share a of its
height, because the binder makes such a box around a region over the 180th meridian, whose parts are at the
ends of the box. All readers of a table's regions see the scaled ones. While some query of the table is
scaled, the regions as registered are stored too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.updates import LEFT, SHED
from stqsh.core.kernels.events.versions import gather
from stqsh.core.kernels.jit import frozen
from stqsh.core.queries.query_table import CIRCLE, REGION, QueryTable

if TYPE_CHECKING:
    from stqsh.core.matching.query_context import QueryContext
    from stqsh.core.output.batch_output import QueryUpdates


class UnscaledRegions(QueryTable):
    """A read-only table of scaled queries that shows their regions as registered."""

    def array(self, name: str) -> Array:
        """Return an array; those of regions are as they were registered."""
        return super().array(f"whole/{name}" if name in REGION else name)

    @property
    def shares(self) -> Array | None:
        """None: no region is scaled."""
        return None


def will_scale(queries: QueryTable, area: float, which: Array | None = None) -> Array:
    """Return the positions that `scale` would change, among the given ones or all; int64, ascending."""
    which = np.arange(len(queries)) if which is None else which
    which = which[_scalable(queries, which)]
    before = np.ones(len(which)) if queries.shares is None else queries.shares[which]
    changing: Array = which[_shares(queries, area, which) != before]
    return changing


def scale(queries: QueryTable, area: float, which: Array | None = None) -> None:
    """Scale regions to a share of their area, but none below its query's minimum accuracy.

    Args:
        queries: The table.
        area: The share, 0 .. 1; 1 restores the regions bit by bit.
        which: Positions of the queries to scale, all by default. Queries without a region and kNN queries do
            not change.
    """
    at = will_scale(queries, area, which)
    shares = np.ones(len(queries)) if queries.shares is None else queries.shares.copy()
    if len(at):
        shares[at] = _shares(queries, area, at)
        queries.set_shares(shares)
        _set_regions(queries, at, shares[at])
    if queries.shares is not None and (shares == 1).all():  # the scaled queries may have been removed
        queries.set_shares(None)


def _shares(queries: QueryTable, area: float, at: Array) -> Array:
    shares: Array = np.clip(np.maximum(area, queries.min_accuracy[at]), 0.0, 1.0)
    return shares


def _scalable(queries: QueryTable, at: Array) -> Array:
    """Return whether queries have a bounded region; bool (n,)."""
    x1, y1, radius = (queries.whole(name)[at] for name in ("x1", "y1", "radius"))
    ends = np.where(queries.shape[at] == CIRCLE, np.isfinite(radius), np.isfinite(x1) & np.isfinite(y1))
    scalable: Array = ends & (queries.k[at] == 0)
    return scalable


def _set_regions(queries: QueryTable, at: Array, shares: Array) -> None:
    """Write the regions at positions, scaled to shares of their areas, to the table's columns."""
    factor = np.sqrt(shares)
    for name in REGION:
        queries.array(name)[at] = queries.whole(name)[at]
    rounds = queries.shape[at] == CIRCLE
    queries.radius[at[rounds]] *= factor[rounds]
    moving = queries.focal[at] >= 0
    for side in (queries.width, queries.height):
        side[at[moving]] *= factor[moving]
    boxed = ~moving & ~rounds & (shares < 1)
    at, factor = at[boxed], factor[boxed]
    round_the_earth = (queries.x1[at] == -180) & (queries.x2[at] == 180)
    across, up = np.where(round_the_earth, 1.0, factor), np.where(round_the_earth, factor**2, factor)
    for low, high, part in ((queries.x1, queries.x2, across), (queries.y1, queries.y2, up)):
        first, last = low[at], high[at]
        middle = (first + last) / 2
        low[at] = middle + (first - middle) * part
        high[at] = middle + (last - middle) * part


def factors(queries: QueryTable, at: Array) -> Array | None:
    """Return the scale factor of each region in both directions, (n,); None if none is scaled."""
    return None if queries.shares is None else np.sqrt(queries.shares[at])


def with_shed_reasons(context: QueryContext, updates: QueryUpdates) -> QueryUpdates:
    """Set the reason of updates to `shed` for objects that left only the scaled region.

    Such an object is still in the region as registered.
    """
    shares, objects = context.queries.shares, context.batch.objects
    if shares is None or not len(updates.step):
        return updates
    left = (updates.op < 0) & (updates.why == LEFT) & (updates.show < objects.versions)
    at = np.flatnonzero(left & (shares[updates.query] < 1))
    if not len(at):
        return updates
    why = updates.why.copy()
    for step in np.unique(updates.step[at]).tolist():
        some = at[updates.step[at] == step]
        why[some[_is_cut_off(context, updates.query[some], updates.show[some], step)]] = SHED
    return updates._replace(why=why)


def _is_cut_off(context: QueryContext, query: Array, versions: Array, step: int) -> Array:
    """Return whether versions are in the queries' whole regions after a step, but not in the scaled ones.

    The result is bool (n,). Places are those of the versions, even for objects forgotten in the step.
    """
    objects = context.batch.objects
    rows, stored = objects.sources
    x, y = (
        gather(frozen(old), frozen(new), versions.astype(np.int64))
        for old, new in ((stored.x, rows.x), (stored.y, rows.y))
    )
    whole = replace(context, queries=UnscaledRegions(context.queries.state, context.queries.prefix))
    cut_off: Array = whole.within(query, x, y, step) & ~context.within(query, x, y, step)
    return cut_off
