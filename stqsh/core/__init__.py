"""The pure core: a slot's state as arrays, and the deterministic functions that turn chunks into updates."""

from __future__ import annotations

from collections.abc import Callable


def warm_up() -> None:
    """Compile all kernels, or load them from numba's cache on disk, which takes seconds the first time."""
    from stqsh.core.kernel_warmup import warm_up as compile_all  # imports numba only when needed

    compile_all()


def compile_kernels(niceness: int = 0, on_progress: Callable[[int, int], None] | None = None) -> None:
    """Compile all kernels unless that was done before; load none.

    The kernels for a session's first answers are compiled first. `niceness` is added to the niceness of the
    processes before they compile the others. `on_progress` is called twice a second with the number of
    compiled kernels and the number of all kernels.
    """
    from stqsh.core.kernel_cache import compile_kernels as compile_missing

    compile_missing(niceness, on_progress)
