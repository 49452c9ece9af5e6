"""Many damaged records: each is a record or a dead letter, whatever the format.

`STQSH_FUZZ=1000000 pytest -m slow tests/sources/test_fuzz_records.py` tries as many as it says.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.damaging import damaged
from support.streams import stream

from stqsh.sources.formats.pyarrow_typing import parquet
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.source_files import find_files, read_group

RECORDS = 200
HEAD = b"oid,lon,lat,ts,n\n"
CELLS = ["", "nan", "inf", "1e400", "-0", "91", "181", "9" * 40, "'", '"', "x\x00y", "\u202e", "null", "true"]
CELLS += ["2020-02-30", "9999-12-31T23:59:59.999999Z", "1700000000000", "0x10", "1_000", " 1 ", "[]", "{}"]


def count_rows(text: bytes) -> int:
    """Count the rows of a CSV file; a quote that 32 lines do not close ends with its line."""
    rows, start = 0, 0
    while start < len(text):
        end = _row_end(text, start)
        rows += bool(text[start:end].strip(b"\r\n"))
        start = end
    return rows


def _row_end(text: bytes, start: int) -> int:
    """Return where the row that begins at `start` ends, behind its line end."""
    place = start
    while place < len(text) and text[place : place + 1] not in (b"\n", b"\r"):
        if text[place : place + 1] == b'"' and (place == start or text[place - 1 : place] == b","):
            closed = re.compile(rb'"[^"]*(?:""[^"]*)*"(?!")').match(text, place)
            lines = re.findall(rb"\r\n|\r|\n", closed.group() if closed else b"")
            if closed is None or len(lines) >= 32:
                break
            place = closed.end()
        else:
            place += 1
    found = re.compile(rb"\r\n|\r|\n").search(text, place)
    return found.end() if found else len(text)


def value(usual: object, draw: random.Random) -> object:
    return draw.choice(CELLS) if draw.random() < 0.02 else usual


def csv_file(draw: random.Random) -> tuple[bytes, int]:
    lines = [",".join(str(value(cell, draw)) for cell in (f"o{i}", i % 90, 2, i, i)) for i in range(RECORDS)]
    body = damaged("\n".join(lines).encode(), draw)
    return HEAD + body, count_rows(body)


def json_file(draw: random.Random) -> tuple[bytes, int]:
    cells = [[value(cell, draw) for cell in (1, 2, i, i)] for i in range(RECORDS)]
    lines = [
        f'{{"oid":"o{i}","lon":{lon},"lat":{lat},"ts":{ts},"n":{n}}}'
        for i, (lon, lat, ts, n) in enumerate(cells)
    ]
    return _with_first(lines, draw)


def geojson_file(draw: random.Random) -> tuple[bytes, int]:
    cells = [[value(cell, draw) for cell in (1, 2, i)] for i in range(RECORDS)]
    lines = [
        f'{{"type":"Feature","geometry":{{"type":"Point","coordinates":[{lon},{lat}]}},'
        f'"properties":{{"oid":"o{i}","ts":{ts}}}}}'
        for i, (lon, lat, ts) in enumerate(cells)
    ]
    return _with_first(lines, draw)


def _with_first(lines: list[str], draw: random.Random) -> tuple[bytes, int]:
    """Keep one good line first, from which the names are taken."""
    first = lines[0].encode() if "nan" not in lines[0] else b""
    body = damaged("\n".join(lines[1:]).encode(), draw)
    text = first + b"\n" + body
    return text, sum(bool(line.strip()) for line in text.split(b"\n"))


def parquet_file(draw: random.Random) -> tuple[bytes, int]:
    numbers = [float("nan"), float("inf"), -1e300, None, 91.0]
    column = lambda: [draw.choice(numbers) if draw.random() < 0.05 else 1.5 for _ in range(RECORDS)]  # noqa: E731
    texts = [str(value(f"o{i}", draw)) for i in range(RECORDS)]
    times = pa.array([draw.randrange(-(2**63), 2**63) for _ in range(RECORDS)])
    times = draw.choice(
        [times, times.cast(pa.timestamp(draw.choice(["ms", "us", "ns"]))), pa.array(column())]
    )
    table = {"oid": texts, "lon": column(), "lat": column(), "ts": times, "n": column()}
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(table), sink)
    text = sink.getvalue().to_pybytes()
    if draw.random() < 0.1:
        return damaged(text, draw), -1
    return text, RECORDS


FORMATS: dict[str, Callable[[random.Random], tuple[bytes, int]]] = {
    "csv": csv_file,
    "jsonl": json_file,
    "geojson": geojson_file,
    "parquet": parquet_file,
}


def try_records(count: int, name: str, folder: Path) -> None:
    draw, path = random.Random(14), folder / f"a.{name}"
    for number in range(count // RECORDS):
        content, expected = FORMATS[name](draw)
        path.write_bytes(content)
        spec = stream(path)
        try:
            parts = list(read_group(find_files(spec.source), spec.source, RecordSchema.of(spec)))
        except Exception as error:
            path.rename(kept := path.with_stem("failed"))
            raise AssertionError(f"file {number}, {kept}, ends in {type(error).__name__}") from error
        good, dead = sum(len(part.places) for part in parts), [each for part in parts for each in part.dead]
        if expected < 0 or any(letter.line == 0 for letter in dead):
            continue  # the file cannot be read, and one dead letter says so
        assert good + len(dead) == expected, f"file {number} of {name}"


@pytest.mark.parametrize("name", FORMATS)
def test_some_damaged_records(name: str, tmp_path: Path) -> None:
    try_records(8_000, name, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(0 if "STQSH_FUZZ" in os.environ else 300)
@pytest.mark.parametrize("name", FORMATS)
def test_many_damaged_records(name: str, tmp_path: Path) -> None:
    try_records(int(os.environ.get("STQSH_FUZZ", "50000")), name, tmp_path)
