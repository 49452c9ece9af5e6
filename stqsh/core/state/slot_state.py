"""A slot's state: named numpy arrays and a small header, nothing else.

With structs of arrays, a snapshot is a copy, recovery is a load, and a kernel is a loop. The engine may pass
an `Allocator` that backs the arrays with memory-mapped files; otherwise they are on the heap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from stqsh.arrays import Array
from stqsh.spec.stream import StreamSpec, stream_spec

PIECE_BYTES = 4 << 20
"""The most bytes of a piece of a snapshot."""

_SMALLEST = 16
"""The minimum capacity of an array, in elements."""

_TOLERATED = 16
"""Unused memory behind an array is trimmed if it exceeds 1/16 of the array's length ..."""

_SMALL_CHANGE = 1 << 16
"""... and this many bytes."""

_SHORT = 3
"""Arrays that keep at most a third of their elements are trimmed at once, ..."""

_PATIENCE = 4
"""... other arrays once in this many calls."""

_ROOMY = 8
"""An array that shrinks keeps at most this many times the capacity that it needs."""


class SlotClock(msgspec.Struct, frozen=True):
    """The time of a slot: its last step, the tick of step 1, and the length of a tick in µs, if known.

    `closing` is the last closing step, 0 for none; its time is the end of the last tick.
    """

    step: int = 0
    base_tick: int | None = None
    tick_us: int | None = None
    closing: int = 0

    @property
    def end_tick(self) -> int:
        """The tick at which the last step ends."""
        return (self.base_tick or 0) + self.step - (1 if self.closing and self.step == self.closing else 0)


class Allocator(Protocol):
    """A source of memory for state arrays."""

    def allocate(self, name: str, dtype: np.dtype[Any], capacity: int) -> Array:
        """Return a new zeroed one-dimensional array of `capacity` elements.

        It replaces an earlier array of that name, which must remain readable while it is copied.
        """

    def grow(self, name: str, array: Array, length: int) -> Array:
        """Return an array of at least `length` elements that starts with a named array; the rest is zero.

        `array` is the named array with all of its capacity, and is not used afterwards.
        """

    def release(self, name: str) -> None:
        """Release the array of that name."""


class HeapAllocator:
    """An allocator of ordinary memory."""

    def allocate(self, name: str, dtype: np.dtype[Any], capacity: int) -> Array:
        """Return a zeroed numpy array."""
        return np.zeros(capacity, dtype)

    def grow(self, name: str, array: Array, length: int) -> Array:
        """Return a copy with at least twice the capacity, so that elements are seldom copied."""
        grown = self.allocate(name, array.dtype, max(length, 2 * len(array)))
        grown[: len(array)] = array
        return grown

    def release(self, name: str) -> None:
        """Do nothing: memory is freed with the last reference."""


