"""Run sinks in this process, and fold what they have written."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stqsh.client.api import Session
from stqsh.client.connection import Connection
from stqsh.client.run import RunHandle
from stqsh.sinks.main import target_of
from stqsh.sinks.sink_runner import SinkRunner
from stqsh.sinks.target import SinkTarget
from stqsh.storage.sinks.sink_catalogue import find_alert, find_sink
from support.running import log_so_far

Line = dict[str, Any]
STREAM = """CREATE MOVING STREAM m (id STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP, n BIGINT)
  KEY id LOCATION (x, y) TIME ts FROM FILE '{folder}/m.csv' PLANAR REPORT EVERY 30 s;"""
QUERIES = """REGISTER QUERY west AS SELECT id, n FROM m INSIDE RECT(0, 0, 5, 10);
REGISTER QUERY near AS SELECT * FROM m INSIDE CIRCLE(5, 5, 3);"""


def write_records(folder: Path, objects: int = 40, steps: int = 60) -> None:
    draw = random.Random(5)
    lines = ["id,x,y,ts,n"]
    for step in range(steps):
        for number in range(objects):
            x, y = draw.uniform(0, 10), draw.uniform(0, 10)
            lines.append(f"o{number},{x:.3f},{y:.3f},2020-01-01T00:00:{step:02d}Z,{step}")
    (folder / "m.csv").write_text("\n".join(lines) + "\n", "utf-8")


def run_text(session: Session, text: str) -> RunHandle | None:
    last = None
    for outcome in session.outcomes(text):
        if isinstance(outcome, RunHandle):
            outcome.wait()
            last = outcome
    return last


def printed_log(session: Session, text: str = "RUN FOR 1 s;") -> bytes:
    handle = run_text(session, text)
    assert handle is not None
    return log_so_far(session, handle)


def runner_of(session: Session, name: str, target: SinkTarget | None = None) -> SinkRunner:
    """What a new process of the sinks would run."""
    sink = find_sink(session.connection.db, name) or find_alert(session.connection.db, name)
    assert sink is not None
    connection = Connection(session.home, session.connection.db)
    return SinkRunner(connection, sink, target or target_of(connection, sink, session.settings(), "test"))


def lines_in(folder: Path) -> list[Line]:
    """The JSON lines of a folder's files, by name."""
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def folded(lines: Iterable[Line]) -> dict[tuple[str, str], Line]:
    """The answers that lines leave: rows by query and key; each must fit what was there before."""
    rows: dict[tuple[str, str], Line] = {}
    for line in lines:
        key = line["query"], json.dumps(line["key"])
        if line["op"] == "+":
            assert key not in rows, f"twice: {line}"
            rows[key] = line["row"]
        else:
            assert rows.pop(key, None) is not None, f"was not there: {line}"
    return rows
