"""Answer range queries over a Kafka topic in PyFlink: a program for the Python that has PyFlink.

Flink's own Kafka connector reads the messages and its JSON format decodes them, both in Java. The join is by
hand, as in flink_job.py: a shapely STRtree of the regions in each subtask, and keyed state with the regions
that an object is in. The program prints `U query op` for each update, and `T seconds` whenever a subtask has
taken another EVERY records.

python kafka_flink_job.py FOLDER ADDRESS TOPIC EVERY JAR: FOLDER has queries.csv. It reads what the topic has.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import shapely
from pyflink.common import Configuration, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.table import StreamTableEnvironment

CORES = 2
_SOURCE = """CREATE TABLE m (oid STRING, x DOUBLE, y DOUBLE, ts BIGINT) WITH (
  'connector' = 'kafka', 'properties.bootstrap.servers' = '{address}', 'topic' = '{topic}',
  'format' = 'json', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset')"""


class KafkaRegionJoin(KeyedProcessFunction):  # type: ignore[misc]  # untyped here
    """Emit which regions objects enter and leave."""

    def __init__(self, queries: str, every: int) -> None:
        self._queries, self._every = queries, every
        self._taken = 0

    def open(self, runtime_context: Any) -> None:
        """Build the index, and open the keyed state: the regions of an object."""
        lines = Path(self._queries).read_text().splitlines()
        boxes = [shapely.box(*map(float, line.split(",")[1:])) for line in lines]
        self._tree = shapely.STRtree(boxes)
        self._inside = runtime_context.get_state(ValueStateDescriptor("inside", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        """Look a record up."""
        self._taken += 1
        if self._taken % self._every == 0:
            yield f"T {time.time():.6f}"
        kept = self._inside.value()
        before = set(kept.split(",")) if kept else set()
        found = self._tree.query(shapely.Point(value[1], value[2]), predicate="intersects")
        now = set(map(str, found.tolist()))
        if now == before:
            return
        self._inside.update(",".join(sorted(now)))
        for query in now - before:
            yield f"U {query} 1"
        for query in before - now:
            yield f"U {query} -1"


def main(folder: Path, address: str, topic: str, every: int, jar: str) -> None:
    """Build the job and run it to its end."""
    settings = Configuration()
    settings.set_string("pipeline.jars", Path(jar).as_uri())
    settings.set_string("python.executable", sys.executable)
    settings.set_string("python.client.executable", sys.executable)
    settings.set_integer("python.fn-execution.bundle.size", 10_000)
    settings.set_integer("python.state.cache-size", 100_000)
    settings.set_string("taskmanager.memory.process.size", "4g")
    environment = StreamExecutionEnvironment.get_execution_environment(settings)
    environment.set_parallelism(CORES)
    tables = StreamTableEnvironment.create(environment)
    tables.execute_sql(_SOURCE.format(address=address, topic=topic))
    records = tables.to_data_stream(tables.from_path("m"))
    keyed = records.key_by(lambda row: row[0], key_type=Types.STRING())
    keyed.process(KafkaRegionJoin(str(folder / "queries.csv"), every), Types.STRING()).print()
    environment.execute("regions")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
