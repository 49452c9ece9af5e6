"""A hash table with open addressing: byte keys to dense indices, in plain arrays.

A table entry is a uint64: the high half is the high half of the key's hash, and the low half is its index +
1; 0 is empty. Probing begins at the low half of the hash. Keys are stored end to end: `offsets` int32 (n +
1,), `data` uint8. Entries compare hashes first, so a look-up reads the bytes of about one key. Callers keep
the table at most half full, which bounds the expected number of probes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import Int, kernel

_HIGH = np.uint64(0xFFFFFFFF00000000)
_LOW = np.uint64(0x00000000FFFFFFFF)


class StoredKeys(NamedTuple):
    """The keys of a table, stored end to end."""

    offsets: Array
    data: Array


class HashedKeys(NamedTuple):
    """Keys to look up: hashes uint64 (n,), offsets (n + 1,) and data."""

    hashes: Array
    offsets: Array
    data: Array


class _Key(NamedTuple):
    """One key: a range of bytes."""

    data: Array
    start: Int
    length: Int


@kernel
def _same(left: Array, left_at: Int, right: Array, right_at: Int, length: Int) -> bool:
    for i in range(length):  # noqa: SIM110 - a kernel
        if left[left_at + i] != right[right_at + i]:
            return False
    return True


@kernel
def _probe(table: Array, h: np.uint64, keys: StoredKeys, sought: _Key) -> Int:
    """Return the table position of a key, or the empty position where it belongs."""
    offsets, data = keys
    text, start, length = sought
    mask = np.uint64(len(table) - 1)
    at = h & mask
    while table[at] != 0:
        if (table[at] ^ h) & _HIGH == 0:
            index = np.int64(table[at] & _LOW) - 1
            begin = np.int64(offsets[index])
            if np.int64(offsets[index + 1]) - begin == length and _same(data, begin, text, start, length):
                return np.int64(at)
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@kernel
def find(table: Array, keys: StoredKeys, sought: HashedKeys) -> Array:
    """Return the index of each sought key, -1 if it is not in the table.

    Args:
        table: uint64 (power of two,).
        keys: The table's keys.
        sought: The n keys to look up.

    Returns:
        int32 (n,).
    """
    hashes, offsets, text = sought
    out = np.empty(len(hashes), np.int32)
    for i in range(len(hashes)):
        start = np.int64(offsets[i])
        at = _probe(table, hashes[i], keys, _Key(text, start, np.int64(offsets[i + 1]) - start))
        out[i] = np.int64(table[at] & _LOW) - 1
    return out


@kernel
def insert(table: Array, keys: StoredKeys, stored: Array, sought: HashedKeys, found: Array) -> Int:
    """Assign the next index to each key that `find` did not find, in order; equal keys share one index.

    Args:
        table: As in `find`.
        keys: The table's keys, with room for all new ones.
        stored: The hash of each index, uint64; its first element is the number of keys.
        sought: The keys that `find` looked for.
        found: int32, the result of `find`; -1 is replaced by the new index.

    Returns:
        The number of keys.
    """
    hashes, offsets, text = sought
    own_offsets, own_data = keys
    count = np.int64(stored[0])
    for i in range(len(hashes)):
        if found[i] >= 0:
            continue
        start = np.int64(offsets[i])
        length = np.int64(offsets[i + 1]) - start
        at = _probe(table, hashes[i], keys, _Key(text, start, length))
        if table[at] == 0:
            begin = np.int64(own_offsets[count])
            for k in range(length):
                own_data[begin + k] = text[start + k]
            own_offsets[count + 1] = begin + length
            count += 1
            stored[count] = hashes[i]
            table[at] = (hashes[i] & _HIGH) | np.uint64(count)
        found[i] = np.int64(table[at] & _LOW) - 1
    stored[0] = np.uint64(count)
    return count


@kernel
def rebuild(table: Array, stored: Array, count: int) -> None:
    """Fill an empty table with the indices 0 .. count - 1, whose hashes are stored[1:]."""
    mask = np.uint64(len(table) - 1)
    for index in range(count):
        h = stored[index + 1]
        at = h & mask
        while table[at] != 0:
            at = (at + np.uint64(1)) & mask
        table[at] = (h & _HIGH) | np.uint64(index + 1)
