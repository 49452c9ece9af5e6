"""The slots' published state: an arena's files, and a reader of all slots at one step.

An arena holds a slot's arrays as memory-mapped files beside three small ones. `NAME.head` says which state
the arrays hold and where each one is; it is absent while they change. A writer holds `NAME.lock` alone,
readers share it. Both pass `NAME.gate` on the way to the lock, so that a series of readers never keeps a
writer out.

`PublishedSlots` is the reading side (architecture.md): it maps the arrays in place and copies
nothing, so an answer costs what its evaluation costs. The engine's `stqsh.engine.state.arena` writes.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from stqsh.core.state.slot_state import SlotState
from stqsh.errors import NotPublishedError, SlotStateError

FORMAT = 2
"""The version of head files; others are not to be trusted."""

PATIENCE_S = 60.0
"""How long to wait for a lock: longer than any batch takes."""

_POLL_S = 0.0005

Array = NDArray[Any]
T = TypeVar("T")


class ArenaBusyError(SlotStateError):
    """Another process has held a slot's arena for too long."""


@dataclass(frozen=True, slots=True)
class HeadFile:
    """The content of a head file.

    Attributes:
        stamp: names the state.
        header: the core's own header.
        arrays: by name the file, the dtype as numpy spells it, and the length.
    """

    stamp: str
    header: Any
    arrays: dict[str, tuple[str, str, int]]


def slot_name(operator: str, slot: int) -> str:
    """Return the name of the files of one slot of an operator."""
    return f"{operator}-{slot}"


def read_head(folder: Path, name: str) -> HeadFile | None:
    """Return the head, None if the arrays are not to be trusted (or there are none)."""
    try:
        value = orjson.loads((folder / f"{name}.head").read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
    if value.get("format") != FORMAT or value["boot"] != boot_id():
        return None
    arrays = {name: (file, dtype, length) for name, (file, dtype, length) in value["arrays"].items()}
    return HeadFile(value["stamp"], value["header"], arrays)


def boot_id() -> str:
    """Return an id of the machine's current boot: older files may be half written, after a power cut."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return str(round((time.time() - time.monotonic()) / 60))


@contextmanager
def locked(folder: Path, name: str, *, shared: bool, until: float | None = None) -> Iterator[None]:
    """Hold a slot's arena, alone or `shared` with other readers; the lock of a dead process is released.

    `until` is the monotonic time at which to give up, by default `PATIENCE_S` from now.

    Raises:
        ArenaBusyError: the lock was not released in time.
    """
    deadline = time.monotonic() + PATIENCE_S if until is None else until
    mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with ExitStack() as held:
        lock = _opened(f"{folder}/{name}.lock", held)
        with ExitStack() as passing:
            _take(_opened(f"{folder}/{name}.gate", passing), mode, deadline)
            _take(lock, mode, deadline)
        yield


def _opened(file: str, stack: ExitStack) -> int:
    """Open a file to be locked, made if needed, for as long as the stack lasts."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    return descriptor


def _take(file: int, mode: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(file, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ArenaBusyError("another process holds this slot's arena") from None
            time.sleep(_POLL_S)
        else:
            return


def as_array(content: NDArray[np.uint8], dtype: np.dtype[Any], length: int) -> Array:
    """View the beginning of a file's content as an array."""
    return content[: length * dtype.itemsize].view(dtype)


class _SlotReader:
    """One slot's state as it was last published; keeps its mappings while files stay the same."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name, self._head = folder, name, f"{folder}/{name}.head"
        self._seen: tuple[int, int] | None = None
        self._maps: dict[str, NDArray[np.uint8]] = {}
        self._state: SlotState | None = None

    def state(self) -> SlotState:
        """Return the state; the slot's lock must be held. Raises `NotPublishedError`."""
        try:
            status = os.stat(self._head)  # noqa: PTH116 - many times faster than pathlib's
        except FileNotFoundError:
            raise NotPublishedError(f"{self._name} has no head") from None
        seen = (status.st_ino, status.st_mtime_ns)
        if self._state is None or self._seen != seen:
            self._state, self._seen = self._read(), seen
        return self._state

    def _read(self) -> SlotState:
        head = read_head(self._folder, self._name)
        if head is None:
            raise NotPublishedError(f"the head of {self._name} is not to be trusted")
        files = {file for file, _, _ in head.arrays.values()}
        try:
            self._maps = {file: self._maps[file] if file in self._maps else _mapped(file) for file in files}
        except FileNotFoundError as error:
            raise NotPublishedError(f"{error.filename} is gone") from None
        arrays = {
            name: as_array(self._maps[file], np.dtype(dtype), length)
            for name, (file, dtype, length) in head.arrays.items()
        }
        return SlotState(head.header, arrays)


def _mapped(file: str) -> NDArray[np.uint8]:
    """Map a file such that writes to the arrays stay within this process.

    Nothing here writes, but numba compiles kernels again for read-only arrays.
    """
    with Path(file).open("rb") as content:
        return np.frombuffer(mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)


class PublishedSlots:
    """The slots of a session whose arena is in `folder` on this host; for one thread."""

    def __init__(self, folder: Path, slots: int) -> None:
        self._folder = folder
        self._names = [slot_name("evaluate", slot) for slot in range(slots)]
        self._readers = [_SlotReader(folder, name) for name in self._names]

    def read(self, use: Callable[[list[SlotState]], T], least: int, patience_s: Callable[[], float]) -> T:
        """Return the result of `use` on all slots' states at one step, not before `least`.

        `use` must not keep the states. `patience_s` returns how long to wait for a batch under way; it is
        called only if waiting is needed.

        Raises:
            NotPublishedError: the states are not available in time: they are on another host, lost in a
                restart, or half written because a process died.
        """
        begun, deadline = time.monotonic(), 0.0
        while True:
            try:
                with self._shared(deadline):
                    states = [reader.state() for reader in self._readers]
                    if _step_of(states) >= least:
                        return use(states)
                reason = NotPublishedError("the slots are at different steps")
            except NotPublishedError as error:
                reason = error
            except FileNotFoundError as error:
                raise NotPublishedError(str(error)) from None
            except ArenaBusyError as error:
                reason = NotPublishedError(str(error))
            deadline = deadline or begun + patience_s()
            if time.monotonic() > deadline:
                raise reason
            time.sleep(_POLL_S * 4)

    @contextmanager
    def _shared(self, deadline: float) -> Iterator[None]:
        with ExitStack() as stack:
            for name in self._names:
                stack.enter_context(locked(self._folder, name, shared=True, until=deadline))
            yield


def _step_of(states: list[SlotState]) -> int:
    """Return the step at which all slots are, -1 if they differ."""
    steps = {state.header.get("clock", {}).get("step", -1) for state in states}
    return steps.pop() if len(steps) == 1 else -1
