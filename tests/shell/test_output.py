"""The formats of language.md, "Output", to the byte."""

import json
import os
import re
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shell.samples import START_US, Paper, query, updates
from stqsh.client.results import Answer, Rows, SnapshotMark
from stqsh.errors import CommandLineError
from stqsh.settings import FORMATS
from stqsh.shell.writers.aligned_text import cells
from stqsh.shell.writers.text_columns import instant, json_fragments, rounded, texts
from stqsh.shell.writers.writer import check_format

Q1 = query(7, "q1")
ALL = query(9, "q%2", [("who", "oid"), ("ts", "ts"), ("status", "status")])
ENTERS = (12, 7, "+", "368", "368", 116.4, 39.9, START_US, "free")
LEAVES = (13, 7, "left", "368", "368", 116.5, 39.9, START_US + 250_000, None)
VANISHES = (14, 7, "disconnected", "368", "368", None, None, None, None)
OTHER = (14, 9, "+", 'a"b', 'a"b', 1.0, float("nan"), START_US + 1_500_000, "été, 5 %")


def test_a_json_line_is_as_the_language_says() -> None:
    paper = Paper("jsonl")
    paper.writer.updates(updates([Q1], [ENTERS]))
    assert paper.text == (
        '{"query":"q1","step":12,"at":"2008-02-02T15:00:12Z","op":"+","key":"368",'
        '"row":{"oid":"368","lon":116.4,"lat":39.9}}\n'
    )


def test_a_negative_update_says_why_at_its_end() -> None:
    paper = Paper("jsonl")
    paper.writer.updates(updates([Q1], [LEAVES, VANISHES]))
    assert paper.text == (
        '{"query":"q1","step":13,"at":"2008-02-02T15:00:13Z","op":"-","key":"368",'
        '"row":{"oid":"368","lon":116.5,"lat":39.9},"why":"left"}\n'
        '{"query":"q1","step":14,"at":"2008-02-02T15:00:14Z","op":"-","key":"368",'
        '"row":{"oid":"368","lon":null,"lat":null},"why":"disconnected"}\n'
    )


def test_queries_of_different_select_lists_keep_their_order() -> None:
    paper = Paper("jsonl")
    paper.writer.updates(updates([Q1, ALL], [ENTERS, OTHER, VANISHES]))
    assert paper.text.splitlines()[1] == (
        '{"query":"q%2","step":14,"at":"2008-02-02T15:00:14Z","op":"+","key":"a\\"b",'
        '"row":{"who":"a\\"b","ts":"2008-02-02T15:00:13.5Z","status":"été, 5 %"}}'
    )
    assert [json.loads(line)["query"] for line in paper.text.splitlines()] == ["q1", "q%2", "q1"]


def test_marks_and_rows_in_json() -> None:
    paper = Paper("jsonl")
    paper.writer.mark(SnapshotMark(Q1, 12, START_US, "begin"))
    paper.writer.mark(SnapshotMark(Q1, 12, START_US, "end"))
    paper.writer.rows(3, Rows("streams", ("name", "rows"), (("taxis", 5), ("posts", None))))
    paper.writer.script("CREATE …;")
    assert paper.text == (
        '{"query":"q1","step":12,"snapshot":"begin"}\n{"query":"q1","step":12,"snapshot":"end"}\n'
        '{"statement":3,"row":{"name":"taxis","rows":5}}\n{"statement":3,"row":{"name":"posts","rows":null}}\n'
        "CREATE …;\n"
    )


def test_csv_of_one_query_has_its_select_list() -> None:
    paper = Paper("csv", one_query=True)
    one = query(9, "q2", [("who", "oid"), ("at", "ts"), ("status", "status")])
    paper.writer.mark(SnapshotMark(one, 12, START_US, "begin"))
    paper.writer.updates(updates([one], [OTHER]))
    paper.writer.updates(updates([one], [(15, 9, "dropped", "b", "b", None, None, None, None)]))
    assert paper.text == (
        "query,step,at,op,key,who,at,status\n"
        "q2,12,2008-02-02T15:00:12Z,begin,,,,\n"
        'q2,14,2008-02-02T15:00:14Z,+,"a""b","a""b",2008-02-02T15:00:13.5Z,"été, 5 %"\n'
        "q2,15,2008-02-02T15:00:15Z,-,b,b,,\n"
    )


