"""GeoJSON, Markdown, vertical, Arrow and Parquet: what language.md, "Output", and a reader ask of them."""

import json
import unicodedata
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shell.samples import START_US, Paper, query, updates
from stqsh.client.results import Answer, Rows, SnapshotMark, Updates
from stqsh.errors import StqshError
from stqsh.shell.terminal.capabilities import encode_for_terminal, terminal_charset
from stqsh.shell.writers.arrow_files import PIECE, ArrowFileWriter
from stqsh.shell.writers.redirect import open_outlet

Q1 = query(7, "q1")
STATE = query(9, "state|2", [("oid", "oid"), ("key", "status")])
ENTERS = (12, 7, "+", "368", "368", 116.4, 39.9, START_US, "free")
VANISHES = (14, 7, "disconnected", "368", "368", None, None, None, None)
OTHER = (14, 9, "+", "a|b", "a|b", 1.0, float("nan"), START_US + 1_500_000, "two\nlines")
TABLE = pa.table({"oid": ["1", None], "lon": [1.5, None], "lat": [2.25, 3.0], "n": [10, -1]})
ANSWER = Answer(tuple(TABLE.column_names), TABLE, 12, START_US, location=("lon", "lat"))
SHOWN = Rows("x", ("name", "n", "on"), (("a|b", 1, True), ("c", None, False)))


def placed(found: Updates) -> Updates:
    return found


def test_a_feature_has_the_records_location_and_the_select_list_flat() -> None:
    geo, lines = Paper("geojson"), Paper("jsonl")
    for paper in (geo, lines):
        paper.writer.mark(SnapshotMark(Q1, 12, START_US, "begin"))
        paper.writer.updates(placed(updates([Q1, STATE], [ENTERS, VANISHES, OTHER])))
        paper.writer.rows(2, SHOWN)
        paper.writer.answer(3, ANSWER)
    features = [json.loads(line) for line in geo.text.splitlines()]
    assert [one["properties"] for one in features] == [
        flat(json.loads(line)) for line in lines.text.splitlines()
    ]
    assert [one["geometry"] and one["geometry"]["coordinates"] for one in features] == [
        None, [116.4, 39.9], None, None, None, None, [1.5, 2.25], None,
    ]  # fmt: skip
    assert geo.text.splitlines()[1] == (
        '{"type":"Feature","geometry":{"type":"Point","coordinates":[116.4,39.9]},"properties":{"query":"q1",'
        '"step":12,"at":"2008-02-02T15:00:12Z","op":"+","key":"368","oid":"368","lon":116.4,"lat":39.9}}'
    )


def flat(record: dict[str, object]) -> dict[str, object]:
    """A record of JSON lines with its row beside the rest; what is named alike is the row's NAME."""
    row = record.pop("row", {})
    assert isinstance(row, dict)
    return record | {f"row.{name}" if name in record else name: value for name, value in row.items()}


def test_the_reason_is_among_the_properties() -> None:
    paper = Paper("geojson")
    paper.writer.updates(updates([Q1], [VANISHES]))
    assert json.loads(paper.text) == {
        "type": "Feature",
        "geometry": None,
        "properties": {
            "query": "q1", "step": 14, "at": "2008-02-02T15:00:14Z", "op": "-", "key": "368",
            "why": "disconnected", "oid": "368", "lon": None, "lat": None,
        },
    }  # fmt: skip


@pytest.mark.parametrize("rows", [[], [ENTERS], [ENTERS, VANISHES]])
def test_a_file_holds_a_feature_collection(rows, tmp_path) -> None:
    path = tmp_path / "out.geojson"
    outlet = open_outlet(str(path))
    for row in rows:
        outlet.writer("geojson", one_query=True).updates(updates([Q1], [row]))
    outlet.close()
    found = json.loads(path.read_text())
    assert found["type"] == "FeatureCollection"
    assert [one["properties"]["step"] for one in found["features"]] == [row[0] for row in rows]
    assert len(path.read_text().splitlines()) == (len(rows) + 2 if rows else 1)


def test_a_script_does_not_spoil_a_feature_collection(tmp_path) -> None:
    path = tmp_path / "out.geojson"
    outlet = open_outlet(str(path))
    with pytest.raises(StqshError, match="a script cannot be written as GeoJSON"):
        outlet.writer("geojson", one_query=True).script("DUMP;")
    outlet.close()
    assert json.loads(path.read_text())["features"] == []


