"""Parquet files: columns by name, types as near as they come, row numbers for lines."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.streams import prepared, stream

from stqsh.errors import SourceError
from stqsh.sources.formats import parquet_file
from stqsh.sources.source_check import check_source

TABLE = pa.table(
    {
        "n": pa.array([1, 2, 3, 4], pa.int16()),
        "ts": pa.array([1, 2, None, 4], pa.timestamp("s")),
        "lat": pa.array([1.0, 95.0, 3.0, None], pa.float32()),
        "LON": pa.array([1, 2, 3, None]),
        "oid": pa.array([10, 20, 30, 40]),
        "more": pa.array([[1]] * 4),
    }
)


@pytest.mark.parametrize("block_rows", [1, 3, 1000])
def test_rows_and_dead_letters(tmp_path, monkeypatch, block_rows) -> None:
    monkeypatch.setattr(parquet_file, "BLOCK_ROWS", block_rows)
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=2)
    result = prepared(stream(tmp_path / "*.parquet"), tmp_path / "store")
    assert result.column("oid") == ["10", "40"]
    assert result.column("lon") == [1.0, None]
    assert [(line, reason) for _, line, reason, _ in result.dead] == [
        (2, "lat: 95.0 is beyond 90 degrees"),
        (3, "ts: the time is empty"),
    ]
    assert '"oid":20' in result.dead[0][3]


def test_a_missing_column_and_a_broken_file(tmp_path) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 no")
    result = prepared(stream(tmp_path / "*.parquet"), tmp_path / "store")
    assert [(file, line) for file, line, *_ in result.dead if line == 0] == [("b.parquet", 0)]
    with pytest.raises(SourceError, match="no column speed in"):
        columns = [
            ["oid", "STRING"],
            ["LON", "DOUBLE"],
            ["lat", "DOUBLE"],
            ["ts", "TIMESTAMP"],
            ["speed", "DOUBLE"],
        ]
        prepared(stream(tmp_path / "a.parquet", columns=columns, x="LON"), tmp_path / "other")


def test_a_time_beyond_the_year_9999_is_a_dead_letter(tmp_path) -> None:
    table = pa.table(
        {
            "ts": pa.array([10**15, 1_000], pa.timestamp("ms")),
            "lat": [1.0, 2.0],
            "lon": [1.0, 2.0],
            "oid": ["a", "b"],
            "n": [1, 2],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    result = prepared(stream(tmp_path / "*.parquet"), tmp_path / "store")
    assert result.column("oid") == ["b"]
    [(_, line, reason, text)] = result.dead
    assert line == 1
    assert reason.startswith("ts: '<value out of range: 1000000000000000>' is not a time")
    assert '"oid":"a"' in text


def test_a_column_that_is_there_twice_is_an_error_that_names_the_file(tmp_path) -> None:
    twice = pa.Table.from_arrays([*TABLE.columns, TABLE["oid"]], [*TABLE.column_names, "oid"])
    pq.write_table(twice, tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet has several columns oid"):
        check_source(stream(tmp_path / "*.parquet"))


def test_text_that_is_no_utf8_is_a_dead_letter(tmp_path) -> None:
    latin = pa.array([b"a", b"\xff\xfe", None, b"d"]).view(pa.string())
    pq.write_table(TABLE.set_column(4, "oid", latin), tmp_path / "a.parquet")
    result = prepared(stream(tmp_path / "*.parquet"), tmp_path / "store")
    assert result.column("oid") == ["a", "d"]
    assert result.dead[0][2] == "oid: not valid UTF-8"
    assert '"oid":"\ufffd\ufffd"' in result.dead[0][3]
