"""Queries that REGISTER QUERIES makes from a file, as a script meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shell.test_batch import run

STREAM = """
CREATE MOVING STREAM s (oid BIGINT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)
  KEY oid LOCATION (lon, lat) TIME ts FROM FILE '{folder}/objects.csv' TICK 1 s;
REGISTER QUERIES FROM FILE '{folder}/places.csv' KEY place AS
  SELECT oid FROM s INSIDE RECT(:x1, :y1, :x2, :y2);
"""
OBJECTS = (
    "oid,lon,lat,ts\n1,0.5,0.5,2020-01-01T00:00:00Z\n2,9,9,2020-01-01T00:00:00Z\n3,9,9,2020-01-01T00:00:02Z\n"
)
PLACES = "place,x1,y1,x2,y2\nlow,0,0,1,1\nhigh,8,8,10,10\n"


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "objects.csv").write_text(OBJECTS)
    (tmp_path / "places.csv").write_text(PLACES)
    return STREAM.format(folder=tmp_path)


def lines(written: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.splitlines()]


def rows(written: str, statement: int) -> list[dict[str, Any]]:
    return [line["row"] for line in lines(written) if line.get("statement") == statement]


def items(written: str, statement: int) -> dict[str, Any]:
    return {row["item"]: row["value"] for row in rows(written, statement)}


def test_they_are_listed_and_described_as_single_queries_are(script: str, tmp_path: Path) -> None:
    written = run(tmp_path, script + "RUN 1 STEPS; SHOW QUERIES; SHOW QUERY high; DESCRIBE low;", "jsonl")
    found = [(row["name"], row["kind"], row["state"], row["answer"], row["text"]) for row in rows(written, 4)]
    assert found == [
        ("low", "range", "active", 1, "SELECT oid FROM s INSIDE RECT(0, 0, 1, 1)"),
        ("high", "range", "active", 1, "SELECT oid FROM s INSIDE RECT(8, 8, 10, 10)"),
    ]
    shown, described = items(written, 5), items(written, 6)
    assert (shown["region"], shown["stream"], shown["updates so far"]) == ("RECT(8, 8, 10, 10)", "s", 1)
    assert (described["query"], described["text"]) == ("low", found[0][-1])


def test_they_are_explained_by_their_own_values(script: str, tmp_path: Path) -> None:
    written = run(tmp_path, script + "RUN 1 STEPS; EXPLAIN high; EXPLAIN ANALYZE low;", "jsonl")
    high, low = items(written, 4), items(written, 5)
    assert (high["query"], high["region"], high["box"]) == ("high", "RECT(8, 8, 10, 10)", "(8, 8, 10, 10)")
    assert high["objects in the box"] == "1 (50 %)"
    assert (low["region"], low["updates so far"]) == ("RECT(0, 0, 1, 1)", 1)


def test_a_tail_shows_the_answer_of_one_and_what_it_brings(script: str, tmp_path: Path) -> None:
    written = run(tmp_path, script + "RUN 1 STEPS; TAIL high; TAIL low WHERE oid = 7; RUN;", "jsonl")
    first = {"op": "+", "key": 2, "row": {"oid": 2}}
    assert [
        {name: value for name, value in line.items() if name not in ("step", "at")} for line in lines(written)
    ] == [
        {"query": "high", **first},
        {"query": "low", "op": "+", "key": 1, "row": {"oid": 1}},
        {"query": "high", "snapshot": "begin"},
        {"query": "high", **first},
        {"query": "high", "snapshot": "end"},
        {"query": "low", "snapshot": "begin"},
        {"query": "low", "snapshot": "end"},
        {"query": "high", "op": "+", "key": 3, "row": {"oid": 3}},
    ]


def test_a_variable_of_the_script_comes_before_the_column_of_its_name(script: str, tmp_path: Path) -> None:
    told = "\\set y2 '20'\n" + script + "\\unset y2\nSHOW QUERIES;"
    assert [row["text"] for row in rows(run(tmp_path, told, "jsonl"), 3)] == [
        "SELECT oid FROM s INSIDE RECT(0, 0, 1, 20)",
        "SELECT oid FROM s INSIDE RECT(8, 8, 10, 20)",
    ]


def test_a_variable_of_the_command_line_does_so_too_and_need_be_no_column(
    script: str, tmp_path: Path
) -> None:
    told = script.replace(":x2", ":wide") + "SHOW QUERIES;"
    assert [row["text"] for row in rows(run(tmp_path, told, "jsonl", wide="9.5", y1="0.5"), 3)] == [
        "SELECT oid FROM s INSIDE RECT(0, 0.5, 9.5, 1)",
        "SELECT oid FROM s INSIDE RECT(8, 0.5, 9.5, 10)",
    ]


def test_a_variable_that_is_set_later_changes_nothing(script: str, tmp_path: Path) -> None:
    told = script + "\\set y2 '20'\nSHOW QUERIES;"
    assert rows(run(tmp_path, told, "jsonl"), 3)[0]["text"] == "SELECT oid FROM s INSIDE RECT(0, 0, 1, 1)"
