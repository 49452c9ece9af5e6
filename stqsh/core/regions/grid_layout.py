"""The layout of grids: place and cell size. It affects only speed, never answers."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.static_rects import CandidatePairs, GridFrame, RectGrid, build_rect_grid
from stqsh.core.kernels.join.static_join import are_few, by_cell, join_in_order
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.stream import FAR_AWAY, Bounds

MAX_SIDE = 512
"""The most cells in each direction; finer grids need more memory and save hardly any tests."""

MAX_ENTRIES = 1 << 24
"""The most entries in a grid's lists, 36 bytes each; the grid is made coarser to stay below."""

_FEWEST_CELLS, _MOST_CELLS = 2.5, 7.0
"""The width of the median rectangle in cells. Few cells suffice while lists are short. With more cells, more
rectangles contain a whole cell and need no test for objects that stay in the cell."""

_LONG, _ENTRIES = 50, 1 << 21
"""More cells are used if an average place is in more than _LONG rectangles, up to _ENTRIES list entries."""

_AROUND = 3
"""The number of columns, and of rows, of cells around the rectangles, both sides together."""

_TINY = 1e-9
"""The least width and height of a grid."""

_LARGE = 81
"""A rectangle that touches more cells than this is in a coarser grid."""


def frame_over(xs: Array, ys: Array, side: int, bounds: Bounds | None = None) -> GridFrame:
    """Lay a grid of `side` x `side` cells over `bounds` (x1, y1, x2, y2), or else over the points.

    Without bounds, the outermost half per cent of the points on each side falls into the border cells.
    """
    if bounds is None:
        (left, right), (bottom, top) = _spread(xs), _spread(ys)
        bounds = left, bottom, right, top
    # All numbers are float, because kernels are compiled per combination of types. Clamping keeps widths
    # finite, so that no scale is 0.
    x1, y1, x2, y2 = (float(min(max(bound, -FAR_AWAY), FAR_AWAY)) for bound in bounds)
    return GridFrame(x1, y1, side / max(x2 - x1, _TINY), side / max(y2 - y1, _TINY), side)


def _spread(values: Array) -> tuple[float, float]:
    values = np.clip(values[np.isfinite(values)], -FAR_AWAY, FAR_AWAY)
    if not len(values):
        return 0.0, 1.0
    low, high = np.percentile(values, [0.5, 99.5])
    return float(low), float(high)


class StaticRectIndex:
    """Static rectangles in the cells that they touch, in a slot's arrays `{prefix}/…`.

    lattice float64 (5,); start, whole, corners (the rects, flat) and tag as in `RectGrid`.
    """

    def __init__(self, state: SlotState, prefix: str) -> None:
        self._state, self._prefix = state, prefix

    def fill(self, rects: Array, tag: Array, bounds: Bounds | None, side: int | None = None) -> None:
        """Replace the rectangles, float64 (n, 4), and tags, int32 (n,), see `rect_lists`."""
        frame, lists = rect_lists(rects, tag, bounds, side)
        self._state.replace(f"{self._prefix}/lattice", np.array(frame, np.float64))
        self._state.replace(f"{self._prefix}/start", lists.start)
        self._state.replace(f"{self._prefix}/whole", lists.whole)
        self._state.replace(f"{self._prefix}/corners", lists.rects.reshape(-1))
        self._state.replace(f"{self._prefix}/tag", lists.tag)

    def ordered(self, events: Transitions) -> tuple[Array | None, Transitions]:
        """Order events for a fast `join`; return the order, int32 (None if unchanged), and the events."""
        frame, lists = self.lists()
        is_little = not len(lists.tag) or are_few(events, frame)
        return (None, events) if is_little else by_cell(events, frame)

    def join(self, events: Transitions) -> CandidatePairs:
        """Return pairs of events and rectangles, see `kernels.join.static_join.join`; call `fill` first."""
        return join_in_order(events, *self.lists())

    def lists(self) -> tuple[GridFrame, RectGrid]:
        """Return the grid for `join`, after a `fill`."""
        x0, y0, per_x, per_y, side = self._state.array(f"{self._prefix}/lattice").tolist()
        start, whole, rects, tag = (
            self._state.array(f"{self._prefix}/{name}") for name in ("start", "whole", "corners", "tag")
        )
        return GridFrame(x0, y0, per_x, per_y, int(side)), RectGrid(start, whole, rects.reshape(4, -1), tag)


def rect_lists(
    rects: Array, tag: Array, bounds: Bounds | None = None, side: int | None = None
) -> tuple[GridFrame, RectGrid]:
    """List rectangles, float64 (n, 4), with tags, int32 (n,), in a grid of `side`, or a suitable side, cells.

    The grid covers the rectangles, within `bounds`, and a margin. Places elsewhere belong to border cells,
    whose lists are short.
    """
    x1, x2, y1, y2 = *_spread(rects[:, 0::2].ravel()), *_spread(rects[:, 1::2].ravel())
    if bounds is not None:
        x1, x2 = np.clip([x1, x2], bounds[0], bounds[2])
        y1, y2 = np.clip([y1, y2], bounds[1], bounds[3])
    side = side or suitable_side(rects, [x1, y1, x2, y2])
    around_x, around_y = (_AROUND / 2 * max(far - low, _TINY) / side for low, far in ((x1, x2), (y1, y2)))
    within = (x1 - around_x, y1 - around_y, x2 + around_x, y2 + around_y)
    frame = frame_over(rects[:0, 0], rects[:0, 0], side + _AROUND, within)
    return frame, build_rect_grid(rects, tag, frame, _LARGE)


def suitable_side(rects: Array, bounds: list[float]) -> int:
    """Return a side in cells such that the median rectangle is a few cells wide, within limits.

    `rects` is float64 (n, 4); only widths and heights matter.
    """
    rects = rects[~np.isnan(rects[:, 0])]
    if not len(rects):
        return 1
    rects, bounds = np.clip(rects, -FAR_AWAY, FAR_AWAY), np.clip(bounds, -FAR_AWAY, FAR_AWAY).tolist()
    with np.errstate(over="ignore"):
        wide = np.minimum((rects[:, 2] - rects[:, 0]) / max(bounds[2] - bounds[0], _TINY), 1.0)
        high = np.minimum((rects[:, 3] - rects[:, 1]) / max(bounds[3] - bounds[1], _TINY), 1.0)
    usual = float(np.median(wide) * np.median(high)) ** 0.5
    cells = _FEWEST_CELLS
    if float(np.sum(wide * high)) > _LONG:
        cells = min(max(cells, (_ENTRIES / len(rects)) ** 0.5 - 1), _MOST_CELLS)
    by_size = cells / max(usual, cells / MAX_SIDE)
    side = int(min(max(1.0, by_size), 4 * len(rects) ** 0.5, MAX_SIDE))
    while side > 1 and _entries(wide, high, side) > MAX_ENTRIES:
        side //= 2
    return side


def _entries(wide: Array, high: Array, side: int) -> float:
    """Estimate the number of entries of a grid's lists."""
    cells = (wide * side + 1) * (high * side + 1)
    return float(np.sum(np.minimum(cells, _LARGE)))
