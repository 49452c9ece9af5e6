"""Snapshots, and select lists of more than columns, in every format of language.md, "Output"."""

import pyarrow as pa
import pytest
from support.typed import query_spec

from shell.samples import START_US, Paper, query, updates
from stqsh.client.results import Answer
from stqsh.storage.rows import QueryRow

TABLE = pa.table(
    {
        "who": ["a,b", None],
        "kmh": [3.5999999999999996, None],
        "n": pa.array([7, -1], pa.int64()),
        "at": pa.array([START_US + 500_000, None], pa.timestamp("us", tz="UTC")),
        "free": [True, False],
    }
)
ANSWER = Answer(tuple(TABLE.column_names), TABLE, 12, START_US)
COUNT = Answer(("count",), pa.table({"count": pa.array([5], pa.int64())}), 0, None)
NONE = Answer(("oid",), pa.table({"oid": pa.array([], pa.string())}), 3, START_US)
FAST = QueryRow(
    5, "fast", 1,
    query_spec({"select": [["oid", ["col", "oid"]],
                ["2 * lon", ["arith", "*", ["lit", 2, "BIGINT"], ["col", "lon"]]],
                ["distance", ["distance"]], ["hour", ["fn", "HOUR", ["col", "ts"]]]]}),
    "active", 5, 0, 0,
)  # fmt: skip
ENTERS = (12, 5, "+", "368", "368", 116.25, 39.9, START_US, "free")
VANISHES = (13, 5, "disconnected", "7", "7", None, None, None, None)


def written(name, *answers, **target):
    paper = Paper(name, **target)
    for number, answer in enumerate(answers, start=5):
        paper.writer.answer(number, answer)
    return paper.text


def test_json_lines_of_snapshots():
    assert written("jsonl", ANSWER, NONE, COUNT) == (
        '{"statement":5,"row":{"who":"a,b","kmh":3.5999999999999996,"n":7,"at":"2008-02-02T15:00:12.5Z","free":true}}\n'
        '{"statement":5,"row":{"who":null,"kmh":null,"n":-1,"at":null,"free":false}}\n'
        '{"statement":7,"row":{"count":5}}\n'
    )


def test_names_with_percent_signs_and_quotes_are_safe():
    strange = Answer(('50%b "x"',), pa.table({"n": [1]}), 1, None)
    assert written("jsonl", strange) == '{"statement":5,"row":{"50%b \\"x\\"":1}}\n'


def test_each_snapshot_has_a_header_of_its_own_in_csv():
    assert written("csv", COUNT, COUNT, NONE, ANSWER) == (
        "count\n5\n\ncount\n5\n\noid\n\nwho,kmh,n,at,free\n"
        '"a,b",3.5999999999999996,7,2008-02-02T15:00:12.5Z,true\n,,-1,,false\n'
    )
    assert written("tsv", ANSWER).splitlines()[0] == "who\tkmh\tn\tat\tfree"


def test_updates_after_a_snapshot_get_their_header():
    paper = Paper("csv", one_query=True)
    one = query(5, "q", [("oid", "oid")])
    paper.writer.updates(updates([one], [ENTERS]))
    paper.writer.answer(2, COUNT)
    paper.writer.updates(updates([one], [VANISHES]))
    assert paper.text.splitlines() == [
        "query,step,at,op,key,oid", "q,12,2008-02-02T15:00:12Z,+,368,368", "", "count", "5", "",
        "query,step,at,op,key,oid", "q,13,2008-02-02T15:00:13Z,-,7,7",
    ]  # fmt: skip


def test_a_table_says_how_many_rows_and_as_of_when():
    assert written("table", ANSWER) == (
        "who  kmh   n  at                      free\n"
        "a,b  3.6   7  2008-02-02T15:00:12.5Z  true\n"
        "          -1                          false\n"
        "(2 rows, step 12, at 2008-02-02T15:00:12Z)\n"
    )
    assert written("table", COUNT).splitlines()[-1] == "(1 row, step 0)"
    assert written("table", NONE).splitlines() == ["oid", "(0 rows, step 3, at 2008-02-02T15:00:12Z)"]


def test_a_table_fits_its_terminal():
    wide = Answer(("text",), pa.table({"text": ["long " * 50]}), 1, None)
    lines = written("table", wide, width=60, colour=True).splitlines()
    assert lines[0].startswith("\x1b[1m") and len(lines[1]) <= 60


def test_expressions_are_shown_in_json():
    paper = Paper("jsonl")
    paper.writer.updates(updates([FAST], [ENTERS, VANISHES]))
    rows = [line.split('"row":')[1] for line in paper.text.splitlines()]
    assert rows == [
        '{"oid":"368","2 * lon":232.5,"distance":null,"hour":15}}',
        '{"oid":"7","2 * lon":null,"distance":null,"hour":null},"why":"disconnected"}',
    ]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("csv", ["query,step,at,op,key,oid,2 * lon,distance,hour",
                 "fast,12,2008-02-02T15:00:12Z,+,368,368,232.5,,15"]),
        ("table", ["step  at                    op      key  oid  2 * lon  distance  hour",
                   "  12  2008-02-02T15:00:12Z  +       368  368    232.5              15"]),
    ],
)  # fmt: skip
def test_expressions_are_shown_in_columns(name, lines):
    paper = Paper(name, one_query=True)
    paper.writer.updates(updates([FAST], [ENTERS]))
    assert paper.text.splitlines() == lines


def test_rows_of_several_queries_name_their_values():
    paper = Paper("table")
    plain = query(9, "plain", [("where", "lon")])
    paper.writer.updates(updates([FAST, plain], [ENTERS, (12, 9, "+", "1", "1", 5.0, 6.0, None, None)]))
    assert "oid=368 2 * lon=232.5 hour=15" in paper.text and "where=5" in paper.text
