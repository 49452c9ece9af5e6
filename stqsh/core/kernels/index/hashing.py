"""Hashes of object keys for routing and hash tables, the same on every machine.

Keys are mixed so well that any bits of the hash can serve: routing uses the high bits, and hash tables the
low bits. The cost is linear in the bytes of the keys. Stored hashes must stay valid, so never change the
functions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.kernels.jit import frozen, kernel


class KeyBytes(NamedTuple):
    """Keys as bytes, stored end to end; key i is `data[offsets[i]:offsets[i + 1]]`.

    A string is its UTF-8 bytes, an integer the 8 bytes of the int64.

    Attributes:
        offsets: int64 or int32 (n + 1,).
        data: uint8.
    """

    offsets: npt.NDArray[np.integer]
    data: npt.NDArray[np.uint8]


def key_bytes(keys: pa.Array[Any]) -> KeyBytes:
    """Return the bytes of a string, int32 or int64 array, without a copy if Arrow's layout allows.

    A null string counts as the empty string, a null integer as 0. Keys are never null; text columns may be.

    Raises:
        ValueError: the array is of another type.
    """
    if pa.types.is_string(keys.type):
        _, raw_offsets, raw_data = keys.buffers()
        if raw_offsets is None or len(keys) == 0:
            return KeyBytes(frozen(np.zeros(len(keys) + 1, np.int32)), frozen(np.zeros(0, np.uint8)))
        offsets = np.frombuffer(memoryview(raw_offsets), np.int32)[keys.offset : keys.offset + len(keys) + 1]
        data = np.zeros(0, np.uint8) if raw_data is None else np.frombuffer(memoryview(raw_data), np.uint8)
        return KeyBytes(frozen(offsets), frozen(data))
    values = _as_int64(keys)
    return KeyBytes(frozen(np.arange(len(keys) + 1, dtype=np.int64) * 8), frozen(values.view(np.uint8)))


def _as_int64(keys: pa.Array[Any]) -> npt.NDArray[np.int64]:
    if not (pa.types.is_int64(keys.type) or pa.types.is_int32(keys.type)):
        raise ValueError(f"keys are strings, int32 or int64, not {keys.type}")
    if keys.null_count:
        keys = keys.fill_null(0)
    return np.ascontiguousarray(keys.to_numpy(zero_copy_only=False), dtype=np.int64)


def hash_keys(keys: pa.Array[Any]) -> npt.NDArray[np.uint64]:
    """Hash each key to 64 well-mixed bits.

    Args:
        keys: string, int32 or int64 array; an int32 hashes as the int64 of its value.

    Returns:
        uint64 (n,). The halves are independent: routing uses the high bits, hash tables the low ones.

    Raises:
        ValueError: the array is of another type.
    """
    if pa.types.is_string(keys.type):
        offsets, data = key_bytes(keys)
        return hash_bytes(offsets, data)
    return hash_integers(frozen(_as_int64(keys)))


@kernel
def hash_bytes(offsets: npt.NDArray[np.integer], data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Hash keys by FNV-1a, then Murmur3's 64-bit finaliser; shapes as in `KeyBytes`, result uint64 (n,)."""
    count = len(offsets) - 1
    out = np.empty(count, np.uint64)
    for i in range(count):
        h = np.uint64(0xCBF29CE484222325)
        for at in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
        out[i] = mix64(h)
    return out


@kernel
def hash_integers(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Hash integers by Murmur3's 64-bit finaliser, shifted so that 0 is not a fixed point; uint64 (n,)."""
    out = np.empty(len(values), np.uint64)
    for i in range(len(values)):
        out[i] = mix64(np.uint64(values[i]) + np.uint64(0x9E3779B97F4A7C15))
    return out


@kernel
def mix64(h: np.uint64) -> np.uint64:
    """Mix bits by Murmur3's finaliser: every input bit changes about half of the output bits."""
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    h ^= h >> np.uint64(33)
    return h
