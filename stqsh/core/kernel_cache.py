"""Compile kernels once for each state of their sources; a mark file records that all are compiled."""

from __future__ import annotations

import os
import sys
from hashlib import sha256
from pathlib import Path

import numba
from llvmlite.binding import get_host_cpu_name  # type: ignore[import-untyped]

from stqsh.core.kernels import jit  # defines where compiled kernels are kept


def compile_kernels() -> None:
    """Compile all kernels, unless the mark file exists.

    Loading all of them just to check takes 2.5 s of processor time at each start of an engine.
    """
    mark = _mark()
    if mark is not None and mark.exists():
        return
    from stqsh.core.kernel_warmup import compile_in_two_processes

    compile_in_two_processes()
    if mark is not None:
        mark.touch()


def _mark() -> Path | None:
    """Return the mark file for these sources, numba and processor; None if the user chose the folder.

    Numba keys compiled kernels by the path of their source, and recompiles them when its time has changed, so
    another checkout of the same state must be compiled as well.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return None
    folder = Path(numba.config.CACHE_DIR)  # type: ignore[attr-defined]  # set by the module jit
    files = sorted(Path(jit.__file__).parent.rglob("*.py"))
    sources = sha256(repr([(str(file), file.stat().st_mtime_ns) for file in files]).encode()).hexdigest()[:12]
    versions = f"{sys.implementation.cache_tag}-{numba.__version__}-{get_host_cpu_name()}"
    return folder / f"complete-{versions}-{sources}"