def test_a_file_for_geojson_lines_holds_a_feature_a_line(tmp_path) -> None:
    path = tmp_path / "out.geojsonl"
    outlet = open_outlet(str(path))
    outlet.writer("geojson", one_query=True).updates(updates([Q1], [ENTERS, VANISHES]))
    outlet.close()
    assert [json.loads(line)["type"] for line in path.read_text().splitlines()] == ["Feature"] * 2


@pytest.mark.parametrize("form", ["jsonl", "geojson"])
def test_json_is_one_line_for_every_reader(form) -> None:
    odd = "a\x00b\x1fc\x7fd\x85e\x9ff\u2028g\u2029h\u00a0\u20ac\U0001f600"
    paper = Paper(form)
    paper.writer.updates(
        updates([replace(Q1, name=odd), STATE], [ENTERS, (12, 9, "+", odd, odd, 1, 2, None, odd)])
    )
    paper.writer.rows(1, Rows("x", (odd,), ((odd,),)))
    paper.writer.mark(SnapshotMark(replace(Q1, name=odd), 12, START_US, "begin"))
    assert len(paper.text.splitlines()) == 4
    assert not [one for one in paper.text if unicodedata.category(one) in ("Cc", "Zl", "Zp") and one != "\n"]
    records = [json.loads(line) for line in paper.text.splitlines()]
    if form == "geojson":
        records = [one["properties"] for one in records]
    assert [one.get("query") for one in records] == [odd, "state|2", None, odd]
    assert records[1]["key"] == odd
    assert "d\\u0085e\\u009ff\\u2028g\\u2029h\u00a0\u20ac\U0001f600" in paper.text


def test_a_snapshot_without_its_location_is_nowhere() -> None:
    paper = Paper("geojson")
    paper.writer.answer(1, replace(ANSWER, location=None))
    assert all(json.loads(line)["geometry"] is None for line in paper.text.splitlines())


def test_markdown_tables() -> None:
    paper = Paper("markdown", one_query=True)
    paper.writer.updates(updates([Q1], [ENTERS]))
    paper.writer.updates(updates([Q1], [VANISHES]))
    paper.writer.updates(updates([STATE], [OTHER]))
    paper.writer.rows(2, SHOWN)
    paper.writer.script("DUMP;\n")
    assert paper.text == (
        "| query | step | at | op | why | key | oid | lon | lat |\n"
        "| --- | --: | --- | --- | --- | --- | --- | --: | --: |\n"
        "| q1 | 12 | 2008-02-02T15:00:12Z | + |  | 368 | 368 | 116.4 | 39.9 |\n"
        "| q1 | 14 | 2008-02-02T15:00:14Z | - | disconnected | 368 | 368 |  |  |\n"
        "\n"
        "| query | step | at | op | why | key | oid | key |\n"
        "| --- | --: | --- | --- | --- | --- | --- | --- |\n"
        "| state\\|2 | 14 | 2008-02-02T15:00:14Z | + |  | a\\|b | a\\|b | two<br>lines |\n"
        "\n"
        "| name | n | on |\n| --- | --: | --- |\n| a\\|b | 1 | true |\n| c |  | false |\n"
        "\n```sql\nDUMP;\n```\n"
    )


def test_markdown_of_several_queries_has_their_rows_as_json() -> None:
    paper = Paper("markdown")
    paper.writer.updates(updates([Q1, STATE], [ENTERS, OTHER]))
    rows = [line.split(" | ")[-1].removesuffix(" |") for line in paper.text.splitlines()]
    assert rows[0] == "row"
    assert json.loads(rows[2]) == {"oid": "368", "lon": 116.4, "lat": 39.9}


def test_vertical_records_are_counted() -> None:
    paper = Paper("vertical")
    paper.writer.updates(updates([Q1, STATE], [ENTERS, OTHER, VANISHES]))
    assert paper.text == (
        "-- 1: + q1 -----------------------------\n"
        "step  12\nat    2008-02-02T15:00:12Z\nkey   368\noid   368\nlon   116.4\nlat   39.9\n"
        "-- 2: + state|2 ------------------------\n"
        "step  14\nat    2008-02-02T15:00:14Z\nkey   a|b\noid   a|b\nkey   two\n      lines\n"
        "-- 3: - q1 disconnected ----------------\n"
        "step  14\nat    2008-02-02T15:00:14Z\nkey   368\noid   368\nlon\nlat\n"
    )


