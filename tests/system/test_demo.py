"""What the demo shows: each of its queries answers, and takes back, as its comments say."""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from support.local import local_session
from support.running import run_script

from stqsh.cli.demo import farewell, paragraphs
from stqsh.client.results import Rows
from stqsh.program import program

DEMO = Path(__file__).parents[2] / "sample_data/demo.stq"
REASONS = {
    "station": {"left", "gone", "disconnected"},
    "caller": {"left", "overtaken", "dropped"},
    "favourite": {"left"},
    "make_way": {"left"},
    "wanted": {"expired"},
    "fast": {"left", "ended"},
}


def test_every_query_of_the_demo_answers_and_takes_back_for_the_reasons_it_names(tmp_path: Path) -> None:
    with local_session(tmp_path, 2) as session:
        lines = list(
            map(json.loads, run_script(session, DEMO.read_text(encoding="utf-8"), DEMO).splitlines())
        )
        dead = [
            row
            for rows in session.outcomes("SHOW DEAD LETTERS;")
            if isinstance(rows, Rows)
            for row in rows.rows
        ]
    reasons, snapshots = defaultdict(set), defaultdict(list)
    for line in lines:
        if "statement" in line:
            snapshots[line["statement"]].append(line["row"])
        elif line["op"] == "-":
            reasons[line["query"]].add(line["why"])
    assert reasons == REASONS
    free, fastest = snapshots.values()
    assert 0 < free[0]["free"] < 200
    speeds = [row["speed"] for row in fastest]
    assert speeds == sorted(speeds, reverse=True)
    assert len(speeds) == 3
    assert any("no location" in row for row in dead)


def test_every_paragraph_of_the_demo_says_what_it_asks() -> None:
    text = DEMO.read_text(encoding="utf-8")
    told = paragraphs(text)
    untold = [one.statements for one in told if not one.said]
    assert untold == ["RUN FOR 5 min;", "RUN FOR 5 min;"]
    assert all("--" not in one.statements for one in told)
    whole = " ".join(" ".join(f"{one.said} {one.statements}".split()) for one in told)
    assert whole.split() == text.replace("--", "").split()


def test_the_demo_ends_with_commands_that_are_on_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for path, name in (
        (os.environ["PATH"], "stqsh"),
        ("/nowhere", str(Path(sys.executable).with_name("stqsh"))),
    ):
        monkeypatch.setenv("PATH", path)
        program.cache_clear()
        commands = [line.strip() for line in farewell().splitlines() if line.strip().startswith(name)]
        assert commands == [name, f"{name} open FILE", f"{name} tutorial", f"{name} docs"]
    program.cache_clear()
