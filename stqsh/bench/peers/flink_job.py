"""Answer range queries in PyFlink with broadcast state: a program for the Python that has PyFlink.

The queries are a broadcast stream: each subtask keeps them in broadcast state and looks records up in a
shapely STRtree of them. Records are keyed by object; keyed state holds the regions that an object is in. Two
files of records, with half of the objects each, are read in parallel. Records that come before the last query
wait in keyed state for a timer, or for the end of the input. The program prints `U step query object op
seconds` for each update, and `B seconds` when a subtask takes its first measured record.

python flink_job.py FOLDER QUERIES FILL: FOLDER has queries.csv and records/*.csv; the steps after FILL are
measured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import shapely
from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import KeyedBroadcastProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

CORES = 2
_WAIT_MS = 200
#: Without watermarks, a timer of event time fires when the input ends; those of processing time no longer do.
_END = 0
QUERIES = MapStateDescriptor("queries", Types.INT(), Types.STRING())


class RegionJoin(KeyedBroadcastProcessFunction):  # type: ignore[misc]  # untyped here
    """Emit which regions objects enter and leave."""

    def __init__(self, queries: int, fill: int) -> None:
        self._queries, self._fill = queries, fill
        self._boxes: dict[int, list[float]] = {}
        self._tree: Any = None
        self._has_begun = False

    def open(self, runtime_context: Any) -> None:
        """Open the keyed state: the regions of an object, and records that came too early."""
        self._inside = runtime_context.get_state(ValueStateDescriptor("inside", Types.STRING()))
        self._early = runtime_context.get_list_state(ListStateDescriptor("early", Types.STRING()))

    def process_broadcast_element(self, value: str, ctx: Any) -> Iterator[str]:
        """Keep a query; build the index with the last one."""
        number, *sides = value.split(",")
        ctx.get_broadcast_state(QUERIES).put(int(number), value)
        self._boxes[int(number)] = list(map(float, sides))
        if len(self._boxes) == self._queries:
            boxes = [self._boxes[query] for query in range(self._queries)]
            self._tree = shapely.STRtree([shapely.box(*box) for box in boxes])
        yield from ()

    def process_element(self, value: str, ctx: Any) -> Iterator[str]:
        """Look a record up, or keep it until the queries are there."""
        if self._tree is None or self._early_ones():
            self._early.add(value)
            timers = ctx.timer_service()
            timers.register_processing_time_timer(timers.current_processing_time() + _WAIT_MS)
            timers.register_event_time_timer(_END)
            return
        yield from self._take(value)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        """Look up the records that have waited."""
        if self._tree is None:
            ctx.timer_service().register_processing_time_timer(timestamp + _WAIT_MS)
            return
        waiting = self._early_ones()
        self._early.clear()
        for value in sorted(waiting, key=lambda text: int(text.partition(",")[0])):
            yield from self._take(value)

    def _early_ones(self) -> list[str]:
        return list(self._early.get() or ())

    def _take(self, value: str) -> Iterator[str]:
        step, oid, x, y = value.split(",")
        if not self._has_begun and int(step) > self._fill:
            self._has_begun = True
            yield f"B {time.time():.6f}"
        kept = self._inside.value()
        before = set(kept.split(",")) if kept else set()
        found = self._tree.query(shapely.Point(float(x), float(y)), predicate="intersects")
        now = set(map(str, found.tolist()))
        if now == before:
            return
        self._inside.update(",".join(sorted(now)))
        at = f"{time.time():.6f}"
        for query in now - before:
            yield f"U {step} {query} {oid} 1 {at}"
        for query in before - now:
            yield f"U {step} {query} {oid} -1 {at}"


def main(folder: Path, queries: int, fill: int) -> None:
    """Build the job and run it to its end."""
    settings = Configuration()
    settings.set_string("python.executable", sys.executable)
    settings.set_string("python.client.executable", sys.executable)
    settings.set_integer("python.fn-execution.bundle.size", 10_000)
    settings.set_integer("python.state.cache-size", 100_000)
    settings.set_string("taskmanager.memory.process.size", "4g")
    environment = StreamExecutionEnvironment.get_execution_environment(settings)
    environment.set_parallelism(CORES)
    asked = environment.from_source(
        _lines(folder / "queries.csv"), WatermarkStrategy.no_watermarks(), "queries"
    )
    records = environment.from_source(
        _lines(folder / "records"), WatermarkStrategy.no_watermarks(), "records"
    )
    keyed = records.key_by(lambda line: int(line.split(",", 2)[1]), key_type=Types.LONG())
    updates = keyed.connect(asked.broadcast(QUERIES)).process(RegionJoin(queries, fill), Types.STRING())
    updates.print()
    environment.execute("regions")


def _lines(path: Path) -> FileSource:
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
