"""Compiled kernels on disk: one process at a time compiles each kernel, and each file is checked when read.

Numba's own files yield wrong code if two processes save two signatures of a kernel at the same moment, and
they crash the program if a file is damaged.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite.binding import get_host_cpu_features  # type: ignore[import-untyped]
from numba import config
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock
from xxhash import xxh3_128_digest

from stqsh.fs import file_lock

_DIGEST_BYTES = 16

COMMON_CPU = "x86-64-v3"
"""The processor type of the kernels in wheels: nearly all processors of the last ten years are of it."""

_COMMON_FEATURES = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")


class CheckedFiles(IndexDataCacheFile):
    """Numba's files of one kernel; each file of code also contains its key and a checksum.

    A file that is damaged, incomplete or of another key counts as missing, and the kernel is compiled again.
    """

    def save(self, key: object, data: object) -> None:
        """Save code under its key."""
        super().save(key, (key, data))  # type: ignore[no-untyped-call]

    def load(self, key: object) -> object:
        """Return the code of a key, or None if there is no intact file."""
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


@cache
def runs_common_code() -> bool:
    """Return whether this processor can run code that was compiled for `COMMON_CPU`."""
    features = get_host_cpu_features()
    return all(features.get(name, False) for name in _COMMON_FEATURES)


class KernelCache(FunctionCache):
    """The compiled code that numba stores for one kernel.

    Args:
        function: The kernel.
        shipped: A folder like that of the cache, with code for `COMMON_CPU` that came with the package. It is
            used if the cache itself has no code.
    """

    def __init__(self, function: Callable[..., Any], shipped: Path | None) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        base, stamp = self._impl.filename_base, self._impl.locator.get_source_stamp()
        self._cache_file = CheckedFiles(self._cache_path, base, stamp)  # type: ignore[no-untyped-call]
        self._shipped: CheckedFiles | None = None
        if shipped is not None and shipped.is_dir() and runs_common_code():
            folder = shipped / Path(self._cache_path).relative_to(config.CACHE_DIR)  # type: ignore[attr-defined]  # set by jit
            self._shipped = CheckedFiles(str(folder), base, stamp)  # type: ignore[no-untyped-call]
        self._lock = Path(self._cache_path) / f"{base}.lock"
        self._is_held = False

    def load_overload(self, sig: object, target_context: Any) -> Any:
        """Return the compiled code of a signature, or None if there is none."""
        found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if found is not None or self._shipped is None:
            return found
        asked, (triple, *_), code = self._index_key(sig, target_context.codegen())  # type: ignore[no-untyped-call]
        data = self._shipped.load((asked, (triple, COMMON_CPU, ""), code))
        return None if data is None else self._impl.rebuild(target_context, data)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Prevent other processes from compiling the kernel, unless the cache is not writable."""
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


def compile_alone(dispatcher: Any, function: Callable[..., Any], shipped: Path | None) -> None:
    """Let a numba dispatcher store its code on disk, and compile only what no other process is compiling.

    A process that needs a kernel which another process is compiling waits for it, and then loads it. Kernels
    do not call each other in a circle, so the waiting always ends. A process that dies releases its locks.
    See `KernelCache` for `shipped`.
    """
    kept = KernelCache(function, shipped)
    compile_now = dispatcher.compile

    def compile_once(signature: Any) -> Any:
        if signature in dispatcher.overloads:
            return dispatcher.overloads[signature].entry_point
        # Acquire numba's lock first: a thread waiting for it must not hold a kernel that another thread
        # needs.
        with global_compiler_lock, kept.held():
            return compile_now(signature)

    dispatcher._cache = kept
    dispatcher.compile = compile_once
