"""The order of keys, which breaks ties between equal distances.

The order is the same on all slots: numbers by value, texts by UTF-8 bytes. A comparison costs at most the
length of the shorter text, and is only needed for equal distances.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.kernels.index.hashing import key_bytes
from stqsh.core.kernels.jit import Flag, Int, frozen, kernel


class KeyOrder(NamedTuple):
    """Keys by index.

    Attributes:
        codes: The key itself, or the number of its text, int64 (n,).
        offsets: int32 (texts + 1,); empty if keys are whole numbers.
        data: The texts as UTF-8, stored end to end, uint8.
    """

    codes: Array
    offsets: Array
    data: Array


def by_number(keys: Array) -> KeyOrder:
    """Return the order of keys that are whole numbers, (n,)."""
    return KeyOrder(keys.astype(np.int64), frozen(np.empty(0, np.int32)), frozen(np.empty(0, np.uint8)))


def by_text(codes: Array, texts: pa.Array[Any]) -> KeyOrder:
    """Return the order of keys that are texts, from the number of each key's text, (n,), and the texts."""
    return KeyOrder(codes.astype(np.int64), *key_bytes(texts))


@kernel
def precedes(order: KeyOrder, a: Int, b: Int) -> Flag:
    """Return whether the key of index a precedes that of b: numbers by value, texts by code point.

    UTF-8 preserves the order of code points, so comparing bytes is enough.
    """
    one, other = order.codes[a], order.codes[b]
    if len(order.offsets) == 0:
        return one < other
    if one == other:
        return False
    i, j = order.offsets[one], order.offsets[other]
    end, other_end = order.offsets[one + 1], order.offsets[other + 1]
    while i < end and j < other_end:
        if order.data[i] != order.data[j]:
            return order.data[i] < order.data[j]
        i += 1
        j += 1
    return i == end and j < other_end


@kernel
def ranks_before(order: KeyOrder, rank: float, a: Int, other_rank: float, b: Int) -> Flag:
    """Return whether index a precedes index b by (rank, key)."""
    return rank < other_rank or (rank == other_rank and precedes(order, a, b))
