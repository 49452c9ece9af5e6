"""Leave out members whose boxes show that they are not among the nearest objects with an extent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.groups.group_deltas import MemberChanges
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.top_n.orders import QueryOrders, TopNQueries
from stqsh.spec.expression import ExtentDistanceExpr


def near_changes(
    changes: MemberChanges, queries: TopNQueries, orders: QueryOrders, conditions: QueryConditions
) -> MemberChanges:
    """Leave out the changes of members that are too far away to be among the first n of their query.

    Idea: a box is at least as near as its extent. Take n members that are there from a query's first change
    on, with the same record throughout the batch, and let D be the largest of their distances. At each step
    n members are within D, so a member whose box is beyond D is never among the first n. Cost: a distance to
    a box for each change, and distances to extents only for the n nearest boxes of each query.
    """
    nearest = _nearest(queries, orders)
    if not nearest:
        return changes
    from stqsh.core.conditions import extents as shapes  # shapely: only when needed

    place = np.full((2, len(queries.form)), np.nan)
    for form, one in nearest.items():
        place[:, queries.form == form] = np.array([one.place], np.float64).T
    is_mine = ~np.isnan(place[0])[changes.query]
    mine = MemberChanges(*(column[is_mine] for column in changes))
    is_shown = np.zeros(int(mine.version.max(initial=-1)) + 1, np.bool_)
    is_shown[mine.version] = True
    shown, position = np.flatnonzero(is_shown), (np.cumsum(is_shown) - 1)[mine.version]
    [(extent, planar)] = {(one.extent, one.planar) for one in nearest.values()}
    column = conditions.coded(extent, shown)
    assert column is not None, "a column of extents is a text"
    extents, (x, y) = shapes.extents_of(column).take(position), place[:, mine.query]
    least = shapes.least_distances(extents, x, y, planar)
    staying = np.flatnonzero(_stay(mine, len(queries.form)) & ~np.isnan(least))
    staying = staying[np.argsort(mine.query[staying], kind="stable")]
    start = np.searchsorted(mine.query[staying], np.arange(len(queries.form) + 1))
    within = np.full(len(queries.form), np.inf)
    for query in np.flatnonzero((queries.limit > 0) & (np.diff(start) >= queries.limit)).tolist():
        there, n = staying[start[query] : start[query + 1]], int(queries.limit[query])
        first = there[np.argpartition(least[there], n - 1)[:n]]
        within[query] = shapes.distances(extents.take(first), x[first], y[first], planar).max()
    kept = ~is_mine
    kept[is_mine] = ~(least > within[mine.query])
    return MemberChanges(*(column[kept] for column in changes))


class _Nearest(NamedTuple):
    """An order by the distance of extents, a column, from a constant place, the nearest first."""

    extent: str
    place: tuple[float, float]
    planar: bool


def _nearest(queries: TopNQueries, orders: QueryOrders) -> dict[int, _Nearest]:
    """Return the orders by distance among those of the queries, by form."""
    found = {}
    for form in np.unique(queries.form[queries.form >= 0]).tolist():
        first = orders.spec(form).order[:1]
        if first and not first[0].is_descending and isinstance(first[0].value, ExtentDistanceExpr):
            value = first[0].value
            if value.place is not None:
                found[form] = _Nearest(value.extent.name, value.place, value.planar)
    return found


def _stay(changes: MemberChanges, queries: int) -> Array:
    """Return which changes are members of a query's first step of coming that never leave; bool (n,)."""
    come = changes.sign > 0
    first = np.full(queries, np.iinfo(np.int64).max)
    np.minimum.at(first, changes.query[come], changes.step[come])
    codes = changes.query.astype(np.int64) * (int(changes.version.max(initial=0)) + 1) + changes.version
    stays: Array = come & (changes.step == first[changes.query]) & ~np.isin(codes, np.unique(codes[~come]))
    return stays
