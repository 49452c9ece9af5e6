"""Compile kernels once for each state of their sources; a mark file records that all are compiled."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numba
from llvmlite.binding import get_host_cpu_name  # type: ignore[import-untyped]

from stqsh.core.kernels import jit  # defines where compiled kernels are kept
from stqsh.core.kernels.kernel_files import COMMON_CPU, runs_common_code


def compile_kernels(niceness: int = 0, on_progress: Callable[[int, int], None] | None = None) -> None:
    """Compile all kernels, unless the mark file exists.

    Loading all of them just to check takes 2.5 s of processor time at each start of an engine.

    Args:
        niceness: Added to the niceness of the processes after the kernels of the first answers.
        on_progress: Called twice a second with the number of compiled kernels and the number of all kernels.
    """
    mark = _mark()
    if (mark is not None and mark.exists()) or _are_shipped():
        return
    from stqsh.core.kernel_warmup import compile_in_two_processes

    whole = _number_of_kernels()

    def look() -> None:
        if on_progress is not None:
            on_progress(min(_number_compiled(), whole), whole)

    compile_in_two_processes(niceness, look)
    if mark is not None:
        mark.touch()


def ship_kernels(package: Path | None = None) -> None:
    """Compile all kernels, and copy them into the folder that `package`, by default this one, ships."""
    assert jit.SHIPPED is not None, "the user has chosen no folder"
    compile_kernels()
    folder = numba.config.CACHE_DIR  # type: ignore[attr-defined]  # set by jit
    shipped = (
        jit.SHIPPED if package is None else package / jit.SHIPPED.relative_to(Path(jit.__file__).parents[2])
    )
    shutil.copytree(folder, shipped, ignore=shutil.ignore_patterns("*.lock"), dirs_exist_ok=True)


def _number_of_kernels() -> int:
    """Return the number of kernels in the sources."""
    sources = Path(jit.__file__).parent.rglob("*.py")
    return sum(file.read_text(encoding="utf-8").splitlines().count("@kernel") for file in sources)


def _number_compiled() -> int:
    """Return the number of kernels with compiled code on disk."""
    folder = Path(numba.config.CACHE_DIR) / "core"  # type: ignore[attr-defined]  # set by jit
    return sum(1 for _ in folder.rglob("*.nbi"))


def _are_shipped() -> bool:
    """Return whether the package ships all kernels, compiled for this platform."""
    return jit.SHIPPED is not None and runs_common_code() and (jit.SHIPPED / _mark_name(COMMON_CPU)).exists()


def _mark() -> Path | None:
    """Return the mark file for numba and the processor; None if the user chose the folder.

    The folder belongs to one state of the sources (see the module `jit`).
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return None
    name = _mark_name(numba.config.CPU_NAME or get_host_cpu_name())  # type: ignore[attr-defined]
    return Path(numba.config.CACHE_DIR) / name  # type: ignore[attr-defined]  # set by jit


def _mark_name(processor: str) -> str:
    return f"complete-{sys.implementation.cache_tag}-{numba.__version__}-{processor}"