def test_csv_of_several_queries_has_the_common_columns_and_tables_their_own_header() -> None:
    paper = Paper("tsv")
    paper.writer.updates(updates([Q1, ALL], [ENTERS, OTHER]))
    paper.writer.rows(1, Rows("x", ("name", "ready"), (("a\tb", True),)))
    assert paper.text == (
        "query\tstep\tat\top\tkey\n"
        "q1\t12\t2008-02-02T15:00:12Z\t+\t368\n"
        'q%2\t14\t2008-02-02T15:00:14Z\t+\t"a""b"\n'
        '\nname\tready\n"a\tb"\ttrue\n'
    )


def test_a_table_of_one_query_is_aligned_and_coloured() -> None:
    paper = Paper("table", one_query=True, colour=True)
    paper.writer.updates(updates([Q1], [ENTERS, LEAVES]))
    lines = paper.text.splitlines()
    assert lines[0].startswith("\x1b[1m") and "oid  lon" in re.sub(" +", "  ", lines[0])
    assert lines[1].startswith("\x1b[32m  12  2008-02-02T15:00:12Z  +       368")
    assert lines[2].startswith("\x1b[31m  13  2008-02-02T15:00:13Z  - left  368")


def test_a_table_without_colour_has_no_escapes_and_fits_the_width() -> None:
    paper = Paper("table", width=50)
    paper.writer.updates(updates([Q1, ALL], [ENTERS, OTHER]))
    paper.writer.rows(1, Rows("x", ("name", "n"), (("long " * 30, 1),)))
    assert "\x1b" not in paper.text
    assert max(map(len, paper.text.splitlines())) <= 50
    assert "15:00:12  q1" in paper.text and "oid=368" in paper.text


def test_what_a_value_holds_neither_breaks_a_line_nor_reaches_the_terminal() -> None:
    nasty, wide = "two\nlines \x1b[2J\t\x9b1m", "\u65e5\u672c"
    found = updates([ALL], [(12, 9, "+", key, key, 1.0, 2.0, START_US, "free") for key in (nasty, wide)])
    for one_query in (True, False):
        paper = Paper("table", one_query=one_query)
        paper.writer.updates(found)
        _, first, second = paper.text.splitlines()
        assert r"two\nlines \x1b[2J\t\x9b1m" in first
        assert not one_query or cells(first[: first.index("2008-02-02T15:00:12Z", 40)]) == cells(
            second[: second.index("2008-02-02T15:00:12Z", 40)]
        )
    paper = Paper("vertical")
    paper.writer.updates(found)
    assert "key     two\n        lines \\x1b[2J" in paper.text
    paper = Paper("table", width=80)
    paper.writer.rows(1, Rows("x", ("text",), ((nasty,),)))
    assert "\x1b" not in paper.text and r"\x1b[2J" in paper.text


def test_no_updates_write_nothing() -> None:
    for name in ("jsonl", "csv", "table"):
        paper = Paper(name)
        paper.writer.updates(updates([], []))
        assert paper.text == ""


@pytest.mark.parametrize(
    ("at_us", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1_500_000, "1970-01-01T00:00:01.5Z"),
        (120_000_000, "1970-01-01T00:02:00Z"),
        (None, None),
    ],
)
def test_instants(at_us: int | None, text: str | None) -> None:
    assert instant(at_us) == text


def test_numbers_are_rounded_for_people() -> None:
    column = pa.array([116.39999999999999, 10.054682625063672, 1.23456789e-5, None, float("nan"), -0.0000001])
    assert texts(rounded(column)) == ["116.4", "10.054683", "0.000012346", "", "", "-1e-7"]
    assert texts(rounded(pa.array([0.1], pa.float32()))) == ["0.1"]
    large = pa.array([1e303, -1.7e308, 9007199254.740993, float("inf")])
    assert texts(rounded(large)) == ["1e+303", "-1.7e+308", "9007199254.740993", ""]
    assert texts(rounded(pa.array([7, None], pa.int64()))) == ["7", ""]


