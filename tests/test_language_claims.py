"""Single claims of the language's contract, typed as a user types them, by what they must print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.local import local_session
from support.running import run_script

Play = Callable[..., list[dict[str, Any]]]

STREAM = """CREATE MOVING STREAM t (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP, s STRING, v DOUBLE)
  KEY oid LOCATION (x, y) TIME ts FROM FILE 't.csv' PLANAR;
"""


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Run a script over records of `t`, each of a second of its own, and return the lines that it prints."""

    def run(records: str, script: str, slots: int = 1, definition: str = STREAM) -> list[dict[str, Any]]:
        lines = [
            f"{key},{x},{y},2025-01-01T00:00:{second:02}Z,{s},{v}"
            for second, (key, x, y, s, v) in enumerate(line.split(",") for line in records.split())
        ]
        (tmp_path / "t.csv").write_text("\n".join(["oid,x,y,ts,s,v", *lines]), encoding="utf-8")
        with local_session(tmp_path, slots) as session:
            printed = run_script(session, definition + script, tmp_path / "script.stq")
        return [json.loads(line) for line in printed.decode().splitlines()]

    return run


@pytest.mark.parametrize("slots", [1, 2])
def test_sums_of_any_sizes_stand_side_by_side(play: Play, slots: int) -> None:
    script = "REGISTER QUERY q AS SELECT s, SUM(v) AS sum FROM t GROUP BY s; RUN 1 STEPS; RUN 1 STEPS; RUN;"
    lines = play("a,0,0,p,1e300 b,0,0,q,1 c,0,0,r,1e-300 d,0,0,q,1e300", script, slots)
    assert [(line["op"], *line["row"].values()) for line in lines] == [
        ("+", "p", 1e300),
        ("+", "q", 1.0),
        ("+", "r", 1e-300),
        ("-", "q", 1.0),
        ("+", "q", 1e300),
    ]