class NamedArrays:
    """Growable arrays by name.

    Attributes:
        buffers: The arrays with their spare capacity.
    """

    def __init__(
        self, lengths: dict[str, int], buffers: dict[str, Array] | None, allocator: Allocator | None
    ) -> None:
        self._lengths = lengths
        self.buffers = buffers if buffers is not None else {}
        self._allocator = allocator or HeapAllocator()
        self._calls = 0
        # The most elements in use of each changed array: since its memory was last trimmed, and recently.
        self._extents: dict[str, int] = {}
        self._reached: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._lengths

    def array(self, name: str) -> Array:
        """Return the elements in use of a named array, as a view that is valid until the array is resized."""
        return self.buffers[name][: self._lengths[name]]

    def create(self, name: str, dtype: npt.DTypeLike, length: int = 0) -> Array:
        """Create a zeroed array; it replaces an array of the same name."""
        self.buffers[name] = self._allocator.allocate(name, np.dtype(dtype), max(length, _SMALLEST))
        self._lengths[name] = self._extents[name] = self._reached[name] = length
        return self.array(name)

    def resize(self, name: str, length: int) -> Array:
        """Change an array's length; new elements are zero."""
        buffer, used = self.buffers[name], self._lengths[name]
        self._reached[name] = max(length, used, self._reached.get(name, 0))
        self._extents[name] = max(self._reached[name], self._extents.get(name, 0))
        if length > used:
            buffer[used:length] = 0
        if length > len(buffer):
            self.buffers[name] = self._allocator.grow(name, buffer, length)
        self._lengths[name] = length
        return self.array(name)

    def append(self, name: str, values: npt.ArrayLike) -> None:
        """Append values to an array."""
        items = np.asarray(values, self.buffers[name].dtype)
        used = self._lengths[name]
        self.resize(name, used + len(items))[used:] = items

    def replace(self, name: str, values: Array) -> Array:
        """Replace the content of an array; create the array if it does not exist."""
        if name not in self or self.buffers[name].dtype != values.dtype:
            self.create(name, values.dtype, len(values))
        view = self.resize(name, len(values))
        view[:] = values
        return view

    def shrink(self, name: str, values: Array) -> Array:
        """Replace the content by fewer values; release spare capacity once it is most of the array."""
        if len(self.buffers[name]) > _ROOMY * len(values) + _SMALLEST:
            values = values.copy()
            self.create(name, values.dtype, len(values))
        return self.replace(name, values)

    def release(self, prefix: str) -> None:
        """Remove all arrays whose names begin with `prefix`."""
        for name in self.names(prefix):
            del self.buffers[name], self._lengths[name]
            self._allocator.release(name)

    def trim_unused(self, trim: Callable[[str, Array, int], Array]) -> None:
        """Release unused memory behind arrays, unless it is small.

        An array that grows and shrinks from batch to batch keeps what it needs. Each call trims the arrays
        that have become much shorter. One in `_PATIENCE` calls also trims the arrays that were not longer
        since the previous such call. `trim` returns a named buffer cut to a number of elements, with its
        content.
        """
        self._calls += 1
        is_due = self._calls % _PATIENCE == 0
        for name, extent in list(self._extents.items()):
            used, buffer = self._lengths.get(name, 0), self.buffers.get(name)
            is_short = used <= extent // _SHORT
            if buffer is None or extent == used:
                del self._extents[name]
            elif is_short or is_due:
                needed = used if is_short else max(used, self._reached.get(name, 0))
                fallow = (extent - needed) * buffer.itemsize
                if fallow > max(_SMALL_CHANGE, needed * buffer.itemsize // _TOLERATED):
                    self.buffers[name] = trim(name, buffer, max(needed, _SMALLEST))
                    self._extents[name] = needed
        if is_due:
            self._reached.clear()

    def names(self, prefix: str | tuple[str, ...] = "") -> list[str]:
        """Return the names of the arrays that begin with a prefix, or with any of several prefixes."""
        return [name for name in self._lengths if name.startswith(prefix)]

    @property
    def nbytes(self) -> int:
        """The bytes in use by all arrays, without spare capacity."""
        return sum(self.buffers[name].itemsize * length for name, length in self._lengths.items())


class SlotState(NamedArrays):
    """The arrays of a slot, and a header that survives as JSON.

    Names are paths such as `s3/objects/x`; all arrays of a stream begin with `s{id}/`.

    Attributes:
        header: "slot" (the slot's number), "lengths" ({array name: elements in use}), and other modules'
            entries.
    """

    def __init__(
        self,
        header: dict[str, Any],
        buffers: dict[str, Array] | None = None,
        allocator: Allocator | None = None,
    ) -> None:
        self.header = header
        super().__init__(header.setdefault("lengths", {}), buffers, allocator)

    @classmethod
    def fresh(cls, slot: int, allocator: Allocator | None = None) -> SlotState:
        """Return the empty state of a slot."""
        return cls({"slot": slot}, None, allocator)

    @property
    def slot(self) -> int:
        """The slot's number."""
        return int(self.header["slot"])

    @property
    def clock(self) -> SlotClock:
        """The time after the slot's last batch; step 0 before its first."""
        return msgspec.convert(self.header.get("clock", {}), SlotClock)

    def entry(self, name: str) -> dict[str, Any]:
        """Return an entry of the header that is a JSON object; create it if it is missing."""
        entry: dict[str, Any] = self.header.setdefault(name, {})
        return entry

    def release(self, prefix: str) -> None:
        """Remove all arrays whose names begin with `prefix`, and their declarations."""
        super().release(prefix)
        # See `stqsh.core.state.table`, and `stqsh.core.texts.term_table`.
        for entry in ("references", "derived", "versions", "value_columns"):
            declared = self.header.get(entry, {})
            self.header[entry] = {n: found for n, found in declared.items() if not n.startswith(prefix)}


class _SnapshotHead(msgspec.Struct):
    """The start of a snapshot: the header, and the name and dtype of each array."""

    header: dict[str, Any]
    arrays: list[tuple[str, str]]


def snapshot(state: SlotState) -> Iterator[bytes]:
    """Cut the state into pieces of at most `PIECE_BYTES` for `restore`; arrays have their exact length."""
    directory = [(name, state.buffers[name].dtype.str) for name in state.names()]
    head = msgspec.json.encode(_SnapshotHead(state.header, directory))
    parts: list[bytes | memoryview] = [len(head).to_bytes(8, "little"), head]
    parts += [np.ascontiguousarray(state.array(name)).view(np.uint8).data for name in state.names()]
    return _cut(parts)


def _cut(parts: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    piece = bytearray()
    for part in parts:
        at = 0
        while at < len(part):
            taken = part[at : at + PIECE_BYTES - len(piece)]
            piece += taken
            at += len(taken)
            if len(piece) == PIECE_BYTES:
                yield bytes(piece)
                piece = bytearray()
    if piece:
        yield bytes(piece)


def restore(pieces: Iterable[bytes | memoryview], allocator: Allocator | None = None) -> SlotState:
    """Return the state that `snapshot` cut into these pieces.

    Raises:
        ValueError: the pieces are not a complete snapshot.
    """
    reader = _Reader(pieces)
    head = msgspec.json.decode(reader.take(int.from_bytes(reader.take(8), "little")), type=_SnapshotHead)
    lengths = head.header["lengths"]
    state = SlotState({**head.header, "lengths": {}}, None, allocator)
    for name, dtype in head.arrays:
        view = state.create(name, dtype, lengths[name])
        reader.fill(view.view(np.uint8))
    return state


class _Reader:
    """Reads bytes across the boundaries of pieces."""

    def __init__(self, pieces: Iterable[bytes | memoryview]) -> None:
        self._pieces = iter(pieces)
        self._rest: memoryview = memoryview(b"")

    def take(self, count: int) -> bytes:
        out = np.empty(count, np.uint8)
        self.fill(out)
        return out.tobytes()

    def fill(self, target: npt.NDArray[np.uint8]) -> None:
        at = 0
        while at < len(target):
            if not self._rest:
                try:
                    self._rest = memoryview(next(self._pieces))
                except StopIteration:
                    raise ValueError("a snapshot ends before its last array") from None
            count = min(len(target) - at, len(self._rest))
            target[at : at + count] = np.frombuffer(self._rest[:count], np.uint8)
            self._rest = self._rest[count:]
            at += count


def stream_specs(state: SlotState) -> dict[int, StreamSpec]:
    """Return the streams that a slot knows, by id."""
    return {int(stream): stream_spec(content) for stream, content in state.entry("streams").items()}
