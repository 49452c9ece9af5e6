"""What all systems get in the peers of `stqsh bench aggregates`: posts by the minute, and squares."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from stqsh.bench.harness.topics import write_posts
from stqsh.bench.harness.workload import rectangles
from stqsh.bench.peers.peer import PeerFailedError, last_words

MINUTE = 60
"""The seconds of a minute, which are its ticks, too."""
_CLOSE = 1e-9
"""By how much averages may differ, relatively: most systems add numbers in the order in which they come."""


@dataclass(frozen=True)
class GroupCase:
    """The sizes of the case.

    Attributes:
        per_tick: posts a second.
        minutes: the measured minutes.
    """

    queries: int
    per_tick: int
    minutes: int = 3
    topics: int = 10
    side: float = 0.01

    @property
    def names(self) -> list[str]:
        """The minutes: the first one, and those that are measured."""
        return [f"minute-{number}" for number in range(self.minutes + 1)]

    def write(self, folder: Path) -> None:
        """Write all posts as one file and by the minute, and the squares."""
        ticks = (self.minutes + 1) * MINUTE
        write_posts(folder / "posts.parquet", ticks, self.per_tick, self.topics, said=False)
        posts = pq.read_table(folder / "posts.parquet").drop_columns(["body"])
        size = MINUTE * self.per_tick
        for number, name in enumerate(self.names):
            pq.write_table(posts.slice(number * size, size), folder / f"{name}.parquet")
        boxes = rectangles(self.queries, self.side)
        numbers: dict[str, Any] = {"query": np.arange(self.queries, dtype=np.int32)}
        numbers |= {name: boxes[:, i] for i, name in enumerate(("x1", "y1", "x2", "y2"))}
        pq.write_table(pa.table(numbers), folder / "squares.parquet")


@dataclass(frozen=True)
class GroupOutcome:
    """The seconds of each measured minute, and the answer at the end of the last one."""

    seconds: list[float]
    answer: pd.DataFrame


@dataclass(frozen=True)
class GroupPeer:
    """A system that answers the same.

    Attributes:
        missing: returns why it cannot run here and what to do about it, "" where it can.
        run: reads the files of a case from a folder, and answers.
    """

    name: str
    missing: Callable[[], str]
    run: Callable[[GroupCase, Path], GroupOutcome]


def halves(folder: Path, name: str) -> list[pa.Table]:
    """Return the posts of a minute in two parts, each in the order of time."""
    posts = pq.read_table(folder / f"{name}.parquet")
    return [posts.take(np.arange(half, len(posts), 2)) for half in range(2)]


def timed(command: list[str], folder: Path, **environ: str) -> list[float]:
    """Run a job that prints `done MINUTE SECONDS` for each minute; return the seconds of all but the first.

    Raises:
        PeerFailedError: it ends with an error.
    """
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environ}, cwd=folder, check=False
    )
    if done.returncode:
        raise PeerFailedError(f"the job ended with {done.returncode}: {last_words(done.stderr)}")
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("done ")]
    return [float(seconds) for _, _, seconds in lines[1:]]


def check(name: str, wanted: pd.DataFrame, found: pd.DataFrame) -> None:
    """Raise `ValueError` if the rows of a system are others than ours."""
    keys = ["query", "topic"]
    ours, theirs = (one.sort_values(keys).reset_index(drop=True) for one in (wanted, found))
    same = len(ours) == len(theirs) and all(
        (ours[column].to_numpy() == theirs[column].to_numpy()).all() for column in (*keys, "n")
    )
    if not same or not np.allclose(ours["mean"], theirs["mean"], rtol=_CLOSE, atol=0):
        raise ValueError(f"{name} answers otherwise: {len(theirs)} rows, and stqsh {len(ours)}")
