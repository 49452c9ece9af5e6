"""Routing by object: an object is on the slot that its key's hash selects, queries are on every slot."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def slots_of(hashes: npt.NDArray[np.uint64], slots: int) -> npt.NDArray[np.int32]:
    """Return the slot index, 0 .. slots - 1, of each key hash.

    Args:
        hashes: uint64 (n,) from `stqsh.core.kernels.index.hashing.hash_keys`.
        slots: the number of slots, at least 1.

    Returns:
        int32 (n,), evenly spread. Only the high 32 bits count: the low ones are for hash tables.
    """
    high = hashes >> np.uint64(32)
    return ((high * np.uint64(slots)) >> np.uint64(32)).astype(np.int32)
