"""Margins of cells: lists of the events along a side or at a corner of a cell (STAR section 4.2).

A region touches the cells at its border only in part, so their events must be tested one by one. If past
questions cut through a cell near one of its sides or corners, the events of that margin are listed, so that
the next such question tests these events instead of all events of the cell.

A margin is defined by the distance from its side, or by the square of the distance from its corner, in
floating point. These values never decrease as a place moves away from the side or corner, however they are
rounded. So a margin that reaches the opposite corner of the question's box within the cell contains all
events of the cell that are in the box, exactly.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import StoredArrays
from stqsh.core.snapshots.cache.cells import CellGrid, Extent
from stqsh.core.snapshots.cache.time_slots import TimeSlot, rows_of

Rows = tuple[int, int]

PARTS = ("left side", "right side", "lower side", "upper side", "lower left corner", "lower right corner",
         "upper left corner", "upper right corner")  # fmt: skip
"""The eight margins that a cell may have, by their number."""

_X = np.array([1.0, -1.0, 0.0, 0.0, 1.0, -1.0, 1.0, -1.0])
_Y = np.array([0.0, 0.0, 1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
"""Whether a margin reaches further with greater (1) or with smaller (-1) x and y, or with neither (0)."""

MARGIN_BYTES = 72
"""The bytes of a margin, besides 4 bytes per event."""

_REMEMBERED = 256
"""The most questions in the history."""


class Past(NamedTuple):
    """A past question: its box, and the share of the events in its time."""

    box: tuple[float, float, float, float]
    share: float


@dataclass(frozen=True)
class MarginUse:
    """The margins that replace border cells of a question.

    Attributes:
        margins: the numbers of the margins, int64 (n,).
        cells: the cells of these margins, int64 (n,), ascending.
        rest: the other border cells, int64 (cells,), ascending.
        spared: how many events need not be tested, int64 (n,).
    """

    margins: Array
    cells: Array
    rest: Array
    spared: Array


@dataclass
class Margins:
    """The margins that are kept for the cells of a slot's events, sorted by cell and part.

    Attributes:
        cells, parts: the cell and the part of each margin, int64 (margins,).
        limits: how far each margin reaches, float64 (margins,).
        corners: x and y of the cell's corner from which distances are measured, float64 (margins, 2).
        used: the number of the last question that used each margin, int64 (margins,).
        hits: how many questions used each margin, int64 (margins,).
        spared: how many events were not tested because of each margin, int64 (margins,).
        lists: for the rows of each time slot, the events of all margins, and where the events of each margin
            begin.
        history: past questions.
    """

    cells: Array = field(default_factory=lambda: np.empty(0, np.int64))
    parts: Array = field(default_factory=lambda: np.empty(0, np.int64))
    limits: Array = field(default_factory=lambda: np.empty(0))
    corners: Array = field(default_factory=lambda: np.empty((0, 2)))
    used: Array = field(default_factory=lambda: np.empty(0, np.int64))
    hits: Array = field(default_factory=lambda: np.empty(0, np.int64))
    spared: Array = field(default_factory=lambda: np.empty(0, np.int64))
    lists: dict[Rows, tuple[Array, Array]] = field(default_factory=dict)
    history: deque[Past] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def counts(self) -> Array:
        """The number of events of each margin, over all time slots, int64 (margins,)."""
        total = np.zeros(len(self), np.int64)
        for _, starts in self.lists.values():
            total += np.diff(starts)
        return total

    @property
    def nbytes(self) -> int:
        """The bytes of all margins."""
        lists = sum(rows.nbytes + starts.nbytes for rows, starts in self.lists.values())
        return MARGIN_BYTES * len(self) + lists

    def find(self, border: Array, box: Array, slots: list[TimeSlot]) -> MarginUse:
        """Return the margins with the fewest events that can replace border cells of a question.

        Args:
            border: the cells, int64 (n,), ascending.
            box: the box of the question's region, float64 (4,).
            slots: the time slots whose events are tested.
        """
        able = np.flatnonzero(needs(box, self.parts, self.corners) <= self.limits)
        place = np.searchsorted(border, self.cells[able])
        is_there = border[np.minimum(place, len(border) - 1)] == self.cells[able] if len(border) else []
        able = able[np.flatnonzero(is_there)]
        spared = np.zeros(len(able), np.int64)
        for slot in slots:
            listed = self.lists.get(slot.rows)
            if listed is not None:
                cells, starts = self.cells[able], listed[1]
                spared += slot.starts[cells + 1] - slot.starts[cells] - (starts[able + 1] - starts[able])
        order = np.lexsort((-spared, self.cells[able]))
        able, spared = able[order], spared[order]
        is_best = (np.diff(self.cells[able], prepend=-1) != 0) & (spared > 0)
        able = able[is_best]
        cells = self.cells[able]
        rest = np.delete(border, np.searchsorted(border, cells))
        return MarginUse(able, cells, rest, spared[is_best])

    def note(self, use: MarginUse, question: int) -> None:
        """Record that a question uses margins."""
        self.used[use.margins] = question
        self.hits[use.margins] += 1
        self.spared[use.margins] += use.spared

    def rows(self, use: MarginUse, slots: list[TimeSlot]) -> list[Array]:
        """Return the events of a question's margins in time slots; without a list, those of their cells."""
        pieces = []
        for slot in slots:
            listed = self.lists.get(slot.rows)
            if listed is None:
                pieces.append(rows_of([slot], use.cells, use.cells + 1))
            else:
                rows, starts = listed
                pieces.append(rows[_spread(starts[use.margins], starts[use.margins + 1])[0]])
        return pieces

    def fill(self, stored: StoredArrays, slot: TimeSlot) -> int:
        """List the events of all margins in a time slot, and return how many events were read."""
        at, margin = _spread(slot.starts[self.cells], slot.starts[self.cells + 1])
        rows = slot.order[at]
        distances = distance(stored.x[rows], stored.y[rows], self.parts[margin], self.corners[margin])
        inside = distances <= self.limits[margin]
        starts = np.zeros(len(self) + 1, np.int32)
        np.cumsum(np.bincount(margin[inside], minlength=len(self)), out=starts[1:])
        self.lists[slot.rows] = rows[inside], starts
        return len(rows)

    def forget(self, slots: list[TimeSlot]) -> None:
        """Drop the lists of time slots that were merged into others."""
        for slot in slots:
            self.lists.pop(slot.rows, None)

    def fit(self, budget: float) -> None:
        """Drop the least recently used margins until the rest fits a budget of bytes."""
        if self.nbytes <= budget:
            return
        budget -= 4 * len(self.lists)
        sizes = MARGIN_BYTES + 4 * (self.counts + len(self.lists))
        latest = np.argsort(-self.used, kind="stable")
        keep = np.zeros(len(self), np.bool_)
        keep[latest[np.cumsum(sizes[latest]) <= budget]] = True
        self._keep(keep)

    def replace(self, cells: Array, parts: Array, limits: Array, grid: CellGrid, question: int) -> None:
        """Replace all margins; a margin that stays keeps its statistics."""
        order = np.lexsort((parts, cells))
        older = {key: i for i, key in enumerate(zip(*self._keys(), strict=True))}
        made = cells[order], parts[order], limits[order]
        known = np.array([older.get(key, -1) for key in zip(*(one.tolist() for one in made), strict=True)])
        if len(known) == len(self) and (known >= 0).all():
            return
        stay = known >= 0
        for name, other in (("used", question), ("hits", 0), ("spared", 0)):
            values = np.full(len(known), other, np.int64)
            values[stay] = getattr(self, name)[known[stay]]
            setattr(self, name, values)
        self.cells, self.parts, self.limits = made
        self.corners = corners_of(grid, self.cells, self.parts)
        self.lists.clear()

    def _keys(self) -> tuple[list[int], list[int], list[float]]:
        return self.cells.tolist(), self.parts.tolist(), self.limits.tolist()

    def _keep(self, keep: Array) -> None:
        """Keep only the marked margins, bool (margins,)."""
        for rows, (listed, starts) in self.lists.items():
            lengths = np.diff(starts)
            begin = np.zeros(int(keep.sum()) + 1, np.int32)
            np.cumsum(lengths[keep], out=begin[1:])
            self.lists[rows] = listed[np.repeat(keep, lengths)], begin
        for name in ("cells", "parts", "limits", "corners", "used", "hits", "spared"):
            setattr(self, name, getattr(self, name)[keep])


