"""Run PyFlink with Flink's own Kafka connector and a hand-written join; see kafka_flink_job.py.

The connector is of Flink 2.0, the last version that is published for Flink 2. Checkpoints are off, which
favours Flink.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.bench.peers.flink import run_job
from stqsh.bench.peers.kafka_spark import KafkaPeerOutcome
from stqsh.bench.peers.peer import PeerFailedError, write_csv
from stqsh.engine.spark.maven import bring

VERSION = "4.0.1-2.0"
_EVERY = 2_000
"""A subtask reports each time it has taken this many records."""
_WARM_UP = 0.2
"""The share of the records that is not counted: that of the first of the five batches of Spark's reader."""
_JOB = Path(__file__).with_name("kafka_flink_job.py")


def bring_connector() -> Path:
    """Return the jar of Flink's Kafka connector; bring it if it is not there.

    Raises:
        LibraryMissingError: it cannot be had.
    """
    name = "flink-sql-connector-kafka"
    return bring(f"flink-kafka-{VERSION}", "org.apache.flink", name, VERSION) / f"{name}-{VERSION}.jar"


def run(address: str, topic: str, squares: NDArray[Any]) -> KafkaPeerOutcome:
    """Read what a topic has, and answer which objects are in which squares.

    Raises:
        LibraryMissingError: Flink's Kafka connector cannot be had.
        PeerFailedError: the program ends with an error, or has taken too few records to be measured.
    """
    jar = str(bring_connector())
    with tempfile.TemporaryDirectory(prefix="stqsh-peer-") as name:
        folder = Path(name)
        columns = [np.arange(len(squares)), *squares.T]
        write_csv(pa.table(list(map(pa.array, columns)), names=list("qabcd")), folder / "queries.csv")
        printed = folder / "printed"
        run_job(_JOB, [name, address, topic, str(_EVERY), jar], printed)
        return outcome(printed.read_text().splitlines(), len(squares))


def outcome(lines: list[str], queries: int) -> KafkaPeerOutcome:
    """Read the job's output; a line may begin with the number of the subtask and `>`, as Flink prints.

    Raises:
        PeerFailedError: it has taken too few records to be measured.
    """
    words = [line.rpartition("> ")[2].split() for line in lines]
    times = sorted(float(rest[0]) for word, *rest in filter(None, words) if word == "T")
    updates = [(int(rest[0]), int(rest[1])) for word, *rest in filter(None, words) if word == "U"]
    counted = times[int(len(times) * _WARM_UP) :]
    if len(counted) < 2:
        raise PeerFailedError("the job has taken too few records to be measured")
    counts = np.zeros(queries, np.int64)
    query, op = np.array(updates or np.empty((0, 2)), np.int64).T
    np.add.at(counts, query, op)
    return KafkaPeerOutcome([(len(counted) - 1) * _EVERY / (counted[-1] - counted[0])], counts)
