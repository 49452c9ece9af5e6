"""Files of JSON that are not lines: arrays, lists within objects, features, and objects within objects."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.streams import stream

from stqsh.errors import SourceError
from stqsh.sources.formats import json_file
from stqsh.sources.formats.json_documents import read_json_blocks
from stqsh.sources.formats.json_elements import ElementStream, find_document, read_json_text
from stqsh.sources.formats.json_file import json_block
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.inference import infer
from stqsh.sources.source_files import find_files, read_group
from stqsh.spec.stream import FileSourceSpec

ROW = {"oid": "a", "lon": 1.5, "lat": 2.5, "ts": "2020-01-01T00:00:00Z", "n": 7}
OTHER = {"oid": 'b"]},{[', "lon": 2.5, "lat": 2.5, "ts": "2020-01-01T00:00:01Z", "n": 8}
LAYOUTS = {
    "an array": [ROW, OTHER],
    "a list within an object": {"status": "ok", "count": 2, "data": [ROW, OTHER], "next": None},
    "a list two objects deep": {"meta": {"tags": ["x"]}, "response": {"items": [ROW, OTHER]}},
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("document", LAYOUTS.values(), ids=LAYOUTS)
def test_records_of_a_document_are_read(load, document, indent) -> None:
    result = load({"a.json": json.dumps(document, indent=indent)})
    assert result.column("oid") == [ROW["oid"], OTHER["oid"]]
    assert result.column("n") == [7, 8]
    assert result.dead == []


def test_objects_of_several_lines_one_after_the_other_are_read(load) -> None:
    result = load({"a.json": "\n".join(json.dumps(row, indent=2) for row in (ROW, OTHER))})
    assert result.column("n") == [7, 8]


def test_a_compressed_array_with_a_byte_order_mark_is_read(load) -> None:
    result = load({"a.json.gz": gzip.compress(b"\xef\xbb\xbf" + json.dumps([ROW, OTHER]).encode())})
    assert result.column("n") == [7, 8]


def test_a_bad_element_is_set_aside_by_its_number(load) -> None:
    good, other = json.dumps(ROW), json.dumps(OTHER)
    result = load({"a.json": f'[{good},\n 7,\n{{"oid": "x\ny"}}, {other}]'})
    assert result.column("n") == [7, 8]
    assert [(line, reason[:8]) for _, line, reason, *_ in result.dead] == [(2, "not a JS"), (3, "not JSON")]


def test_of_an_array_that_is_cut_off_the_whole_elements_are_read(load) -> None:
    result = load({"a.json": json.dumps([ROW, OTHER])[:-10]})
    assert result.column("n") == [7]
    assert [(line, reason) for _, line, reason, *_ in result.dead] == [
        (2, "not JSON: unexpected end of data")
    ]


def test_lines_whose_first_is_damaged_are_still_lines(load) -> None:
    result = load({"a.json": '{"oid": "a",\n' + json.dumps(ROW) + "\n" + json.dumps(OTHER) + "\n"})
    assert result.column("n") == [7, 8]
    assert [line for _, line, *_ in result.dead] == [1]


def test_an_empty_array_has_no_columns_to_infer(tmp_path) -> None:
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(SourceError, match="contains no records"):
        infer(FileSourceSpec(str(tmp_path / "a.json")))


NESTED = {"oid": "a", "at": {"lon": 1.5, "lat": 2.5, "by": {"name": "x"}}, "ts": 5, "l": [1]}


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("extra", [{}, {"at.by": 1}])
def test_columns_of_objects_within_objects_have_names_with_dots(
    tmp_path, monkeypatch, extra, is_slow
) -> None:
    if is_slow:
        monkeypatch.setattr(json_file, "read_whole", lambda *_: None)
    (tmp_path / "a.jsonl").write_text(
        json.dumps(NESTED | extra) + "\n" + json.dumps({"oid": "b", "ts": 6}) + "\n"
    )
    columns = [["oid", "STRING"], ["at.lon", "DOUBLE"], ["at.lat", "DOUBLE"], ["at.by.name", "STRING"]]
    found = infer(FileSourceSpec(str(tmp_path / "a.jsonl")))
    assert [column for column in found if column[0] not in extra] == [*columns, ["ts", "BIGINT"]]
    spec = stream(
        tmp_path / "a.jsonl", columns=[*columns, ["ts", "TIMESTAMP"]], x="at.lon", y="at.lat", time="ts"
    )
    [records] = read_group(find_files(spec.source), spec.source, RecordSchema.of(spec))
    assert [column.to_pylist() for column in records.columns[:4]] == [
        ["a", "b"],
        [1.5, None],
        [2.5, None],
        ["x", None],
    ]


def test_a_member_with_a_dot_in_its_name_comes_before_one_within_an_object(tmp_path) -> None:
    spec = stream("", columns=[["oid", "STRING"], ["a.b", "BIGINT"], ["ts", "TIMESTAMP"]], x="a.b", y="a.b")
    layout = RecordSchema.of(spec)
    path = tmp_path / "a.json"
    path.write_text('{"oid":"x","ts":1,"a.b":1,"a":{"b":2}}\n{"oid":"y","ts":1,"a":{"b":2}}\n')
    [block] = read_json_blocks(path, layout, {})
    assert [int(str(value)) for value in block.columns[1].to_pylist()] == [1, 2]


def test_features_are_found_under_json(load, tmp_path) -> None:
    feature = {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": [1.5, 2.5]},
        "properties": {"oid": "a", "ts": 1, "n": 3},
    }
    collection = {"type": "FeatureCollection", "metadata": {"count": 1}, "features": [feature]}
    result = load({"a.json": json.dumps(collection), "b.json": json.dumps(feature) + "\n"})
    assert result.column("lon") == [1.5, 1.5]
    assert result.column("n") == [3, 3]
    assert dict(infer(FileSourceSpec(str(tmp_path / "in" / "*"))))["lat"] == "DOUBLE"


# -- an array gives the records of the lines -----------------------------------------------------------------

TEXT = st.text(st.sampled_from('ab"\\[]{},:\n\r é'), max_size=4)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(TEXT, inner, max_size=2)),
    max_leaves=4,
)
OBJECT = st.fixed_dictionaries({"oid": st.just("a")}, optional={"n": VALUES, "s": VALUES})
OBJECTS = st.lists(OBJECT)


@given(OBJECTS, st.sampled_from([None, 0, 1]), st.booleans(), st.integers(1, 40))
def test_a_json_array_gives_the_records_of_the_json_lines(objects, indent, is_wrapped, size) -> None:
    document = {"n": "[{", "rows": objects} if is_wrapped else objects
    text = json.dumps(document, indent=indent, ensure_ascii=False).encode()
    found = find_document(text, Path("a.json"))
    if is_wrapped and not objects:
        assert found is None or not found.is_member
        return
    assert found is not None
    reader = ElementStream(Pieces(text), found)
    lines = b"".join(iter(lambda: reader.read(size), b"")).split(b"\n")
    assert [json.loads(line) for line in lines if line.strip()] == objects


class Pieces:
    """A stream that gives what it is asked for, or one byte less."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def read(self, size: int, /) -> bytes:
        size = max(size - 1, 1)
        piece, self._text = self._text[:size], self._text[size:]
        return piece


@given(st.lists(OBJECT, min_size=1))
def test_blocks_of_an_array_are_those_of_its_lines(objects) -> None:
    layout = RecordSchema((("oid", "STRING"), ("n", "STRING")), "oid")  # type: ignore[arg-type]
    with TemporaryDirectory() as folder:
        lines, array = Path(folder, "a.jsonl"), Path(folder, "a.json")
        lines.write_text("".join(json.dumps(one) + "\n" for one in objects))
        array.write_text(json.dumps(objects, indent=1))
        columns = [
            [json_block(text, layout.names, layout).columns for text in read_json_text(path)]
            for path in (lines, array)
        ]
    assert [[c.to_pylist() for c in block] for block in columns[0]] == [
        [c.to_pylist() for c in block] for block in columns[1]
    ]


def test_a_large_array_is_read_in_blocks(tmp_path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[" + ",".join([json.dumps(ROW)] * 200_000) + "]")
    tracemalloc.start()
    rows = sum(text.text.count(b"}") for text in read_json_text(path, 1 << 20))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert rows == 200_000
    assert most < path.stat().st_size / 2
