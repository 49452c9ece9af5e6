"""Run the windowed aggregation of Spark and of Flink SQL; see spark_job.py and flink_job.py.

The job of Flink reads all minutes in one go, and ends with the last. The seconds of a minute are those from
the last row of the answer before it to the last row of its own.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from stqsh.bench.peers import flink, plainspark
from stqsh.bench.peers.groups.case import MINUTE, GroupCase, GroupOutcome, GroupPeer, halves, timed
from stqsh.bench.peers.peer import PeerFailedError, last_words, write_csv
from stqsh.engine.spark.java import find_java

_SPARK_JOB = Path(__file__).with_name("spark_job.py")
_FLINK_JOB = Path(__file__).with_name("flink_job.py")


def _spark(case: GroupCase, folder: Path) -> GroupOutcome:
    """Run the job; the posts of one second more let it send the last minute."""
    own = folder / "spark"
    own.mkdir()
    for name in ("squares", *case.names):
        shutil.copy(folder / f"{name}.parquet", own)
    last = pq.read_table(own / f"{case.names[-1]}.parquet")
    ts: Any = pa.array([(case.minutes + 1) * MINUTE * 1_000_000], pa.int64()).cast(pa.timestamp("us"))
    end = last.slice(0, 1).set_column(3, "ts", ts.cast(last.schema.field("ts").type))
    pq.write_table(end, own / "end.parquet")
    command = [sys.executable, str(_SPARK_JOB), str(own), *case.names, "end"]
    java = str(find_java().home)
    seconds = timed(command, own, JAVA_HOME=java, PYSPARK_PYTHON=sys.executable)[:-1]
    rows = pq.read_table(own / "out").to_pandas()
    return GroupOutcome(seconds, rows[rows["minute"] == rows["minute"].max()].drop(columns="minute"))


def _flink(case: GroupCase, folder: Path) -> GroupOutcome:
    own = folder / "flink"
    (own / "posts").mkdir(parents=True)
    write_csv(pq.read_table(folder / "squares.parquet"), own / "squares.csv")
    shares = zip(*(halves(folder, name) for name in case.names), strict=True)
    for half, minutes in enumerate(shares):
        write_csv(pa.concat_tables(minutes), own / "posts" / f"{half}.csv")
    command = [str(flink.python()), str(_FLINK_JOB), str(own)]
    log = own / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=flink.environment(), cwd=own
        ) as job,
    ):
        assert job.stdout is not None
        seconds, answer = read_rows(job.stdout)
    if job.returncode:
        raise PeerFailedError(f"the job ended with {job.returncode}: {last_words(log.read_text())}")
    if len(seconds) != case.minutes:
        raise PeerFailedError(f"the job answered {len(seconds) + 1} minutes of {case.minutes + 1}")
    return GroupOutcome(seconds, answer)


def read_rows(lines: Iterable[str]) -> tuple[list[float], pd.DataFrame]:
    """Read the rows of all answers as they come.

    Returns:
        The seconds between the last rows of each two minutes, and the answer of the last minute.

    A line may begin with the number of the subtask and `>`, as Flink's print does.
    """
    rows: dict[str, list[list[str]]] = {}
    ends: dict[str, float] = {}
    for line in lines:
        text = line.strip().rpartition("> ")[2]
        if text.startswith("+I["):
            minute, *row = text[3:-1].split(", ")
            rows.setdefault(minute, []).append(row)
            ends[minute] = time.perf_counter()
    if not rows:
        return [], pd.DataFrame(columns=["query", "topic", "n", "mean"])
    last = pd.DataFrame(rows[max(rows)], columns=["query", "topic", "n", "mean"])
    times = [ends[minute] for minute in sorted(ends)]
    seconds = [after - before for before, after in itertools.pairwise(times)]
    return seconds, last.astype({"query": int, "n": int, "mean": float})


SPARK = GroupPeer("PySpark", plainspark.missing, _spark)
FLINK = GroupPeer("Flink SQL", flink.missing, _flink)