def test_vertical_snapshots_end_with_their_count() -> None:
    paper = Paper("vertical")
    paper.writer.answer(1, ANSWER)
    paper.writer.rows(2, replace(SHOWN, rows=()))
    assert paper.text.startswith("-- 1 ") and "\nn    10\n" in paper.text
    assert paper.text.endswith("n    -1\n(2 rows)\n(0 rows)\n")


@pytest.mark.parametrize("suffix", [".arrow", ".parquet"])
def test_columnar_files_hold_a_table_each(suffix, tmp_path) -> None:
    path = tmp_path / f"out{suffix}"
    writer = ArrowFileWriter(path)
    writer.updates(updates([Q1, STATE], [ENTERS, OTHER, VANISHES]))
    writer.answer(1, ANSWER)
    writer.rows(2, SHOWN)
    writer.updates(updates([Q1], [ENTERS]))
    writer.close()
    found = [read(path.with_stem(stem)) for stem in ("out", "out-2", "out-3", "out-4")]
    assert found[0].column_names == ["query", "step", "at", "op", "why", "key", "oid", "lon", "lat"]
    assert found[0].column("why").to_pylist() == [None, "disconnected", None]
    assert found[0].column("lon").to_pylist() == [116.4, None, 116.4]
    assert found[0].schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert found[1].column("row.key").to_pylist() == ["two\nlines"]
    assert found[2].equals(TABLE)
    assert found[3].to_pylist() == [dict(zip(SHOWN.columns, row, strict=True)) for row in SHOWN.rows]
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("suffix", [".arrow", ".parquet"])
def test_a_columnar_file_does_not_depend_on_how_its_rows_came(suffix, tmp_path) -> None:
    rows = [(step, 7, "+", str(step), str(step), 1.0, 2.0, START_US, None) for step in range(PIECE + 100)]
    whole = updates([Q1], rows)
    written = []
    for cuts in ((len(rows),), (1, PIECE, len(rows)), (PIECE + 50, len(rows))):
        path, writer, start = tmp_path / f"out{suffix}", ArrowFileWriter(tmp_path / f"out{suffix}"), 0
        for cut in cuts:
            writer.updates(replace(whole, table=whole.table.slice(start, cut - start)))
            start = cut
        writer.close()
        written.append(path.read_bytes())
    assert read(path).num_rows == len(rows)
    assert written[0] == written[1] == written[2]


def test_columnar_files_say_what_they_cannot_take(tmp_path) -> None:
    with pytest.raises(StqshError, match="a script cannot be written"):
        ArrowFileWriter(tmp_path / "out.arrow").script("DUMP;")
    with pytest.raises(StqshError, match=r"cannot write .*none/out\.arrow: no such file"):
        ArrowFileWriter(tmp_path / "none" / "out.arrow").answer(1, ANSWER)


def test_cells_of_different_kinds_become_text(tmp_path) -> None:
    writer = ArrowFileWriter(tmp_path / "out.arrow")
    writer.rows(1, Rows("x", ("value", "value"), ((1, 1), ("auto", 2.5), (None, None))))
    assert read(tmp_path / "out.arrow").to_pydict() == {
        "value": ["1", "auto", None], "value_2": [1.0, 2.5, None],
    }  # fmt: skip


def read(path):
    return pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()


@pytest.mark.parametrize(
    ("said", "found", "drawn"),
    [
        ({"LANG": "de_DE.UTF-8"}, "utf-8", "é ─…"),
        ({}, "utf-8", "é ─…"),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, "ascii", "? -~"),
        ({"LANG": "de_DE.ISO-8859-1"}, "iso8859-1", "é -~"),
        ({"LANG": "C.UTF-8"}, "utf-8", "é ─…"),
        ({"LANG": "en_US.klingon"}, "utf-8", "é ─…"),
    ],
)
def test_a_terminal_without_utf8_gets_what_it_can_show(monkeypatch, said, found, drawn) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert terminal_charset() == found
    assert encode_for_terminal("é ─…").decode(found) == drawn


def test_tables_in_a_pipe_are_utf8_and_on_a_plain_terminal_are_not(monkeypatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    for width, rule in ((None, "─"), (80, "-")):
        paper = Paper("table", width=width)
        paper.writer.rows(1, SHOWN)
        assert paper.text.splitlines()[1].startswith(rule)
