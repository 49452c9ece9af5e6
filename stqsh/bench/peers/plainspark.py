"""Run plain PySpark Structured Streaming, as users write it without stqsh; see plainspark_job.py.

There are two variants, both with an index in a pandas UDF and with their state in Spark's state store, where
it survives a crash. `pyspark` keeps the state by object, as Spark's examples and nearly all users do, which
calls Python for each object of a batch. `pyspark-buckets` is the variant of experts, as which stqsh itself
began: a few large groups and numpy. Joining the stream with the queries in SQL would compare every record
with every query. Each portion is one micro-batch, so the fixed costs of a batch occur three times in all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from stqsh.bench.harness.drive import Say, portions
from stqsh.bench.peers.answers import Updates, updates
from stqsh.bench.peers.peer import Peer, PeerClock, PeerFailedError, PeerOutcome, last_words
from stqsh.bench.peers.peer_case import PeerCase
from stqsh.engine.spark.java import find_java
from stqsh.errors import StqshError

_JOB = Path(__file__).with_name("plainspark_job.py")
_FILES = 2
"""The number of files of a portion: one for each core."""


def missing() -> str:
    """Return why Spark cannot run here, "" where it can."""
    try:
        find_java()
    except StqshError as error:
        return error.message
    return ""


def run(way: str, case: PeerCase, folder: Path, say: Say) -> PeerOutcome:
    """Write the portions, run a variant of the job, and read its sink."""
    np.save(folder / "squares.npy", case.squares)
    steps = portions(case.peer_steps)
    ends = [case.fill, *(case.fill + int(end) for end in np.cumsum(steps))]
    _write(case, folder / "fill", 1, case.fill)
    for number, (before, end) in enumerate(pairwise(ends)):
        _write(case, folder / f"portion-{number}", before + 1, end)
    measured = [f"portion-{number}" for number in range(len(steps))]
    seconds, cpu_s = _seconds([way, str(folder), "fill", *measured], folder, case.peer_records, say)
    rates = [portion * case.per_step / seconds[name] for name, portion in zip(measured, steps, strict=True)]
    return PeerOutcome(_sent(folder / "out"), rates, cpu_s)


PEER = Peer("pyspark", "pandas UDF with STRtree, state by object", missing, partial(run, "objects"))
BUCKETED = Peer("pyspark-buckets", "the same, state by bucket in numpy", missing, partial(run, "buckets"))


def _write(case: PeerCase, folder: Path, first: int, last: int) -> None:
    folder.mkdir()
    table = case.table(first, last)
    size = -(-len(table) // _FILES)
    for number in range(_FILES):
        pq.write_table(table.slice(number * size, size), folder / f"{number}.parquet")


def _seconds(words: list[str], folder: Path, records: int, say: Say) -> tuple[dict[str, float], float | None]:
    """Run the job, of which these records come after the first portion.

    Returns:
        The seconds that it reports for each portion, and processor seconds a million records after the first.
    """
    command = [sys.executable, str(_JOB), *words]
    environment = {**os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    seconds: dict[str, float] = {}
    clock, cpu_s = None, None
    with (folder / "log").open("w+") as log:
        job = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=folder
        )
        assert job.stdout is not None
        for line in job.stdout:
            word, *rest = line.split()
            if word == "done":
                seconds[rest[0]] = float(rest[1])
                say(f"pyspark: {rest[0]} took {seconds[rest[0]]:.1f} s")
                cpu_s = clock.per_million(records) if clock else None
                clock = clock or PeerClock(job.pid)
        if job.wait():
            log.seek(0)
            raise PeerFailedError(f"the job ended with {job.returncode}: {last_words(log.read())}")
    return seconds, cpu_s


def _sent(folder: Path) -> Updates:
    table = pq.read_table(folder)
    return updates(*(table[name].to_numpy() for name in ("step", "query", "oid", "op")))