def distance(x: Array, y: Array, parts: Array, corners: Array) -> Array:
    """Return how far places are within margins, float64 (n,), for comparison with the margins' limits.

    Args:
        x, y: the places, float64 (n,).
        parts: the part of each margin, int64 (n,).
        corners: the corner of each margin, float64 (n, 2).
    """
    along_x, along_y = _X[parts], _Y[parts]
    with np.errstate(invalid="ignore", over="ignore"):
        straight = np.where(along_x != 0, along_x * x, along_y * y)
        right = np.maximum(along_x * x - along_x * corners[:, 0], 0.0)
        up = np.maximum(along_y * y - along_y * corners[:, 1], 0.0)
        found: Array = np.where(parts < 4, straight, right * right + up * up)
    return found


def needs(box: Array, parts: Array, corners: Array) -> Array:
    """Return how far margins must reach to contain the part of a box in their cells, float64 (n,)."""
    x1, y1, x2, y2 = box.tolist()
    x, y = np.where(_X[parts] < 0, x1, x2), np.where(_Y[parts] < 0, y1, y2)
    return distance(x, y, parts, corners)


def corners_of(grid: CellGrid, cells: Array, parts: Array) -> Array:
    """Return the corners of cells from which the distances of margins are measured, float64 (n, 2)."""
    columns, rows = grid.places_of(cells)
    side, area = 1 << grid.depth, grid.area
    with np.errstate(invalid="ignore"):  # infinite places, or an area without places
        x = area.x1 + (columns + (_X[parts] < 0)) * ((area.x2 - area.x1) / side)
        y = area.y1 + (rows + (_Y[parts] < 0)) * ((area.y2 - area.y1) / side)
    return np.stack([x, y], axis=1)


