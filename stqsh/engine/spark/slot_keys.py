"""Slot keys: integers that Spark's hash partitioner assigns to one task each.

Spark puts a row of key k on partition `pmod(murmur3(k, seed 42), partitions)`. With n slots and n shuffle
partitions, slot i gets the smallest key that falls on partition i, so each task holds exactly one slot.
"""

from __future__ import annotations

from functools import cache

_MASK = 0xFFFFFFFF
_SEED = 42


def spark_hash(key: int) -> int:
    """Return Spark's Murmur3 hash (seed 42) of a 32-bit integer, as a signed 32-bit integer."""
    k = (key & _MASK) * 0xCC9E2D51 & _MASK
    k = _rotate(k, 15) * 0x1B873593 & _MASK
    h = _rotate(_SEED ^ k, 13) * 5 + 0xE6546B64 & _MASK
    h ^= 4  # the length of an int in bytes
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


@cache
def slot_keys(slots: int) -> tuple[int, ...]:
    """Return the key of each slot 0 .. slots-1, such that key i falls on shuffle partition i of `slots`."""
    keys: dict[int, int] = {}
    key = 0
    while len(keys) < slots:
        keys.setdefault(spark_hash(key) % slots, key)
        key += 1
    return tuple(keys[slot] for slot in range(slots))


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
