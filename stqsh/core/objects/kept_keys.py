"""The kept keys of an event stream; of the records with a kept key only the first counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.base.clock import BatchTiming
from stqsh.core.kernels.events.record_keys import find_duplicates
from stqsh.core.kernels.events.size_floors import KeyRecords
from stqsh.core.kernels.jit import frozen
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.spec.chunk import arrow_type
from stqsh.spec.stream import StreamSpec

_NEVER = np.iinfo(np.int64).min

LATEST = "latest"
"""The column with the latest time of a key that is handed over, µs."""

_FORGET_KEYS = 1 << 20
"""Keys that are no longer kept are forgotten once there are this many keys, half of which are not kept."""


FindDuplicates: TypeAlias = Callable[[KeyRecords, Array], npt.NDArray[np.bool_]]
"""Marks the records whose key is still kept, given the latest accepted time of each key, which it updates."""


def _by_age(keys: KeyRecords, latest: Array) -> npt.NDArray[np.bool_]:
    return find_duplicates(*keys, latest)


class _KeyTimes(StateTable):
    """The latest accepted time of each key, µs."""

    latest = ArraySpec(np.int64)


class KeptEventKeys:
    """The kept keys of an event stream; the first of several records with the same key stays.

    A record is a duplicate if an accepted record of its key is still kept at the start of the record's tick,
    that is, if it is not older than `KEEP` (language.md), nor below the floor after the tick before. With
    `KEEP NONE`, an accepted record is kept during its own tick.

    Args:
        state: The state that contains the keys.
        prefix: The prefix of the names of the keys' arrays.
        keep_us: How long an event is kept, µs; None for ever, 0 with `KEEP NONE`.
    """

    def __init__(self, state: SlotState, prefix: str, keep_us: int | None) -> None:
        self._keys, self._times = Interner(state, f"{prefix}/keys"), _KeyTimes(state, prefix)
        self._keep_us = keep_us

    @staticmethod
    def of(state: SlotState, spec: StreamSpec) -> KeptEventKeys:
        """Return the kept keys of a live stream in a slot's state."""
        return KeptEventKeys(state, _prefix(spec), spec.keep_us)

    @staticmethod
    def forget(state: SlotState, spec: StreamSpec) -> None:
        """Forget the kept keys of a live stream in a slot's state."""
        state.release(f"{_prefix(spec)}/")

    def duplicates(
        self,
        keys: pa.Array[Any],
        times: Array,
        begins: Array,
        hashes: Array | None = None,
        find: FindDuplicates = _by_age,
    ) -> npt.NDArray[np.bool_]:
        """Mark the duplicates among records, (n,); records must be in replay order over all calls.

        Args:
            keys: The records' keys, as stored.
            times: The records' times, int64 µs.
            begins: The starts of the ticks in which the records arrive, int64 µs.
            hashes: The hashes of the keys, if known.
            find: Finds them, where size matters as well as age.
        """
        places, known = self._keys.intern(keys, hashes), len(self._times)
        self._times.resize(len(self._keys))
        self._times.latest[known:] = _NEVER
        keep = self._keep_us
        kept_from = np.full(len(begins), _NEVER + 1) if keep is None else begins - keep
        times = begins if keep == 0 else times
        records = KeyRecords(frozen(places), frozen(times), frozen(kept_from))
        found = find(records, self._times.latest)
        if len(begins) and len(self._times) > _FORGET_KEYS:
            self._forget(int(kept_from[-1]))
        return found

    def duplicates_among(
        self, records: pa.RecordBatch, spec: StreamSpec, timing: BatchTiming
    ) -> npt.NDArray[np.bool_]:
        """Mark the duplicates among records of a live stream, with `_step` and `_hash`, in replay order."""
        times = records.column(spec.time).view(pa.int64()).to_numpy()
        steps, hashes = (records.column(name).to_numpy() for name in ("_step", "_hash"))
        floors = timing.floors.at(steps - 1)

        def find(keys: KeyRecords, latest: Array) -> npt.NDArray[np.bool_]:
            return _by_age(keys._replace(kept_from=frozen(np.maximum(keys.kept_from, floors))), latest)

        is_limited = spec.keep_bytes is not None
        find_them = find if is_limited else _by_age
        return self.duplicates(records.column(spec.key), times, timing.at(steps), hashes, find_them)

    def content(self, spec: StreamSpec) -> pa.RecordBatch:
        """Return all keys of a stream, and the latest time of each."""
        keys = self._keys.take(np.arange(len(self._times)), arrow_type(spec.types[spec.key]))
        return pa.RecordBatch.from_arrays([keys, pa.array(self._times.latest)], [spec.key, LATEST])

    def add(self, content: pa.RecordBatch) -> None:
        """Add keys that are not yet known, as returned by `content`."""
        places = self._keys.intern(content.column(0))
        self._times.resize(len(self._keys))
        self._times.latest[places] = content.column(LATEST).to_numpy()

    def _forget(self, kept_from: int) -> None:
        """Forget the keys whose records are older than a time, if there are many."""
        kept = self._times.latest >= kept_from
        if 2 * np.count_nonzero(kept) < len(kept):
            self._keys.keep(np.flatnonzero(kept))
            self._times.keep(kept)


def _prefix(spec: StreamSpec) -> str:
    return f"s{spec.id}/kept"
