"""The queries that CH-trees find at a lower cost, where the session leaves the index to stqsh (`auto`).

A grid tests each record that is in a query's box, and trees of terms test each that also has its rarest word
or value. If the query asks for an interval of numbers that few of these records are in, CH-trees save the
other tests. They take the time of some tests themselves, so they are used only if they save more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.state.slot_state import SlotState
from stqsh.core.texts.access_path import records_with_terms
from stqsh.core.texts.keyword_index import KeywordIndex
from stqsh.core.texts.term_frequencies import PlaceCounts
from stqsh.spec.stream import Bounds

_PAIRS = 24
"""The fewest tests of a record that trees are used for; trees in use are left below half of it."""

_LEAST, _MOST = 0.001, 0.5
"""A query is suited if this share of records would be tested, and if no more than `_MOST` of them are in its
intervals."""

_FIRST_LOOK, _LAST_LOOK = 256, 1 << 20


class SampledRecords(NamedTuple):
    """Some records, float64: their places x, y, (n,), and numbers, (n, columns), NaN for none."""

    x: Array
    y: Array
    numbers: Array


def may_pay_off(bounds: Array) -> bool:
    """Return whether so many queries have `bounds`, as in `suited_queries`, that trees can pay off."""
    return bool(np.count_nonzero(np.isfinite(bounds).any(axis=(1, 2))) >= _PAIRS)


def suited_queries(
    boxes: Array,
    bounds: Array,
    shares: Array,
    records: SampledRecords,
    extent: Bounds | None,
    held: Array,
) -> Array:
    """Return which queries suit CH-trees, bool (n,); none unless the trees pay off.

    Args:
        boxes: The box of each query, NaN for one that is not indexed; float64 (n, 4).
        bounds: The least and the greatest number in each column; float64 (n, columns, 2).
        shares: The share of records with the rarest words or value of each query, float64 (n,).
        records: Some records of the past.
        extent: The extent of the stream, if known.
        held: Which queries are in trees and stay there if trees pay off, bool (n,).
    """
    is_asked = (np.isfinite(bounds).any(axis=(1, 2))) & ~np.isnan(boxes[:, 0])
    chosen: Array = np.zeros(len(boxes), np.bool_)
    at = np.flatnonzero(is_asked)
    if not len(records.x):
        return is_asked & held
    inside = np.ones(len(at))
    for column, (low, high) in zip(records.numbers.T, bounds[at].transpose(1, 2, 0), strict=True):
        known = np.sort(column[~np.isnan(column)])
        some = np.searchsorted(known, high, "right") - np.searchsorted(known, low, "left")
        inside *= np.where(np.isfinite(low) | np.isfinite(high), np.maximum(some, 0) / len(column), 1.0)
    places = PlaceCounts(SlotState.fresh(0), "places")
    places.count(records.x, records.y, 1, extent)
    tested = places.expected(boxes[at]) / len(records.x) * shares[at]
    mine = held[at] | ((tested >= _LEAST) & (inside <= _MOST))
    saved = float((tested * (1 - inside))[mine].sum())
    if saved >= (_PAIRS / 2 if held.any() else _PAIRS):
        chosen[at[mine]] = True
    return chosen


def shares_of_terms(index: KeywordIndex | None, ids: Array) -> Array:
    """Return the share of records with the rarest term of each query, ids ascending; float64 (n,).

    It is 1 for queries without terms, and 0 for those with terms while no record is counted.
    """
    shares = np.ones(len(ids))
    if index is None or not len(index) or not len(ids):
        return shares
    own = index.queries.id
    at = np.minimum(np.searchsorted(ids, own), len(ids) - 1)
    there = ids[at] == own
    common = records_with_terms(index) / max(1, index.terms.frequencies.total)
    shares[at[there]] = np.minimum(common[there], 1.0)
    return shares


class RecordLooks:
    """Counts records, so that queries are chosen again once many more have come.

    The array `{prefix}/intervals/looks`, int64 (2,), holds the number of records since the last look, and
    the number after which the next is due. It exists while enough queries ask for intervals.
    """

    def __init__(self, state: SlotState, prefix: str) -> None:
        self._state, self._prefix = state, f"{prefix}/intervals/"
        self._name = f"{self._prefix}looks"

    @property
    def exist(self) -> bool:
        """Whether looks are taken."""
        return self._name in self._state

    def count(self, records: int) -> None:
        """Count records of a batch."""
        if self.exist:
            self._state.array(self._name)[0] += records

    def is_due(self, coming: int) -> bool:
        """Return whether a look is due with the records of a batch, which are not counted yet."""
        since, most = self._state.array(self._name).tolist()
        return bool(coming and since + coming >= most)

    def note(self, sampled: int) -> None:
        """Note a look at some records; the next one is due after a multiple of those before."""
        before = self._state.array(self._name)[0] if self.exist else 0
        after = min(4 * max(_FIRST_LOOK, int(before)), _LAST_LOOK) if sampled else 1
        self._state.replace(self._name, np.array([0, after], np.int64))

    def release(self) -> None:
        """Take no looks any more."""
        if self.exist:
            self._state.release(self._prefix)
