"""Single claims of the language's contract, typed as a user types them, by what they must print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.local import local_session
from support.running import run_script

from stqsh.client.results import Answer, Message

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


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("limit", ["", " ORDER BY v LIMIT 2"])
def test_what_is_selected_changes_as_time_passes(play: Play, slots: int, limit: str) -> None:
    select = "SELECT oid, ts > NOW - 2 s AS fresh FROM t INSIDE (0, 0, 1, 1)"
    script = f"REGISTER QUERY q WITH (changes => true) AS {select}{limit}; RUN 3 STEPS; RUN;"
    lines = play("a,0,0,p,1 b,0,0,p,2 c,9,9,p,3 a,0,0,p,1", script, slots)
    assert [(line["step"], line["op"], line["row"], line.get("why")) for line in lines] == [
        (1, "+", {"oid": "a", "fresh": True}, None),
        (2, "+", {"oid": "b", "fresh": True}, None),
        (3, "-", {"oid": "a", "fresh": True}, "changed"),
        (3, "+", {"oid": "a", "fresh": False}, None),
        (4, "-", {"oid": "a", "fresh": False}, "changed"),
        (4, "-", {"oid": "b", "fresh": True}, "changed"),
        (4, "+", {"oid": "a", "fresh": True}, None),
        (4, "+", {"oid": "b", "fresh": False}, None),
    ]


def test_a_change_within_a_pause_shows_the_row_that_was_sent_before_it(play: Play) -> None:
    pause = "PAUSE QUERY q; RUN 3 STEPS; PAUSE QUERY q; RUN 1 STEPS; RESUME QUERY q; RUN 1 STEPS; "
    select = "SELECT oid, ts > NOW - 2 s AS fresh FROM t"
    script = f"REGISTER QUERY q WITH (changes => true) AS {select}; RUN 2 STEPS; {pause * 2} RUN;"
    lines = play("a,0,0,p,1 " + " ".join(f"b,0,0,p,{n}" for n in range(9)) + " a,0,0,p,1 b,0,0,p,1", script)
    told = [(line["step"], line["op"], line["row"]["fresh"]) for line in lines if line["key"] == "a"]
    assert told == [(1, "+", True), (7, "-", True), (7, "+", False), (12, "-", False), (12, "+", True)]


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("order", ["v * 10", "v * 10 DESC", "v * 10 DESC NULLS FIRST", "v * 10 - v * 10"])
def test_infinities_that_a_row_computes_are_ordered_as_null_in_every_answer(
    play: Play, order: str, slots: int
) -> None:
    select = f"SELECT oid FROM t ORDER BY {order} LIMIT 2"
    lines = play(
        "a,0,0,p,1e308 b,0,0,p,-1e308 c,0,0,p,1 d,0,0,p,2",
        f"REGISTER QUERY q AS {select}; RUN; {select};",
        slots,
    )
    held: set[str] = set()
    for line in lines:
        if "op" in line:
            held ^= {line["key"]}
    assert held == ({"a", "b"} if "FIRST" in order else {"c", "d"})
    assert {line["row"]["oid"] for line in lines if "statement" in line} == held


def test_rows_of_neighbours_that_change_as_time_passes_dwell(play: Play) -> None:
    select = "SELECT oid, ts > NOW - 2 s AS fresh FROM t NEAREST 1 TO (0, 0)"
    query = f"REGISTER QUERY q WITH (changes => true, dwell => 1 s) AS {select}; RUN;"
    lines = play("a,0,0,p,1 b,9,9,p,1 b,9,9,p,1 b,9,9,p,1", query)
    assert [(line["step"], line["op"], line["row"]["fresh"], line.get("why")) for line in lines] == [
        (2, "+", True, None),
        (3, "-", True, "changed"),
        (3, "+", False, None),
    ]


@pytest.mark.parametrize(
    "select",
    [
        "oid FROM t SYNC 1 s",
        "oid FROM t NEAREST 1 TO (0, 0) SYNC 1 s",
        "COUNT(*) AS n FROM t NEAREST 1 TO (0, 0) SYNC 1 s HAVING COUNT(*) > 0",
        "oid FROM t NEAREST 1 TO (0, 0)",
        "oid FROM t ORDER BY oid LIMIT 1",
        "oid FROM t INSIDE (0, 0, 1, 1)",
    ],
)
def test_what_waits_for_dwell_waits_anew_when_a_query_resumes(play: Play, select: str) -> None:
    query = f"REGISTER QUERY q WITH (dwell => 3 s) AS SELECT {select};"
    pause = "RUN 2 STEPS; PAUSE QUERY q; RUN 3 STEPS; RESUME QUERY q; RUN 2 STEPS; RUN;"
    lines = play(" ".join(["a,0,0,p,1"] * 12), f"{query} {pause}")
    assert [(line["step"], line["op"]) for line in lines] == [(9, "+")]


def test_a_group_is_a_column_before_it_is_an_alias(play: Play) -> None:
    lines = play("a,0,0,p,1 b,0,0,p,2 c,0,0,q,1", "RUN; SELECT DISTINCT v AS s FROM t GROUP BY s, v;")
    assert [line["row"] for line in lines] == [{"s": 1.0}, {"s": 2.0}]


def test_what_is_never_kept_does_not_change(play: Play) -> None:
    definition = STREAM.replace("MOVING", "EVENT").replace("PLANAR", "PLANAR KEEP NONE")
    script = "REGISTER QUERY q WITH (changes => true) AS SELECT oid, ts > NOW - 2 s AS fresh FROM t; RUN;"
    lines = play("a,0,0,p,1 b,0,0,p,2", script, 1, definition)
    assert [line["row"] for line in lines] == [{"oid": "a", "fresh": True}, {"oid": "b", "fresh": True}]


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("kind", ["MOVING", "EVENT"])
def test_places_and_regions_lie_as_far_away_as_numbers_go(play: Play, kind: str, slots: int) -> None:
    far = "1.7e308"
    regions = [
        f"RECT(-{far}, -{far}, {far}, {far})", f"RECT(0, 0, {far}, {far})", "RECT(0, 0, 1, 1)",
        "CIRCLE(0, 0, 1e150)", f"POLYGON((0 0, {far} 0, 0 {far}, 0 0))",
    ]  # fmt: skip
    regions += [f"RECT({far}, {far}) AROUND 'b'"] if kind == "MOVING" else []
    selects = {f"q{i}": f"SELECT oid FROM t INSIDE {region}" for i, region in enumerate(regions)}
    script = "".join(f"REGISTER QUERY {name} AS {select}; " for name, select in selects.items())
    script += "RUN; " + "".join(f"{select}; " for select in selects.values())
    records = (
        f"a,{far},-{far},p,1 b,0,0,p,1 c,-{far},{far},p,1 d,1,1,p,1 e,{far},{far},p,1 d,{far},0,p,1 f,1,0,p,1"
    )
    lines = play(records, script, slots, STREAM.replace("MOVING", kind))
    held: dict[str, set[str]] = {name: set() for name in selects}
    shown: dict[str, set[str]] = {name: set() for name in selects}
    for line in lines:
        if "op" in line:
            held[line["query"]] ^= {line["key"]}
        else:
            shown[f"q{line['statement'] - len(selects) - 3}"].add(line["row"]["oid"])
    assert held == shown
    assert held["q0"] == set("abcdef")
    assert held["q2"] == ({"b", "f"} if kind == "MOVING" else {"b", "d", "f"})


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("steps", ["", "RUN 3 STEPS; RUN 1 STEPS;"])
def test_now_has_moved_on_at_the_closing_refresh_though_the_neighbours_are_the_same(
    play: Play, slots: int, steps: str
) -> None:
    select = "SELECT MAX(ts) > NOW - 3 s AS fresh FROM t WHERE s = 'p' NEAREST 2 TO (0, 0)"
    having = "SELECT COUNT(*) AS n FROM t WHERE s = 'p' NEAREST 2 TO (0, 0) HAVING MAX(ts) > NOW - 3 s"
    script = f"REGISTER QUERY a AS {select} SYNC 3 s; REGISTER QUERY b AS {having} SYNC 3 s; {steps} RUN;"
    lines = play("a,0,0,q,1 b,0,0,p,1 c,0,0,q,1 d,0,0,q,1", f"{script} {select}; {having};", slots)
    updates = [line for line in lines if "op" in line]
    assert [(line["query"], line["step"], line["op"], *line["row"].values()) for line in updates] == [
        ("a", 1, "+", None),
        ("a", 4, "-", None),
        ("a", 4, "+", True),
        ("b", 4, "+", 1),
        ("a", 5, "-", True),
        ("a", 5, "+", False),
        ("b", 5, "-", 1),
    ]
    assert updates[-1]["why"] == "left"
    assert [line["row"] for line in lines if "statement" in line] == [{"fresh": False}]


def test_a_text_in_double_quotes_is_said_to_be_one(tmp_path: Path) -> None:
    file = tmp_path / "cars.csv"
    file.write_text("id,x,y,t\na,1,2,2025-06-14\nb,2,2,2025-06-14\n", encoding="utf-8")
    with local_session(tmp_path) as session:
        session.execute(f"CREATE MOVING STREAM cars FROM FILE '{file}' PLANAR; RUN;")
        note, answer = session.execute('SELECT x FROM cars WHERE id = "a";')
        [of_file] = session.execute(f"SELECT x FROM '{file}' WHERE id = \"a\";")
    assert isinstance(note, Message)
    assert isinstance(answer, Answer)
    assert isinstance(of_file, Answer)
    assert note.text == "'a' is a text: cars has no column of that name"
    assert answer.table.to_pylist() == [{"x": 1.0}]
    assert of_file.table.to_pylist() == [{"x": 1.0}]
    assert of_file.remark.startswith("'a' is a text: ")
