"""Find keys that occur again, whole columns at a time, over any number of batches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.sources.formats.pyarrow_typing import Array

Mask = NDArray[np.bool_]


class SeenKeys:
    """The keys that have been seen so far."""

    def __init__(self) -> None:
        self._interner = Interner(SlotState.fresh(0), "keys")

    def seen(self, keys: Array) -> Mask:
        """Mark the keys (n,) that were seen before, in earlier calls or in this array; keep all of them."""
        known, places = len(self._interner), self._interner.intern(keys)
        newest = np.maximum.accumulate(np.append(known - 1, places[:-1]))
        return places <= newest
