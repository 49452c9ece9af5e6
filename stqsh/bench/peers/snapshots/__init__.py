"""Measure snapshot SELECTs beside databases that answer the same: PostGIS, DuckDB and SedonaDB.

All have the same objects, which stand still, and the same questions in turn. Answers are compared before
speeds are. The time of stqsh is that of `Session.execute`, from the text to the rows; that of a database is
the time of its client. `SNAPSHOT_PYTHON` names a Python that has duckdb, duckdb-extension-spatial and
sedonadb, which otherwise are looked for in this one.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

import stqsh
from stqsh.bench.figures import LESS, MORE, Better, Row
from stqsh.bench.harness.drive import Say, execute, run, temporary_folder
from stqsh.bench.options import option
from stqsh.bench.peers import postgis
from stqsh.bench.peers.peer import PeerFailedError, last_words
from stqsh.bench.peers.snapshots import by_postgis
from stqsh.bench.peers.snapshots.case import (
    ALL_GROUPS,
    COUNT,
    GROUPS,
    KINDS,
    NEAREST,
    RANGE,
    Numbers,
    SnapshotCase,
    SnapshotQuestion,
    check,
)
from stqsh.bench.peers.snapshots.job import numbers
from stqsh.client.results import Answer

COLUMNS = {
    "what": "snapshot",
    "system": "system",
    "ms": "p50 ms",
    "p99_ms": "p99 ms",
    "times": "stqsh is faster by",
    "asked": "asked",
}
KEY = ("what", "system")
FIGURES: dict[str, Better] = {"ms": LESS, "times": MORE}

Outcome: TypeAlias = tuple[list[Numbers], list[float]]
"""The answer to each question, and its milliseconds."""

_CREATE = (
    "CREATE MOVING STREAM objects (oid BIGINT, topic BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP) KEY oid "
    "LOCATION (x, y) TIME ts FROM FILE '{file}' PLANAR BOUNDS (0, 0, 1, 1) TICK 1 s;"
)
_BOX = "INSIDE ({x1!r}, {y1!r}, {x2!r}, {y2!r})"
_GROUPS = "SELECT topic, COUNT(*) AS n, AVG(x) AS mean FROM objects {where} GROUP BY topic ORDER BY topic;"
_TEXTS = {
    RANGE: f"SELECT oid, topic, x, y, ts FROM objects {_BOX};",
    COUNT: f"SELECT COUNT(*) FROM objects {_BOX};",
    NEAREST: "SELECT oid FROM objects NEAREST 10 TO ({x!r}, {y!r});",
    GROUPS: _GROUPS.replace("{where}", _BOX),
    ALL_GROUPS: _GROUPS.replace("{where}", ""),
}
_JOB = Path(__file__).with_name("job.py")
_NEEDED = {"duckdb": "duckdb", "duckdb-rtree": "duckdb", "sedonadb": "sedonadb"}


@dataclass(frozen=True)
class SnapshotPeersOptions:
    """What to ask whom; see the help of each option."""

    only: tuple[str, ...] = option((), "These systems, beside stqsh.")
    objects: int = option(1_000_000, "Objects.")
    asked: int = option(100, "Questions of each kind.")


FULL = SnapshotPeersOptions()
QUICK = SnapshotPeersOptions(objects=100_000, asked=20)


def measure(options: SnapshotPeersOptions, say: Say) -> list[Row]:
    """Return a row for each kind of question and system.

    Raises:
        ValueError: a system answers otherwise than stqsh.
    """
    case = SnapshotCase(options.objects, options.asked)
    questions = case.questions()
    with temporary_folder() as folder:
        case.write(folder)
        say(f"stqsh: {len(questions)} questions about {case.objects:,} objects")
        wanted, ours = _ours(questions, folder)
        own = case.by_kind(ours)
        found = {"stqsh": own}
        for name, (missing, ask) in _SYSTEMS.items():
            if options.only and name not in options.only:
                continue
            if why := missing():
                say(f"{name} is left out: {why}")
                continue
            say(f"{name}: the same questions")
            answers, milliseconds = ask(questions, folder)
            check(name, questions, wanted, answers)
            found[name] = case.by_kind(milliseconds)
    return [_row(kind, name, times[kind], own[kind]) for kind in KINDS for name, times in found.items()]


def _row(kind: str, name: str, times: list[float], ours: list[float]) -> Row:
    faster = None if name == "stqsh" else statistics.median(times) / statistics.median(ours)
    p99 = float(np.percentile(times, 99))
    return {"what": kind, "system": name, "ms": times, "p99_ms": p99, "times": faster, "asked": len(times)}


def _ours(questions: Sequence[SnapshotQuestion], folder: Path) -> Outcome:
    with stqsh.connect(temporary=True, autoplay=False) as session:
        execute(session, _CREATE.format(file=folder / "objects.parquet"))
        run(session, 1)
        answers, milliseconds = [], []
        for question in questions:
            text = _TEXTS[question.kind].format(**question.words)
            begun = time.perf_counter()
            [answer] = session.execute(text)
            milliseconds.append((time.perf_counter() - begun) * 1000)
            assert isinstance(answer, Answer), "a SELECT gives an answer"
            answers.append(_numbers(question.kind, answer.table))
        return answers, milliseconds


def _numbers(kind: str, answer: pa.Table) -> Numbers:
    return numbers(kind, [column.to_pylist() for column in answer.columns])


def _python() -> str:
    return os.environ.get("SNAPSHOT_PYTHON", sys.executable)


def _without(module: str) -> Callable[[], str]:
    def missing() -> str:
        try:
            tried = subprocess.run([_python(), "-c", f"import {module}"], capture_output=True, check=False)
        except OSError as error:
            return f"{error}; SNAPSHOT_PYTHON names the Python"
        return "" if tried.returncode == 0 else f"pip install {module}, or name a Python in SNAPSHOT_PYTHON"

    return missing


def _by_job(system: str) -> Callable[[Sequence[SnapshotQuestion], Path], Outcome]:
    def ask(questions: Sequence[SnapshotQuestion], folder: Path) -> Outcome:
        del questions  # they are in the folder
        command = [_python(), str(_JOB), system, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PeerFailedError(f"{system} ended with {done.returncode}: {last_words(done.stderr)}")
        answers, milliseconds = json.loads((folder / f"{system}.json").read_text())
        return answers, milliseconds

    return ask


_SYSTEMS: dict[str, tuple[Callable[[], str], Callable[[Sequence[SnapshotQuestion], Path], Outcome]]] = {
    "postgis": (postgis.missing, by_postgis.ask),
    **{name: (_without(module), _by_job(name)) for name, module in _NEEDED.items()},
}