def margin_area(margins: Margins, number: int, grid: CellGrid) -> Extent:
    """Return the area of a margin; for a corner, the box around the margin within its cell."""
    part, limit = int(margins.parts[number]), float(margins.limits[number])
    columns, rows = grid.places_of(margins.cells[number : number + 1])
    side, area = 1 << grid.depth, grid.area
    width, height = (area.x2 - area.x1) / side, (area.y2 - area.y1) / side
    x1, y1 = area.x1 + float(columns[0]) * width, area.y1 + float(rows[0]) * height
    x2, y2, reach = x1 + width, y1 + height, max(limit, 0.0) ** 0.5
    right = (limit, -limit, x2, x1, x1 + reach, x2 - reach, x1 + reach, x2 - reach)[part]
    up = (y2, y1, limit, -limit, y1 + reach, y1 + reach, y2 - reach, y2 - reach)[part]
    return Extent(
        max(x1, right) if _X[part] < 0 else x1,
        max(y1, up) if _Y[part] < 0 else y1,
        x2 if _X[part] < 0 else min(x2, right) if _X[part] > 0 else x2,
        y2 if _Y[part] < 0 else min(y2, up) if _Y[part] > 0 else y2,
    )


def _spread(begin: Array, end: Array) -> tuple[Array, Array]:
    """Return all numbers in ranges, and for each the number of its range, int64 (n,) both."""
    lengths = (end - begin).astype(np.int64)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    shift = np.repeat(begin - (np.cumsum(lengths) - lengths), lengths)
    return shift + np.arange(len(owner)), owner
