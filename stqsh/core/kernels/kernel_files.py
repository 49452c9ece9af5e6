"""Compiled kernels on disk: each is compiled by one process at a time, and checked when it is read.

Numba's own files give wrong code where two processes save two signatures of a kernel at the same moment, and
end the program where a file is damaged.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock
from xxhash import xxh3_128_digest

from stqsh.fs import file_lock

_DIGEST_BYTES = 16


class CheckedFiles(IndexDataCacheFile):
    """Numba's files of one kernel; each file of code also holds its own key and a checksum.

    Whatever is damaged, half written or of another key counts as missing, and is compiled again.
    """

    def save(self, key: object, data: object) -> None:
        """Save code under its key."""
        super().save(key, (key, data))  # type: ignore[no-untyped-call]

    def load(self, key: object) -> object:
        """Return the code of a key, or None where there is none that is whole."""
        try:
            found = super().load(key)  # type: ignore[no-untyped-call]
        except Exception:  # a damaged file can raise anything; its code is compiled again
            return None
        return None if found is None or found[0] != key else found[1]

    def _load_index(self) -> dict[object, str]:
        try:
            return dict(super()._load_index())  # type: ignore[no-untyped-call]
        except Exception:  # as above
            return {}

    def _load_data(self, name: str) -> object:
        content = Path(self._data_path(name)).read_bytes()  # type: ignore[no-untyped-call]
        digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if xxh3_128_digest(code) != digest:
            raise ValueError("damaged")
        return pickle.loads(code)

    def _save_data(self, name: str, data: object) -> None:
        code = self._dump(data)  # type: ignore[no-untyped-call]
        with self._open_for_write(self._data_path(name)) as file:  # type: ignore[no-untyped-call]
            file.write(xxh3_128_digest(code) + code)


class KernelCache(FunctionCache):
    """What numba keeps of one kernel."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        locator, base = self._impl.locator, self._impl.filename_base
        self._cache_file = CheckedFiles(self._cache_path, base, locator.get_source_stamp())  # type: ignore[no-untyped-call]
        self._lock = Path(self._cache_path) / f"{base}.lock"
        self._is_held = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from compiling the kernel, unless the cache cannot be written to."""
        if self._is_held:  # for another signature
            yield
            return
        with ExitStack() as stack:
            with suppress(OSError):
                self._lock.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(file_lock(self._lock))
            self._is_held = True
            try:
                yield
            finally:
                self._is_held = False


def compile_alone(dispatcher: Any, function: Callable[..., Any]) -> None:
    """Let a dispatcher of numba keep its code on disk, and compile what no other process is compiling.

    A process that needs a kernel which another one compiles waits for it, and loads it. Kernels do not call
    each other in a circle, so the waiting always ends; a process that dies lets go of what it holds.
    """
    cache = KernelCache(function)
    compile_now = dispatcher.compile

    def compile_once(signature: Any) -> Any:
        if signature in dispatcher.overloads:
            return dispatcher.overloads[signature].entry_point
        # Numba's own lock first: a thread that waits for it must not hold a kernel that another thread needs.
        with global_compiler_lock, cache.held():
            return compile_now(signature)

    dispatcher._cache = cache
    dispatcher.compile = compile_once
