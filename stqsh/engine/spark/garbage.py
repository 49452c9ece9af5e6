"""Garbage collection in Spark's workers: what lasts is not looked at again and again.

Spark has a worker collect garbage after each task, all generations. To look through all that pandas, pyspark
and numba brought in took half of the engine's processor time: 9.4 s a million records (`stqsh bench range`),
4.7 s once imports are passed over, less once compiled kernels are, too.
"""

from __future__ import annotations

import gc

_tasks = 0


def settle() -> None:
    """Pass over all that is alive now, from here on; still freed when nothing refers to it any more."""
    gc.collect()
    gc.freeze()


def settle_after_task() -> None:
    """`settle` after a worker's tasks 1, 2, 4, 8 and so on: kernels are loaded when they are first called."""
    global _tasks  # noqa: PLW0603  (a count of this process)
    _tasks += 1
    if _tasks & (_tasks - 1) == 0:
        settle()
