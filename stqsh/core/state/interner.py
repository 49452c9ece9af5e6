"""Keys and strings as dense indices: an open-addressing hash table in a slot's state."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.core.kernels.index import hash_table
from stqsh.core.kernels.index.hash_table import HashedKeys, StoredKeys
from stqsh.core.kernels.index.hashing import hash_keys, key_bytes
from stqsh.core.kernels.jit import frozen
from stqsh.core.state.slot_state import SlotState

Keys: TypeAlias = "pa.Array[Any]"

MAX_BYTES = 2**31 - 1
"""The most bytes of all strings of one interner; one Arrow string array has the same limit."""


class Interner:
    """Indices 0, 1, 2, … for distinct keys in order of arrival.

    Arrays below `prefix`: table uint64 (power of two,), hashes uint64 (the count, then one hash for each
    key), offsets int32 (n + 1,), data uint8.
    """

    def __init__(self, state: SlotState, prefix: str) -> None:
        self._state, self._prefix = state, prefix
        if f"{prefix}/table" not in state:
            state.create(f"{prefix}/table", np.uint64, 64)
            state.create(f"{prefix}/hashes", np.uint64, 1)
            state.create(f"{prefix}/offsets", np.int32, 1)
            state.create(f"{prefix}/data", np.uint8, 0)

    def __len__(self) -> int:
        return int(self._array("hashes")[0])

    def _array(self, name: str) -> npt.NDArray[Any]:
        return self._state.array(f"{self._prefix}/{name}")

    def _keys(self) -> StoredKeys:
        return StoredKeys(self._array("offsets"), self._array("data"))

    def find(
        self, keys: pa.Array[Any], hashes: npt.NDArray[np.uint64] | None = None
    ) -> npt.NDArray[np.int32]:
        """Return the index of each key, int32 (n,); -1 for unknown ones."""
        hashes = hash_keys(keys) if hashes is None else hashes
        offsets, data = key_bytes(keys)
        return hash_table.find(self._array("table"), self._keys(), HashedKeys(frozen(hashes), offsets, data))

    def intern(self, keys: Keys, hashes: npt.NDArray[np.uint64] | None = None) -> npt.NDArray[np.int32]:
        """Return the index of each key; add new keys.

        Args:
            keys: A string, int32 or int64 array; nulls count as the empty string or 0.
            hashes: The keys' `hash_keys`, if known.

        Raises:
            ValueError: all texts together would exceed `MAX_BYTES`.
        """
        hashes = frozen(hash_keys(keys) if hashes is None else hashes)
        found = self.find(keys, hashes)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            offsets, data = key_bytes(keys)
            more = int((offsets[missing + 1].astype(np.int64) - offsets[missing]).sum())
            if len(self._array("data")) + more > MAX_BYTES:
                positions: Any = pa.array(missing)
                distinct = pc.unique(keys.take(positions))
                if len(distinct) == len(missing):
                    raise ValueError(f"the texts of {self._prefix} take more than {MAX_BYTES} bytes")
                self.intern(distinct)  # a batch may repeat its texts; each distinct text is stored once
                return self.find(keys, hashes)
            self._reserve(len(missing), more)
            count = hash_table.insert(
                self._array("table"),
                self._keys(),
                self._array("hashes"),
                HashedKeys(hashes, offsets, data),
                found,
            )
            # Release the space that was reserved for repeated keys.
            self._state.resize(f"{self._prefix}/hashes", 1 + count)
            offsets = self._state.resize(f"{self._prefix}/offsets", 1 + count)
            self._state.resize(f"{self._prefix}/data", int(offsets[-1]))
        return found

    def _reserve(self, more: int, more_bytes: int) -> None:
        """Make room for `more` keys of `more_bytes` in total; the table remains at most half full."""
        state, prefix = self._state, self._prefix
        count, used = len(self), len(self._array("data"))
        state.resize(f"{prefix}/hashes", 1 + count + more)
        state.resize(f"{prefix}/offsets", 1 + count + more)
        state.resize(f"{prefix}/data", used + more_bytes)
        size = len(self._array("table"))
        if 2 * (count + more) > size:
            while 2 * (count + more) > size:
                size *= 2
            table = state.create(f"{prefix}/table", np.uint64, size)
            hash_table.rebuild(table, self._array("hashes"), count)

    def keep(self, kept: npt.NDArray[Any]) -> None:
        """Keep only the keys with these indices, ascending; they get the indices 0, 1, 2, …."""
        state, prefix, count = self._state, self._prefix, len(kept)
        chosen: Any = pa.array(kept)
        starts, text = key_bytes(self.strings().take(chosen))  # integer keys are strings of 8 bytes here
        hashes = np.concatenate([np.array([count], np.uint64), self._array("hashes")[1:][kept]])
        size = 64
        while 2 * count > size:
            size *= 2
        state.shrink(f"{prefix}/hashes", hashes)
        state.shrink(f"{prefix}/offsets", starts)
        state.shrink(f"{prefix}/data", text[: starts[-1]])
        hash_table.rebuild(state.create(f"{prefix}/table", np.uint64, size), hashes, count)

    def strings(self) -> pa.Array[Any]:
        """Return all strings by index, as a view of the state that is valid until the next change."""
        offsets, data = self._keys()
        return pa.StringArray.from_buffers(len(self), pa.py_buffer(offsets.data), pa.py_buffer(data.data))

    def take(self, indices: npt.NDArray[Any], kind: pa.DataType) -> pa.Array[Any]:
        """Return the keys with these indices, (n,), as strings, or as integers of an Arrow type."""
        if pa.types.is_string(kind):
            positions: Any = pa.array(indices)
            return self.strings().take(positions)
        numbers: pa.Array[Any] = pa.array(self.integers()[indices])
        return numbers.cast(kind)

    def hashes_of(self, indices: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
        """Return the `hash_keys` of keys by their indices, uint64 (n,); arbitrary for an unknown index."""
        return self._array("hashes").take(indices + 1, mode="clip")

    def integers(self) -> npt.NDArray[np.int64]:
        """Return all keys of an integer interner by index; int64 (n,)."""
        return self._array("data").view(np.int64)


class SeenKeys:
    """The keys that were seen so far, over any number of batches."""

    def __init__(self) -> None:
        self._interner = Interner(SlotState.fresh(0), "keys")

    def seen(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Mark the keys, (n,), seen before, in earlier calls or earlier in this array; store all of them."""
        known, places = len(self._interner), self._interner.intern(keys)
        newest = np.maximum.accumulate(np.append(known - 1, places[:-1]))
        return places <= newest
