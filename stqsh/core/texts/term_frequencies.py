"""How many records of a stream have each term, and where the records are.

The counts of terms determine which are rare; the counts by place estimate how many records to expect in a
query's box.
"""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.text.term_sets import TermSpans, count_terms
from stqsh.core.regions.grid_layout import frame_over
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.spec.stream import Bounds

_SIDE = 64
"""The number of cells in each direction."""


_MEMORY = 1 << 20
"""The number of records after which all counts are halved, so that recent records weigh more."""


class PlaceCounts:
    """The number of records in each cell of a grid; the first records determine the grid.

    Arrays below `prefix`: frame float64 (4,), the corner, and the cells per unit of x and of y; cells int64
    (_SIDE ** 2,).
    """

    def __init__(self, state: SlotState, prefix: str) -> None:
        self._state, self._prefix = state, prefix

    @property
    def cells(self) -> Array:
        """The counts, int64; empty before the first record."""
        name = f"{self._prefix}/cells"
        return self._state.array(name) if name in self._state else np.empty(0, np.int64)

    def count(self, x: Array, y: Array, weight: int, bounds: Bounds | None) -> None:
        """Add records, each with the given weight; x, y float64 (n,), NaN for no place."""
        there = ~(np.isnan(x) | np.isnan(y))
        x, y = x[there], y[there]
        if not len(x):
            return
        if not len(self.cells):
            frame = frame_over(x, y, _SIDE, bounds)
            self._state.replace(f"{self._prefix}/frame", np.array(frame[:4], np.float64))
            self._state.create(f"{self._prefix}/cells", np.int64, _SIDE**2)
        column, row = (np.minimum(at, _SIDE - 1).astype(np.int64) for at in self._scaled(x, y))
        self.cells[:] += weight * np.bincount(row * _SIDE + column, minlength=_SIDE**2)

    def expected(self, boxes: Array) -> Array:
        """Return estimates of how many records were in each box, float64 (n, 4); 0 for NaN."""
        if not len(self.cells):
            return np.zeros(len(boxes))
        below = np.zeros((_SIDE + 1, _SIDE + 1))
        below[1:, 1:] = self.cells.reshape(_SIDE, _SIDE).cumsum(axis=0).cumsum(axis=1)
        (x1, y1), (x2, y2) = self._scaled(boxes[:, 0], boxes[:, 1]), self._scaled(boxes[:, 2], boxes[:, 3])
        corners = ((x2, y2, 1), (x1, y2, -1), (x2, y1, -1), (x1, y1, 1))
        return np.maximum(sum(sign * _between(below, x, y) for x, y, sign in corners), 0.0)

    def fade(self) -> None:
        """Halve all counts."""
        self.cells[:] >>= 1

    def _scaled(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return places in units of cells from the grid's corner, clipped to the grid; 0 for NaN."""
        x0, y0, per_x, per_y = self._state.array(f"{self._prefix}/frame").tolist()
        both = (x - x0) * per_x, (y - y0) * per_y
        x, y = (np.clip(np.nan_to_num(at, nan=0.0), 0.0, _SIDE) for at in both)
        return x, y


def _between(sums: Array, x: Array, y: Array) -> Array:
    """Return sums over all cells below places, assuming that records are evenly spread within a cell."""
    column, row = (np.minimum(at, _SIDE - 1).astype(np.int64) for at in (x, y))
    right, up = x - column, y - row
    lower = sums[row, column] * (1 - right) + sums[row, column + 1] * right
    upper = sums[row + 1, column] * (1 - right) + sums[row + 1, column + 1] * right
    found: Array = lower * (1 - up) + upper * up
    return found


class TermFrequencies(StateTable):
    """The number of records with each term of a vocabulary, and the number of records in each place.

    Arrays: counts is the number of records with each term and may be shorter than the vocabulary; counted is
    the number of records counted; see `PlaceCounts` for places/…. They share the prefix and version of
    `TermTable`.
    """

    counts = ArraySpec(np.int64, derived_from="terms", length=0)
    counted = ArraySpec(np.int64, length=1)

    def __init__(self, state: SlotState, prefix: str, words: Interner) -> None:
        super().__init__(state, prefix)
        self._words, self.places = words, PlaceCounts(state, f"{prefix}/places")

    @property
    def seen(self) -> Array:
        """The number of records with each term; int64 (terms,)."""
        return self.state.resize(f"{self.prefix}/counts", len(self._words))

    @property
    def total(self) -> int:
        """The number of records counted."""
        return int(self.counted[0])

    def count(self, spans: TermSpans, texts: Array) -> None:
        """Count the terms of records; `texts` are rows of the spans, -1 for NULL."""
        count_terms(spans, frozen(texts), self.seen)

    def count_codes(self, codes: Array, weight: float, first: int = 0) -> None:
        """Add the terms from `first` on, each with the given weight; integers of any shape, -1 for none."""
        found = np.bincount(codes[codes >= first], minlength=len(self._words))
        self.seen[:] += np.rint(weight * found).astype(np.int64)

    def count_records(self, count: int) -> None:
        """Count the records whose terms, values or places were counted; halve all counts if they are many."""
        self.counted[0] += count
        if self.total > _MEMORY:
            self.seen[:] >>= 1
            self.counted[:] >>= 1
            self.places.fade()
