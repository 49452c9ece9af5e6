"""Spark's Python daemon, with imports, garbage collection and heap set up for its workers.

Spark forks its Python workers from this process:

- Imports are done once, before the first fork. A worker then starts at once instead of importing for a
  second, even after another worker was killed.
- Spark collects garbage of all generations after each task. Scanning all objects of pandas, pyspark and
  numba took half of the engine's processor time: 9.4 s per million records (`stqsh bench range`), 4.7 s
  once imports are frozen, less once compiled kernels are frozen, too.
- A batch allocates arrays of megabytes and frees them again. By default glibc returns each of them to the
  system, which zeroes the pages before it reuses them: a sixth of the time of Evaluate for a record with five
  updates, and 1.7 ms instead of 0.4 ms to pack a chunk of 3 MB.

A fork copies only one thread, and a lock that another thread held stays locked for ever. So no library may
start threads in this process. Two of them do so on import unless environment variables prevent it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import sys
from importlib import import_module

from stqsh.arrow_alone import keep_pandas_out
from stqsh.engine.config import STACKS_SIGNAL
from stqsh.engine.spark.spark_internals import WORKER_MODULE, serve_workers
from stqsh.garbage import collect_seldom, freeze_objects

WITHOUT_PANDAS = "STQSH_WORKERS_WITHOUT_PANDAS"
"""The environment variable that marks workers as not needing pandas; operators of a cluster need it."""

_PRELOADED = (
    "pyarrow",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pyspark.sql.streaming.stateful_processor_util",
    "stqsh.engine.operators.slot_task",
    "stqsh.engine.ingest.task_reader",
    "stqsh.core.evaluate",
    "stqsh.core.aggregate",
)

_NO_THREADS = {
    "OPENBLAS_NUM_THREADS": "1",  # numpy's linear algebra, which the core does not use
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow's jemalloc
}
"""The environment variables that prevent the preloaded libraries from starting threads."""

#: Parameters of glibc's `mallopt`.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: The maximum freed memory that a process keeps, in bytes.
_KEPT_BYTES = 256 << 20
#: Allocations of at least this many bytes are mapped from the system and returned to it.
_SYSTEM_BYTES = 64 << 20

#: Tasks after which a worker returns freed memory: fragmentation would add up over hours.
_TRIM_TASKS = 256

_tasks = 0


def freeze_after_task() -> None:
    """Call `freeze_objects` after a worker's tasks 1, 2, 4, 8, ...: kernels load at their first call.

    Periodically return the memory that the worker has freed.
    """
    global _tasks  # noqa: PLW0603  (a count of this process)
    _tasks += 1
    if _tasks & (_tasks - 1) == 0:
        freeze_objects()
    if _tasks % _TRIM_TASKS == 0:
        return_freed_memory()


def keep_freed_memory() -> None:
    """Make the C library of this process and its forks keep freed memory, if it supports that."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _SYSTEM_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def return_freed_memory() -> None:
    """Return all freed memory of this process to the system, if the C library supports that."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def print_stacks_when_asked() -> None:
    """Make this process and its forks print their stacks to standard error upon `STACKS_SIGNAL`."""
    faulthandler.register(STACKS_SIGNAL, file=sys.stderr, all_threads=True)


def main() -> None:
    """Import what workers need, then serve as Spark's own daemon does.

    The first command-line argument names the module of the workers; only Spark's usual one is preloaded.
    """
    collect_seldom()
    print_stacks_when_asked()
    if sys.argv[1:2] == [WORKER_MODULE]:
        os.environ |= _NO_THREADS
        if os.environ.get(WITHOUT_PANDAS):
            keep_pandas_out()
        else:
            import_module("pandas")
        for name in _PRELOADED:
            import_module(name)
        freeze_objects()
        keep_freed_memory()
    serve_workers()


if __name__ == "__main__":
    main()
