"""JSON lines and GeoJSON: Arrow's reading and the one line by line agree, and broken lines are put aside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.streams import stream

from stqsh.errors import SourceError
from stqsh.sources.formats import json_file
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.source_files import find_files, read_group

GOOD = {"oid": "a", "lon": 1.5, "lat": 2.5, "ts": "2020-01-01T00:00:00Z", "n": 7}


def lines(*rows: object) -> str:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


BAD = {
    "{": "not JSON",
    json.dumps(GOOD | {"lon": float("nan")}): "lon: nan is not a coordinate",
    '{"oid":"a","lon":NaN': "not JSON",
    "[1]": "not a JSON object",
    "7": "not a JSON object",
    json.dumps(GOOD | {"n": "x"}): "n: 'x' is not a valid BIGINT",
    json.dumps(GOOD | {"n": [1]}): "n: '[1]' is not a valid BIGINT",
    json.dumps(GOOD | {"lat": 91}): "lat: 91.0 is beyond 90 degrees",
    json.dumps(GOOD | {"oid": ""}): "oid: the key is empty",
    json.dumps(GOOD | {"oid": None}): "oid: the key is empty",
    json.dumps(GOOD | {"ts": 1e300}): "ts: '1e+300' is not a time (ISO 8601, or seconds since the epoch)",
    json.dumps({"oid": "a", "lon": 1, "lat": 2}): "ts: the time is empty",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_line_is_put_aside_with_its_reason(load, text) -> None:
    result = load({"a.jsonl": lines(GOOD, "", text, GOOD)})
    ((file, line, reason, shown),) = result.dead
    assert (file, line, shown) == ("a.jsonl", 3, text)
    assert reason.startswith(BAD[text])
    assert result.column("n") == [7, 7]


def test_invalid_utf8_in_json_is_one_bad_line(load) -> None:
    good = json.dumps(GOOD).encode()
    result = load({"a.jsonl": good + b'\n{"oid":"\xff"}\n' + good})
    assert [line for _, line, *_ in result.dead] == [2]
    assert result.store.rows == 2


def test_members_may_be_missing_named_in_other_case_or_more_than_declared(load) -> None:
    first = {"OID": "a", "Lon": 1, "lat": 2, "ts": 1.5, "more": {"x": [1]}}
    result = load({"a.json": lines(first, {"OID": 5, "ts": 2})})
    assert result.column("oid") == ["a", "5"]
    assert result.column("lon") == [1.0, None]
    assert result.column("n") == [None, None]


def test_no_object_with_the_time_is_an_error_with_near_names(load) -> None:
    with pytest.raises(SourceError, match="no column ts in"):
        load({"a.jsonl": lines({"oid": "a", "tss": 1})})


TEXTS = st.one_of(st.text(max_size=3), st.sampled_from(["", "1", "2020-01-01", "x", "true", "1.5"]))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.floats(),
    TEXTS,
    st.lists(st.integers(), max_size=1),
)
OBJECTS = st.fixed_dictionaries({}, optional=dict.fromkeys(GOOD, VALUES))
LIKELY = st.fixed_dictionaries(
    {
        "oid": st.text(min_size=1, max_size=2),
        "lon": st.floats(-180, 180),
        "lat": st.integers(-90, 90),
        "ts": st.integers(0, 9).map(float),
        "n": st.none() | st.integers(0, 9),
    }
)


@given(st.lists(st.one_of(LIKELY, LIKELY, OBJECTS), max_size=8), st.booleans())
def test_arrow_and_line_by_line_give_the_same(tmp_path_factory, rows, ascii_only) -> None:
    path: Path = tmp_path_factory.mktemp("json") / "a.jsonl"
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in [GOOD, *rows]), errors="replace"
    )
    spec = stream(path)

    def read() -> tuple[list, list]:
        parts = list(read_group(find_files(spec.source), spec.source, RecordSchema.of(spec)))
        values = [tuple(map(str, row)) for part in parts for row in zip(*part.columns, strict=True)]
        return values, [letter for part in parts for letter in part.dead]

    fast = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_file, "read_whole", lambda *_: None)
        assert read() == fast


def feature(**properties: object) -> dict:
    place = {"type": "Point", "coordinates": [1.5, 2.5, 99]}
    return {"type": "Feature", "geometry": place, "properties": {"oid": "a", "ts": 5, "n": 1} | properties}


@pytest.mark.parametrize("shape", ["collection", "pretty", "sorted", "sorted pretty", "marked", "lines"])
def test_geojson_points_give_the_location(load, shape) -> None:
    features = [
        feature(n=1),
        {**feature(n=2), "geometry": None},
        feature(n=3, ts="2020-01-01"),
        feature(n="x"),
    ]
    line = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}
    features += [{**feature(), "geometry": line}, {**feature(), "geometry": {**line, "type": "Point"}}]
    whole = {"type": "FeatureCollection", "features": features}
    indent, is_sorted = 2 if "pretty" in shape else None, "sorted" in shape
    text = lines(*features) if shape == "lines" else json.dumps(whole, indent=indent, sort_keys=is_sorted)
    text = "\ufeff" + text if shape == "marked" else text
    result = load({"a.geojson": text})
    assert result.column("n") == [1, 2, 3]
    assert result.column("lon") == [1.5, None, 1.5]
    assert result.column("lat") == [2.5, None, 2.5]
    assert [(line, reason) for _, line, reason, _ in result.dead] == [
        (4, "n: 'x' is not a valid BIGINT"),
        (5, "geometry: no Point"),
        (6, "lon: '[0,0]' is not a valid DOUBLE"),
    ]


def test_a_line_that_only_looks_like_a_collection_is_one_dead_letter(load) -> None:
    result = load({"a.geojson": '{"features": [{"a"\n' + lines(feature(), feature(n=2))})
    assert result.column("n") == [1, 2]
    assert [line for _, line, *_ in result.dead] == [1]


def test_a_broken_collection_is_one_dead_letter(load) -> None:
    good = json.dumps({"type": "FeatureCollection", "features": [feature()]})
    result = load({"a.geojson": good, "b.geojson": '{"type": "FeatureCollection", "features": [{'})
    assert result.store.rows == 1
    assert [(file, line) for file, line, *_ in result.dead] == [("b.geojson", 0)]
