"""The pure core: a slot's state as arrays, and the deterministic functions that turn chunks into updates."""


def warm_up() -> None:
    """Compile all kernels, or load them from numba's cache on disk, which takes seconds the first time."""
    from stqsh.core.kernel_warmup import warm_up as compile_all  # imports numba only when needed

    compile_all()


def compile_kernels(niceness: int = 0) -> None:
    """Compile all kernels unless that was done before; load none.

    `niceness`: by how much the processes that compile give way to others.
    """
    from stqsh.core.kernel_cache import compile_kernels as compile_missing

    compile_missing(niceness)
