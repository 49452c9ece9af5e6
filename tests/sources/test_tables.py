"""Tables: the rows of a source, each key once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.specs import table_spec
from support.streams import dead_letters

from stqsh.checksums import DamagedFileError
from stqsh.errors import SourceError
from stqsh.sources import source_files as reading
from stqsh.sources.table_files import BATCH_ROWS, prepare_table, read_table
from stqsh.spec.stream import TableSpec

COLUMNS = [["id", "BIGINT"], ["name", "STRING"], ["since", "TIMESTAMP"]]


def table(glob: object, columns: list[list[str]] = COLUMNS, **source: Any) -> TableSpec:
    found = {"type": "file", "glob": str(glob), "format": None, "options": {}, **source}
    return table_spec({"columns": columns, "key": "id", "source": found})


def made(spec: TableSpec, directory: Path) -> list[dict[str, Any]]:
    content = prepare_table(spec, directory, report=lambda fraction, text: None)
    rows = [row for batch in read_table(directory) for row in batch.to_pylist()]
    assert content == (len(rows), len(dead_letters(directory)))
    return rows


def test_later_rows_of_a_key_and_rows_without_one_are_dead_letters(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name,since\n1,a,2015-01-01\n2,b,\n,c,\n1,d,\nx,e,\n")
    (tmp_path / "b.csv").write_text("id,name,since\n2,f,\n3,,\n")
    rows = made(table(tmp_path / "*.csv"), tmp_path / "t")
    assert [(row["id"], row["name"]) for row in rows] == [(1, "a"), (2, "b"), (3, None)]
    assert dead_letters(tmp_path / "t") == [
        ("a.csv", 4, "id: the key is empty", ",c,"),
        ("a.csv", 5, "id: 1 occurs again", "1,d,"),
        ("a.csv", 6, "id: 'x' is not a valid BIGINT", "x,e,"),
        ("b.csv", 2, "id: 2 occurs again", "2,f,"),
    ]


@given(
    st.lists(st.lists(st.integers(0, 5), max_size=6), min_size=1, max_size=4), st.sampled_from([1, 8 << 20])
)
def test_the_first_row_of_a_key_stands(tmp_path_factory, files, group) -> None:
    root = tmp_path_factory.mktemp("table")
    expected: dict[int, str] = {}
    for file, keys in enumerate(files):
        rows = [(key, f"{file}.{place}") for place, key in enumerate(keys)]
        (root / f"{file}.csv").write_text("id,name\n" + "".join(f"{key},{name}\n" for key, name in rows))
        for key, name in rows:
            expected.setdefault(key, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "GROUP_BYTES", group)
        found = made(table(root / "*.csv", COLUMNS[:2]), root / "t")
    assert [(row["id"], row["name"]) for row in found] == list(expected.items())


def test_a_row_that_is_bad_for_another_reason_does_not_take_the_key(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name,since\n1,a,never\n1,b,2015-01-01\n")
    assert [row["name"] for row in made(table(tmp_path / "a.csv"), tmp_path / "t")] == ["b"]


def test_a_large_table_is_read_in_batches(tmp_path: Path) -> None:
    rows = "".join(f"{n},n{n}\n" for n in range(BATCH_ROWS + 10))
    (tmp_path / "a.csv").write_text("id,name\n" + rows)
    prepare_table(table(tmp_path / "a.csv", COLUMNS[:2]), tmp_path / "t", report=lambda *_: None)
    batches = list(read_table(tmp_path / "t"))
    assert max(batch.num_rows for batch in batches) <= BATCH_ROWS
    assert pa.Table.from_batches(batches)["id"].to_pylist() == list(range(BATCH_ROWS + 10))


def test_points_of_a_geojson_table_are_columns(tmp_path: Path) -> None:
    feature = '{"type":"Feature","properties":{"id":%d},"geometry":%s}\n'
    point = '{"type":"Point","coordinates":[1.5,2.5]}'
    (tmp_path / "a.geojson").write_text(feature % (1, point) + feature % (2, "null"))
    columns = [["id", "BIGINT"], ["lon", "DOUBLE"], ["lat", "DOUBLE"]]
    assert [tuple(row.values()) for row in made(table(tmp_path / "a.geojson", columns), tmp_path / "t")] == [
        (1, 1.5, 2.5),
        (2, None, None),
    ]


def test_what_is_prepared_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,a\n")
    spec = table(tmp_path / "a.csv", COLUMNS[:2])
    first = made(spec, tmp_path / "t")
    (tmp_path / "a.csv").unlink()
    assert made(spec, tmp_path / "t") == first


def test_a_source_without_the_column_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,nam\n1,a\n")
    with pytest.raises(SourceError, match="no column name in"):
        made(table(tmp_path / "a.csv", COLUMNS[:2]), tmp_path / "t")
    with pytest.raises(DamagedFileError, match=r"t/content\.arrow is gone"):
        list(read_table(tmp_path / "t"))


@pytest.mark.parametrize("file", ["content.arrow", "content.seal"])
def test_a_damaged_table_is_refused_and_named(tmp_path: Path, file: str) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,a\n2,b\n")
    directory = tmp_path / "tables" / "7"
    spec = table(tmp_path / "a.csv", COLUMNS[:2])
    made(spec, directory)
    whole = (directory / file).read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:3] + b"\xff" + whole[4:], b""):
        (directory / file).write_bytes(broken)
        with pytest.raises(DamagedFileError, match=r"tables/7/content.* is damaged"):
            list(read_table(directory))
    (directory / file).write_bytes(whole)
    assert len(list(read_table(directory))) == 1


def test_a_table_of_an_older_session_has_no_seal(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,a\n")
    first = made(table(tmp_path / "a.csv", COLUMNS[:2]), tmp_path / "t")
    (tmp_path / "t" / "content.seal").unlink()
    assert made(table(tmp_path / "a.csv", COLUMNS[:2]), tmp_path / "t") == first
