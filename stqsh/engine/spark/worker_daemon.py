"""Spark's Python daemon, with what workers need imported before they are forked.

A forked worker then begins at once, where it would first import for a second; also after it was killed.
"""

from __future__ import annotations

import sys
from importlib import import_module

from stqsh.engine.spark.garbage import settle
from stqsh.engine.spark.heap import keep_heap

_WORKER = "pyspark.worker"
_NEEDED = (
    "pandas",
    "pyarrow",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pyspark.sql.streaming.stateful_processor_util",
    "stqsh.engine.operators.folds",
    "stqsh.engine.operators.slot_task",
    "stqsh.engine.planning.tasks",
    "stqsh.core.evaluate",
    "stqsh.core.aggregate",
)


def main() -> None:
    """Import, then serve as Spark's own daemon does. The daemon's argument names the kind of its workers."""
    if sys.argv[1:2] == [_WORKER]:
        for name in _NEEDED:
            import_module(name)
        settle()
        keep_heap()
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
