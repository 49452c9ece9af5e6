"""Choose which margins of cells to keep: STAR's greedy choice by load and space (section 4.2).

The value of a margin is the number of events that past questions would not have tested with it (definition
4.5). The limits to choose from are those that past questions needed. The margins that save the most tests for
each event that they list are taken first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import StoredArrays
from stqsh.core.snapshots.cache.cells import CellBox, CellGrid
from stqsh.core.snapshots.cache.margins import MARGIN_BYTES, PARTS, Past, corners_of, distance, needs
from stqsh.core.snapshots.cache.time_slots import TimeSlots, rows_of

LEAST = 32
"""A cell with fewer events than this is always read whole."""

_MOST_CELLS = 256
"""The most cells that are considered: those of which past questions read the most events."""


@dataclass
class _CellChoice:
    """The margins that a cell may have.

    Attributes:
        cell: the number of the cell.
        parts, limits, counts: the candidate margins, and the number of events that each lists; (n,) each.
        serves: whether a margin can replace the cell in a past question, bool (n, questions).
        shares: the weight of each question, float64 (questions,).
        events: the number of events of the cell.
        taken: the margins that are taken.
        left: the margins that may still be taken, bool (n,).
    """

    cell: int
    parts: Array
    limits: Array
    counts: Array
    serves: Array
    shares: Array
    events: int
    taken: list[int] = field(default_factory=list)
    left: Array = field(init=False)

    def __post_init__(self) -> None:
        self.left = np.ones(len(self.parts), np.bool_)

    def gains(self) -> Array:
        """Return how many fewer events questions would test with one more margin, float64 (n,).

        The new margin replaces the margins that it covers.
        """
        now = np.full(len(self.shares), float(self.events))
        then = np.full(self.serves.shape, float(self.events))
        for i in self.taken:
            now = np.where(self.serves[i], np.minimum(now, self.counts[i]), now)
            stays = ~((self.parts == self.parts[i]) & (self.limits >= self.limits[i]))
            then = np.where(stays[:, None] & self.serves[i], np.minimum(then, self.counts[i]), then)
        then = np.where(self.serves, np.minimum(then, self.counts[:, None]), then)
        found: Array = np.where(self.left, (now - then) @ self.shares, 0.0)
        return found

    def best(self, upkeep: float) -> tuple[float, int] | None:
        """Return the margin with the highest gain per event, with that ratio; None if no margin pays off."""
        if not self.left.any():
            return None
        gains = self.gains()
        gains[gains <= upkeep * self.events] = 0.0
        ratios = gains / np.maximum(self.counts, 1)
        best = int(np.argmax(ratios))
        return (float(ratios[best]), best) if ratios[best] > 0 else None

    def take(self, number: int) -> list[int]:
        """Take a margin, and return the taken margins that it covers, which are dropped."""
        is_covered = (self.parts == self.parts[number]) & (self.limits <= self.limits[number])
        covered = [i for i in self.taken if is_covered[i]]
        self.taken = [*(i for i in self.taken if not is_covered[i]), number]
        self.left &= ~is_covered
        return covered


def choose_margins(
    history: Iterable[Past], slots: TimeSlots, stored: StoredArrays, budget: float, arrivals: float
) -> tuple[Array, Array, Array]:
    """Choose margins by past questions, within a budget of bytes.

    Args:
        history: the questions.
        slots: the time slots.
        stored: the events.
        budget: bytes.
        arrivals: the share of the events that arrived after the first question.

    Returns:
        The cells, the parts and the limits of the margins, (margins,) each.
    """
    choices = list(_choices(list(history), slots, stored)) if budget > 0 else []
    heap = [(-found[0], i, found[1]) for i, one in enumerate(choices) if (found := one.best(arrivals))]
    heapify(heap)
    overhead = MARGIN_BYTES + 4 * len(slots.slots)
    while heap:
        _, number, best = heappop(heap)
        one = choices[number]
        before = list(one.taken), one.left.copy()
        covered = one.take(best)
        space = overhead + 4.0 * one.counts[best] - sum(overhead + 4.0 * one.counts[i] for i in covered)
        if space > budget:
            one.taken, one.left = before
            one.left[best] = False
        else:
            budget -= space
        found = one.best(arrivals)
        if found is not None:
            heappush(heap, (-found[0], number, found[1]))
    cells = np.array([one.cell for one in choices for _ in one.taken], np.int64)
    parts = np.array([one.parts[i] for one in choices for i in one.taken], np.int64)
    return cells, parts, np.array([one.limits[i] for one in choices for i in one.taken], np.float64)


def _choices(history: list[Past], slots: TimeSlots, stored: StoredArrays) -> Iterable[_CellChoice]:
    """Yield the cells whose margins would have saved past questions most, with candidate margins."""
    pairs = [(_ring(slots.grid, past), i) for i, past in enumerate(history)]
    if not pairs:
        return
    cells = np.concatenate([ring for ring, _ in pairs])
    asked = np.concatenate([np.full(len(ring), i) for ring, i in pairs])
    shares = np.array([past.share for past in history])
    total = sum(
        (np.diff(slot.starts, append=slot.starts[-1:]) for slot in slots.slots), np.zeros(1, np.int64)
    )
    promise = np.bincount(cells, shares[asked], minlength=len(total))[: len(total)] * total
    promise[total < LEAST] = 0.0
    best = np.argsort(-promise, kind="stable")[:_MOST_CELLS]
    for cell in np.sort(best[promise[best] > 0]).tolist():
        rows = rows_of(slots.slots, np.array([cell]), np.array([cell + 1]))
        some = [history[i] for i in asked[cells == cell].tolist()]
        yield _choice(cell, some, slots.grid, stored.x[rows], stored.y[rows])


def _choice(cell: int, some: list[Past], grid: CellGrid, x: Array, y: Array) -> _CellChoice:
    """Return the candidate margins of a cell for past questions; a limit is what one of these needs."""
    parts, limits, counts, serves = list[Array](), list[Array](), list[Array](), list[Array]()
    for part in range(len(PARTS)):
        kind = np.array([part])
        corner = corners_of(grid, np.array([cell]), kind)
        needed = np.array([needs(np.array(past.box), kind, corner)[0] for past in some])
        inside = np.sort(distance(x, y, np.full(len(x), part), np.repeat(corner, len(x), axis=0)))
        tried = np.unique(needed[np.isfinite(needed)])
        count = np.searchsorted(inside, tried, "right")
        tried, count = tried[count < len(x)], count[count < len(x)]
        parts.append(np.full(len(tried), part))
        limits.append(tried)
        counts.append(count)
        serves.append(needed[None, :] <= tried[:, None])
    shares = np.array([past.share for past in some])
    which, limit, count_of, serve = (np.concatenate(column) for column in (parts, limits, counts, serves))
    return _CellChoice(cell, which, limit, count_of, serve, shares, len(x))


def _ring(grid: CellGrid, past: Past) -> Array:
    """Return the cells on the border of a past question's box, int64 (n,)."""
    box: CellBox = grid.touched(np.array(past.box))
    columns, rows = np.arange(box.first, box.last + 1), np.arange(box.low, box.high + 1)
    pieces = [grid.number_of(columns, np.full(len(columns), row)) for row in {box.low, box.high}]
    inner = rows[1:-1]
    pieces += [grid.number_of(np.full(len(inner), column), inner) for column in {box.first, box.last}]
    return np.concatenate(pieces)
