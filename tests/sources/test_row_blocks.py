"""Blocks: wherever a file is cut, the records and the dead letters are the same."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.streams import COLUMNS, stream

from stqsh.sources.formats import row_blocks
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.formats.row_blocks import PLAIN, Quoting, count_lines, find_rows, line_ends
from stqsh.sources.source_files import find_files, read_group

QUOTED = Quoting(ord(","), ord('"'))
TEXTS = st.text(alphabet='a," \n\r', max_size=40).map(str.encode)


@given(TEXTS)
def test_lines_are_counted_as_python_splits_them(text) -> None:
    expected = len((text + b"x").splitlines()) - 1
    assert count_lines(text) == expected
    assert len(line_ends(np.frombuffer(text, np.uint8))) == expected


@given(TEXTS)
def test_rows_without_quotes_are_the_lines_that_are_not_empty(text) -> None:
    assert len(find_rows(text, PLAIN)) == sum(bool(line) for line in text.splitlines())


@given(TEXTS)
def test_rows_with_quotes_are_those_of_the_csv_module(text) -> None:
    assert len(find_rows(text, QUOTED, is_whole=False)) == len(rows_of(text.decode()))
    assert len(find_rows(text, QUOTED)) == count_rows(text.decode())


def rows_of(text: str) -> list[list[str]]:
    return [row for row in csv.reader(io.StringIO(text, newline="")) if row]


def count_rows(text: str) -> int:
    """Count the rows; one whose quote is never closed ends with the line in which the quote opens."""
    rows = rows_of(text)
    is_open = len(rows_of(f"{text}\nEND")) == len(rows) > 0
    within = count_lines(rows[-1][-1].encode()) if is_open else 0
    if not within:
        return len(rows)
    behind = text.encode().splitlines(keepends=True)[count_lines(text.encode()) - within + 1 :]
    return len(rows) + count_rows(b"".join(behind).decode())


FIELDS = st.one_of(
    st.sampled_from(
        ["a", "b", "1", "2.5", "91", "", "x", '"q""q"', '"two\nlines"', '"a,b"', '"open', "2020-01-01", "nan"]
    ),
    st.text(alphabet="a1é ", max_size=3),
)
GOOD_ROW = st.builds(lambda n: f"o{n},{n % 90},{n % 90},{n},{n}", st.integers(0, 999))
ROW = st.one_of(GOOD_ROW, st.lists(FIELDS, max_size=6).map(",".join))
ROWS = st.lists(ROW, max_size=30).flatmap(
    lambda rows: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(rows))
)


def records(path: Path, block_bytes: int) -> tuple[list, list]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_blocks, "BLOCK_BYTES", block_bytes)
        spec = stream(path)
        layout = RecordSchema.of(spec)
        parts = list(read_group(find_files(spec.source), spec.source, layout))
    rows = [tuple(map(str, row)) for part in parts for row in zip(*part.columns, strict=True)]
    return rows, [letter for part in parts for letter in part.dead]


@given(ROWS, st.integers(1, 80))
def test_the_same_wherever_blocks_end(tmp_path_factory, body, size) -> None:
    path = tmp_path_factory.mktemp("blocks") / "a.csv"
    path.write_text(",".join(name for name, _ in COLUMNS) + "\n" + body, newline="")
    assert records(path, size) == records(path, 1 << 20)


@given(ROWS)
def test_every_row_is_a_record_or_a_dead_letter(tmp_path_factory, body) -> None:
    path = tmp_path_factory.mktemp("blocks") / "a.csv"
    path.write_text("oid,lon,lat,ts,n\n" + body, newline="")
    good, dead = records(path, 1 << 20)
    assert len(good) + len(dead) == count_rows(body)
    assert all(len(row) == len(COLUMNS) for row in good)


@pytest.mark.parametrize("size", [1, 30, 1 << 20])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_byte_order_mark_counts_only_at_the_beginning_of_a_file(load, monkeypatch, ending, size) -> None:
    """Arrow would drop one at the beginning of each block."""
    monkeypatch.setattr(row_blocks, "BLOCK_BYTES", size)
    mark, lines = "\ufeff", [f"{oid},1,2,3,4" for oid in "abc"]
    if ending == "jsonl":
        lines = [f'{{"oid":"{oid}","lon":1,"lat":2,"ts":3,"n":4}}' for oid in "abc"]
    text = mark + "\n".join(
        [*(["oid,lon,lat,ts,n"] if ending == "csv" else []), lines[0], mark + lines[1], lines[2]]
    )
    result = load({f"a.{ending}": text})
    assert sorted(result.column("oid")) == (["a", "c", mark + "b"] if ending == "csv" else ["a", "c"])
    assert [line for _, line, *_ in result.dead] == ([] if ending == "csv" else [2])
