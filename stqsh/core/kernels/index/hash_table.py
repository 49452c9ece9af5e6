"""Open addressing: byte keys to dense indices, in plain arrays.

A table entry is a uint64: the high half of the key's hash, and its index + 1 in the low half; 0 is empty.
The low half of the hash says where to begin to look. Keys lie end to end: `offsets` int32 (n + 1,), `data`
uint8.
"""

from __future__ import annotations

import numpy as np

from stqsh.core.kernels.jit import Array, Int, kernel

_HIGH = np.uint64(0xFFFFFFFF00000000)
_LOW = np.uint64(0x00000000FFFFFFFF)


@kernel
def _same(left: Array, left_at: Int, right: Array, right_at: Int, length: Int) -> bool:
    for i in range(length):  # noqa: SIM110 - a kernel
        if left[left_at + i] != right[right_at + i]:
            return False
    return True


@kernel
def _probe(table: Array, h: np.uint64, keys: tuple[Array, Array], sought: tuple[Array, Int, Int]) -> Int:
    """The table position of a key, or of the empty place where it belongs."""
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
def find(table: Array, keys: tuple[Array, Array], hashes: Array, sought: tuple[Array, Array]) -> Array:
    """The index of each sought key, -1 where it is not in the table.

    table: uint64 (power of two,); keys: offsets and data of the table's keys; hashes: uint64 (n,); sought:
    offsets (n + 1,) and data of the keys to look for. int32 (n,).
    """
    offsets, text = sought
    out = np.empty(len(hashes), np.int32)
    for i in range(len(hashes)):
        start = np.int64(offsets[i])
        at = _probe(table, hashes[i], keys, (text, start, np.int64(offsets[i + 1]) - start))
        out[i] = np.int64(table[at] & _LOW) - 1
    return out


@kernel
def insert(
    table: Array, keys: tuple[Array, Array], stored: Array, sought: tuple[Array, Array, Array], found: Array
) -> Int:
    """Give each key that `find` did not find the next index, in order; equal ones the same.

    table, keys: as in `find`, with room for all new keys. stored: uint64, the hash of each index; its first
    element is the number of keys. sought: hashes, offsets, data. found: int32, -1 replaced by the new index.
    Returns the number of keys.
    """
    hashes, offsets, text = sought
    own_offsets, own_data = keys
    count = np.int64(stored[0])
    for i in range(len(hashes)):
        if found[i] >= 0:
            continue
        start = np.int64(offsets[i])
        length = np.int64(offsets[i + 1]) - start
        at = _probe(table, hashes[i], keys, (text, start, length))
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
