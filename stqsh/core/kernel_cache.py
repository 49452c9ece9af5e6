"""Compile kernels once for each state of their sources; a mark file records that all are compiled."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numba
from llvmlite.binding import get_host_cpu_name  # type: ignore[import-untyped]

import stqsh.core.kernels.jit  # noqa: F401  # defines where compiled kernels are kept


def compile_kernels(niceness: int = 0) -> None:
    """Compile all kernels, unless the mark file exists.

    Loading all of them just to check takes 2.5 s of processor time at each start of an engine. `niceness`:
    by how much the compiling processes give way to others.
    """
    mark = _mark()
    if mark is not None and mark.exists():
        return
    from stqsh.core.kernel_warmup import compile_in_two_processes

    compile_in_two_processes(niceness)
    if mark is not None:
        mark.touch()


def _mark() -> Path | None:
    """Return the mark file for numba and the processor; None if the user chose the folder.

    The folder is of one state of the sources (see the module `jit`).
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return None
    versions = f"{sys.implementation.cache_tag}-{numba.__version__}-{get_host_cpu_name()}"
    return Path(numba.config.CACHE_DIR) / f"complete-{versions}"  # type: ignore[attr-defined]  # set by jit
