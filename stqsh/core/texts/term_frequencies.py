"""How many records of a stream have each term, and where the records are: this determines the rare terms."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.text.term_sets import TermSpans, count_terms
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.core.texts.place_counts import PlaceCounts

_MEMORY = 1 << 20
"""The number of records after which all counts are halved, so that recent records weigh more."""


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