VALUES = {
    "text": (pa.string(), st.text()),
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "real": (pa.float64(), st.floats()),
    "flag": (pa.bool_(), st.booleans()),
    "terms": (
        pa.list_(pa.struct([("term", pa.string()), ("count", pa.int64())])),
        st.lists(st.tuples(st.text(), st.integers(0, 99)).map(list), max_size=2),
    ),
}


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_every_value_survives_json(kind: str, data: st.DataObject) -> None:
    arrow_type, values = VALUES[kind]
    column = data.draw(st.lists(st.none() | values, max_size=20))
    pairs = [one and [*map(tuple, one)] for one in column] if kind == "terms" else column
    array = pa.array(pairs, arrow_type)
    read = [json.loads(fragment) for fragment in json_fragments(pa.chunked_array([array]))]
    finite = [None if isinstance(one, float) and one - one != 0 else one for one in column]
    assert read == finite
    assert len(texts(array)) == len(column)


def test_formats_are_checked() -> None:
    assert [check_format(name) for name in FORMATS] == list(FORMATS)
    with pytest.raises(CommandLineError, match="maybe you meant jsonl"):
        check_format("json")


def test_csv_tells_a_null_from_the_empty_text() -> None:
    for name, separator in (("csv", ","), ("tsv", "\t")):
        paper = Paper(name, one_query=True)
        table = pa.table({"a": ["", None, "x"], "b": [None, 1.5, float("nan")]})
        paper.writer.answer(1, Answer(("a", "b"), table, 1, START_US))
        assert paper.text == 'a,b\n"",\n,1.5\nx,\n'.replace(",", separator)
        paper = Paper(name)
        paper.writer.rows(1, Rows("x", ("a", "b"), (("", None),)))
        assert paper.text == 'a,b\n"",\n'.replace(",", separator)


@pytest.mark.parametrize("name", ["csv", "tsv", "markdown", "table", "vertical"])
def test_values_reach_a_terminal_without_control_characters(name: str) -> None:
    nasty = "a\x1b]0;title\x07\u202eb\u2066c"
    table = pa.table({nasty: [nasty]})
    for width in (80, None):
        paper = Paper(name, width=width)
        paper.writer.answer(1, Answer((nasty,), table, 1, START_US))
        paper.writer.rows(1, Rows("x", (nasty,), ((nasty,),)))
        if width is None and name in ("csv", "tsv", "markdown"):
            assert paper.text.count(nasty) >= 3
        else:
            assert not re.search("[\x00-\x09\x0b-\x1f\u202e\u2066]", paper.text)
            assert r"a\x1b]0;title\x07\u202eb\u2066c" in paper.text.replace("\\\\", "\\")


def test_a_markdown_mark_and_script_reach_a_terminal_without_control_characters() -> None:
    for width, shown in ((None, "\x1b"), (80, r"\x1b")):
        paper = Paper("markdown", width=width)
        paper.writer.mark(SnapshotMark(query(7, "q\x1b"), 3, START_US, "begin"))
        paper.writer.script("SELECT '\x1b';\n")
        assert paper.text.replace("\\\\", "\\") == (
            f"q{shown}: the answer after step 3\n\n```sql\nSELECT '{shown}';\n```\n"
        )


def test_a_script_is_unchanged_in_a_pipe_and_harmless_on_a_terminal() -> None:
    for width, shown in ((None, "\x1b"), (80, r"\x1b")):
        paper = Paper("jsonl", width=width)
        paper.writer.script("SELECT '\x1b';\n")
        assert paper.text == f"SELECT '{shown}';\n"


def test_a_message_is_printed_whatever_the_encoding_of_the_output() -> None:
    code = "from stqsh.shell.messages import print_text; print_text('expected … \\udcff')"
    environ = {**os.environ, "PYTHONIOENCODING": "iso-8859-1"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, check=True)
    assert done.stdout == b"expected ? ?\n"
