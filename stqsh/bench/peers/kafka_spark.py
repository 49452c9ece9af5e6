"""Run Spark's own Kafka reader with a hand-written join; see kafka_spark_job.py.

The reader is of Spark 4.2, the last version that is published, and runs with the Spark that is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stqsh.bench.peers.peer import PeerFailedError, last_words
from stqsh.engine.spark.java import find_java
from stqsh.engine.spark.maven import bring

VERSION = "4.2.0"
_BATCHES = 5
_JOB = Path(__file__).with_name("kafka_spark_job.py")
_OURS = ("hadoop", "scala-library", "jsr305")
"""The beginnings of the names of libraries that Spark itself has."""


class KafkaPeerOutcome(NamedTuple):
    """Records a second of each batch but the first, and how many objects are in each square at the end."""

    rates: list[float]
    counts: NDArray[np.int64]


def bring_reader() -> list[Path]:
    """Return the jars of Spark's Kafka reader; bring them if they are not there.

    Raises:
        LibraryMissingError: they cannot be had.
    """
    found = bring(f"spark-kafka-{VERSION}", "org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION)
    return [jar for jar in sorted(found.glob("*.jar")) if not jar.name.startswith(_OURS)]


def run(address: str, topic: str, records: int, squares: NDArray[Any]) -> KafkaPeerOutcome:
    """Read a topic of this many records, and answer which objects are in which squares.

    Raises:
        LibraryMissingError: Spark's Kafka reader cannot be had.
        PeerFailedError: the program ends with an error.
    """
    jars = [str(jar) for jar in bring_reader()]
    with tempfile.TemporaryDirectory(prefix="stqsh-peer-") as name:
        folder = Path(name)
        np.save(folder / "squares.npy", squares)
        done = subprocess.run(
            [sys.executable, str(_JOB), name, address, topic, str(-(-records // _BATCHES)), *jars],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env={**os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable},
        )
        if done.returncode:
            raise PeerFailedError(f"the job ended with {done.returncode}: {last_words(done.stderr)}")
        sent = pq.read_table(folder / "out", columns=["query", "op"])
    counts = np.zeros(len(squares), np.int64)
    np.add.at(counts, sent["query"].to_numpy(), sent["op"].to_numpy())
    batches = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("batch ")]
    return KafkaPeerOutcome([int(rows) / float(seconds) for rows, seconds in batches[1:]], counts)
