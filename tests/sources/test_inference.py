"""Columns of a source whose list was left out."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stqsh.errors import SourceError
from stqsh.sources.formats.casting import cast_column
from stqsh.sources.inference import infer
from stqsh.spec.stream import FileSourceSpec, GeneratorSourceSpec


def inferred(path, **source) -> dict[str, str]:
    return dict(infer(FileSourceSpec(str(path), **source)))


CSV = """id,lon,ts,day,flag,zip,note,nothing,mixed,late
1,1.5,2020-01-01T00:00:00Z,2020-01-01,true,02115,a,,1,
-2,2,2020-01-01 00:00:00.5,2020-01-02,False,00001,2020,,x,2.5
"""
TYPES = {
    "id": "BIGINT",
    "lon": "DOUBLE",
    "ts": "TIMESTAMP",
    "day": "TIMESTAMP",
    "flag": "BOOLEAN",
    "zip": "STRING",
    "note": "STRING",
    "nothing": "STRING",
    "mixed": "STRING",
    "late": "DOUBLE",
}


def test_types_of_a_csv_file(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("\ufeff" + CSV)
    assert inferred(tmp_path / "a.csv") == TYPES
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    assert inferred(tmp_path / "*.gz") == TYPES


def test_files_agree_on_the_wider_type(tmp_path) -> None:
    for name, text in {"a": "x,y\n1,1\n", "b": "x,y\n1.5,a\n", "c": "y,x\n\n"}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    assert inferred(tmp_path / "*.csv") == {"x": "DOUBLE", "y": "STRING"}


def test_without_a_header_columns_are_numbered(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("a 1 2.5\nb 2 3\n")
    options = {"header": False, "separator": " "}
    assert inferred(tmp_path / "a.txt", options=options) == {"c1": "STRING", "c2": "BIGINT", "c3": "DOUBLE"}


def test_types_of_json_objects(tmp_path) -> None:
    rows = [{"a": 1, "t": "2020-01-01T00:00:00Z", "l": [1]}, {"a": 1.5, "b": True, "t": None, "s": "x"}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\nbroken\n")
    assert inferred(tmp_path / "a.jsonl") == {"a": "DOUBLE", "t": "TIMESTAMP", "b": "BOOLEAN", "s": "STRING"}


def test_types_of_geojson(tmp_path) -> None:
    feature = {"type": "Feature", "id": 5, "properties": {"name": "x"}, "geometry": None}
    (tmp_path / "a.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    expected = {"id": "BIGINT", "name": "STRING", "lon": "DOUBLE", "lat": "DOUBLE"}
    assert inferred(tmp_path / "a.geojson") == expected


def test_types_of_parquet(tmp_path) -> None:
    table = pa.table(
        {
            "a": pa.array([1], pa.int32()),
            "b": pa.array([1], pa.uint16()),
            "c": pa.array(["x"]).dictionary_encode(),
            "d": pa.array([1], pa.timestamp("ns", tz="Asia/Tokyo")),
            "e": pa.array([[1]]),
            "f": pa.array([1.0], pa.float32()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    expected = {"a": "INT", "b": "BIGINT", "c": "STRING", "d": "TIMESTAMP", "f": "FLOAT"}
    assert inferred(tmp_path / "a.parquet") == expected


def test_the_generator_has_its_own_columns() -> None:
    columns = infer(GeneratorSourceSpec("network"))
    assert columns[0] == ["oid", "STRING"] and ["ts", "TIMESTAMP"] in columns


def test_nothing_to_infer_from(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(SourceError, match="contains no records from which to infer the columns"):
        inferred(tmp_path / "a.csv")
    (tmp_path / "b.csv.gz").write_text("no gzip")
    with pytest.raises(SourceError, match="cannot be read"):
        inferred(tmp_path / "b.csv.gz")
    (tmp_path / "c.txt").write_text("\n\r\n\n")
    for has_header in (True, False):
        with pytest.raises(SourceError, match="contains no records from which to infer the columns"):
            inferred(tmp_path / "c.txt", options={"header": has_header})


def written(path, **columns: pa.Array) -> None:
    pq.write_table(pa.table(columns), path)


def test_numbers_of_several_types_have_the_wider_one(tmp_path) -> None:
    one, two, three, four = (
        pa.array([1], kind) for kind in (pa.int32(), pa.int64(), pa.float32(), pa.float64())
    )
    written(tmp_path / "1.parquet", n=one, lon=three, m=one, k=two, s=one)
    written(tmp_path / "2.parquet", n=two, lon=four, m=three, k=three, s=pa.array(["a"]))
    expected = {"n": "BIGINT", "lon": "DOUBLE", "m": "DOUBLE", "k": "DOUBLE", "s": "STRING"}
    assert inferred(tmp_path / "*.parquet") == expected
    (tmp_path / "1.parquet").rename(tmp_path / "3.parquet")
    assert inferred(tmp_path / "*.parquet") == expected


def test_whole_numbers_that_are_no_bigint_are_text(tmp_path) -> None:
    """They may be keys, and lose digits as DOUBLEs."""
    (tmp_path / "a.csv").write_text("oid,n\n18446744073709551615,1e20\n5,7\n")
    assert inferred(tmp_path / "a.csv") == {"oid": "STRING", "n": "DOUBLE"}
    (tmp_path / "a.jsonl").write_text('{"oid":18446744073709551615}\n{"oid":5}\n')
    assert inferred(tmp_path / "a.jsonl") == {"oid": "STRING"}
    large, small = pa.array([2**64 - 1], pa.decimal128(20, 0)), pa.array([7], pa.decimal128(18, 0))
    written(tmp_path / "a.parquet", oid=large, n=small, x=small.cast(pa.decimal128(18, 2)))
    assert inferred(tmp_path / "a.parquet") == {"oid": "STRING", "n": "BIGINT", "x": "DOUBLE"}
    assert cast_column(large, "STRING").values.to_pylist() == ["18446744073709551615"]
    assert cast_column(small, "BIGINT").values.to_pylist() == [7]


def test_every_kind_of_text_is_a_string(tmp_path) -> None:
    texts = pa.array(["a"])
    kinds = {"plain": pa.string(), "large": pa.large_string(), "view": pa.string_view()}
    written(tmp_path / "a.parquet", **{name: texts.cast(kind) for name, kind in kinds.items()})
    assert inferred(tmp_path / "a.parquet") == dict.fromkeys(kinds, "STRING")
