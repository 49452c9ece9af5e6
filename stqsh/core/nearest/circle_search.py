"""Find circles that contain enough objects, and their members (SSTD section 6.2, CheetahGIS section VI-A)."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.inverted_lists import SearchCentres
from stqsh.core.kernels.index.nearest_cells import (
    PlaceGrid,
    build_place_grid,
    wanted_distances,
    within_distances,
)
from stqsh.core.kernels.index.static_rects import IS, CandidatePairs
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.nearest.text_filter import TextFilter
from stqsh.core.objects.batch_objects import arrivals_at
from stqsh.core.regions.grid_layout import frame_over

_MAX_SIDE = 512
_PLACES_A_CELL = 4
_SAMPLE = 4096
_AT_ONCE = 1 << 22
"""Objects, summed over queries, that are tested in one portion, which bounds the memory."""


class SearchCircles(NamedTuple):
    """Circles of queries, (n,) each.

    Attributes:
        position: The query's position, int64.
        x, y: The centre, float64; NaN for none.
        radius: float64.
    """

    position: Array
    x: Array
    y: Array
    radius: Array


class CircleSearch:
    """A search by cells among the objects that are present after a step.

    Args:
        context: The queries.
        step: The step.
        among: Only these objects, int32, ascending; all if None.
    """

    def __init__(self, context: QueryContext, step: int, among: Array | None = None) -> None:
        self._context, self._step, self._among = context, step, among

    @cached_property
    def present(self) -> Transitions:
        """All objects that are present, as events of their arrival."""
        return arrivals_at(self._context.batch.objects, self._step, self._among)

    def __len__(self) -> int:
        return len(self.present.obj)

    @cached_property
    def _cells(self) -> PlaceGrid:
        x, y = self.present.nx, self.present.ny
        side = int(np.clip((len(x) / _PLACES_A_CELL) ** 0.5, 1, _MAX_SIDE))
        some = slice(None, None, max(1, len(x) // _SAMPLE))
        return build_place_grid(x, y, frame_over(x[some], y[some], side))

    @cached_property
    def _asking(self) -> TextFilter:
        return TextFilter(self._context, self.present)

    def members(self, circles: SearchCircles) -> tuple[Array, Array]:
        """Return the objects in circles that satisfy the conditions, as lists by circle (`MemberTable`)."""
        count = np.zeros(len(circles.x) + 1, np.int64)
        found = []
        for some in _portions(np.full(len(circles.x), min(len(self), 4096))):
            circle, event = self._satisfying(SearchCircles(*(column[some] for column in circles)))
            count[1:] += np.bincount(some[circle], minlength=len(circles.x))
            found.append(self.present.obj[event])
        return np.cumsum(count), np.concatenate([*found, np.empty(0, np.int32)])

    def _satisfying(self, circles: SearchCircles) -> tuple[Array, Array]:
        """Return pairs of circles, ascending, and present objects inside that can be members."""
        context = self._context
        circle, event = self._within(circles)
        query = circles.position[circle].astype(np.int32)
        pairs = CandidatePairs(event, query, np.full(len(event), IS, np.uint8))
        holds = context.conditions.filter_pairs(pairs, self.present).flags != 0
        holds &= context.focals[query] != self.present.obj[event]
        return circle[holds], event[holds]

    def _within(self, circles: SearchCircles) -> tuple[Array, Array]:
        """Return pairs of circles, ascending, and objects inside; with keywords only objects that match."""
        row, planar = self._asking.rows(circles.position), self._context.planar
        plain, asking = np.flatnonzero(row < 0), np.flatnonzero(row >= 0)
        x, y, radius = (column[plain] for column in circles[1:])
        circle, event = within_distances(self._cells, x, y, radius, planar)
        if not len(asking):
            return circle, event
        centres = SearchCentres(row[asking], circles.x[asking], circles.y[asking])
        among, those = self._asking.within(centres, circles.radius[asking])
        circle, event = np.concatenate([plain[circle], asking[among]]), np.concatenate([event, those])
        order = np.argsort(circle, kind="stable")
        return circle[order].astype(np.int32), event[order]

    def _distances(self, circles: SearchCircles, want: Array) -> Array:
        """Return the distance that covers `want` objects; with keywords only objects that match count."""
        row, planar = self._asking.rows(circles.position), self._context.planar
        plain, asking = np.flatnonzero(row < 0), np.flatnonzero(row >= 0)
        out = np.empty(len(row), np.float64)
        out[plain] = wanted_distances(self._cells, circles.x[plain], circles.y[plain], want[plain], planar)
        centres = SearchCentres(row[asking], circles.x[asking], circles.y[asking])
        out[asking] = self._asking.distances(centres, want[asking])
        return out

    def radii(self, circles: SearchCircles, goal: Array, want: Array) -> Array:
        """Return a radius for each centre that covers about `want` objects, with at least `goal` that count.

        The result is float64: infinite if there are too few objects in all, 0 without a centre. The radii of
        `circles` are ignored. If few objects satisfy a condition, `want`, int64 (n,), is raised in place.
        """
        out = np.zeros(len(circles.x), np.float64)
        todo = np.flatnonzero(~np.isnan(circles.x))
        while len(todo):
            few = []
            for some in _portions(np.minimum(want[todo], len(self))):
                at = todo[some]
                near = SearchCircles(*(column[at] for column in circles))
                out[at] = self._distances(near, want[at])
                few.append(self._too_few(near._replace(radius=out[at]), goal[at], at, want))
            todo = np.concatenate(few)
        return out

    def _too_few(self, circles: SearchCircles, goal: Array, at: Array, want: Array) -> Array:
        """Return the circles with too few members, and raise their `want`."""
        checked = self._context.queries.template[circles.position] >= 0
        mine = np.flatnonzero(checked & np.isfinite(circles.radius))
        if not len(mine):
            return at[:0]
        circle, _ = self._satisfying(SearchCircles(*(column[mine] for column in circles)))
        held = np.bincount(circle, minlength=len(mine))
        few = held < goal[mine]
        growth = np.clip(2 * goal[mine] / np.maximum(held, 1), 2, 16)
        want[at[mine[few]]] = np.ceil(want[at[mine]] * growth)[few].astype(np.int64)
        return at[mine[few]]


def _portions(sizes: Array) -> list[Array]:
    """Return the indices 0 .. n - 1 in portions whose sizes add up to at most about _AT_ONCE."""
    portion = np.cumsum(sizes) // _AT_ONCE
    return np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(portion)) + 1)
