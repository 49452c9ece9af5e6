"""What the demo shows: each of its queries answers, and takes back, as its comments say."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from support.local import local_session
from support.running import run_script

from stqsh.client.results import Rows

DEMO = Path(__file__).parents[1] / "sample_data/demo.stq"
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
