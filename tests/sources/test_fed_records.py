"""What is fed by hand: standard input means the same in whatever pieces it arrives."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pandas
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stqsh.errors import SourceError
from stqsh.sources import fed_records
from stqsh.sources.fed_records import ArrivingBytes, read_fed, read_table
from stqsh.spec.stream import ColumnSpec, InsertsSourceSpec, StreamSpec

COLUMNS = (("oid", "STRING"), ("lon", "DOUBLE"), ("lat", "DOUBLE"), ("ts", "TIMESTAMP"))
START = 1_700_000_000


def stream(**options: Any) -> StreamSpec:
    columns = tuple(ColumnSpec(*column) for column in COLUMNS)
    source = InsertsSourceSpec(None, options)
    return StreamSpec(name="s", columns=columns, key="oid", x="lon", y="lat", time="ts", source=source)


def fed(pieces: Sequence[bytes]) -> tuple[list[tuple[Any, ...]], list[tuple[int, str]]]:
    """Feed pieces, each by a read of its own; return the records, and line and reason of the letters."""
    waiting = iter(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fed_records, "os", SimpleNamespace(read=lambda *_: next(waiting, b"")))
        patch.setattr(fed_records, "select", SimpleNamespace(select=lambda *_: ([], [], [])))
        parts = list(read_fed(stream(), ArrivingBytes(0), None))
    records = [tuple(record.values()) for part in parts for record in part.records.to_pylist()]
    return records, [(letter.line, letter.reason) for part in parts for letter in part.dead]


def line(oid: str, ts: object = START, **more: object) -> str:
    return json.dumps({"oid": oid, "lon": 1, "lat": 2, "ts": ts, **more})


def feature(oid: str) -> dict[str, Any]:
    place = {"type": "Point", "coordinates": [1, 2]}
    return {"type": "Feature", "geometry": place, "properties": {"oid": oid, "ts": START}}


FEATURES = [feature("a"), feature("b")]
COLLECTION = {"type": "FeatureCollection", "name": "x" * 50, "features": FEATURES}
TEXTS = {
    "units of JSON": [line("a", "2023-11-14T22:13:20Z"), line("b", START * 1000), line("c", START * 10**6)],
    "units of CSV": ["oid,lon,lat,ts", "a,1,2,2023-11-14T22:13:20Z", f"b,1,2,{START}123", f"c,1,2,{START}"],
    "an object of another kind first": ['{"class":"VERSION"}', "", line("a"), "{", line("b")],
    "names in capitals": [line("a").upper(), line("b"), line("c").upper()],
    "blank lines before the header": ["", "", "lat,oid,lon,ts", f"2,a,1,{START}"],
    "a mark": ["\ufeffoid,lon,lat,ts", f"a,1,2,{START}"],
    "a mark before JSON": ["\ufeff" + line("a"), line("b")],
    "features": [json.dumps(each) for each in FEATURES],
    "a collection": [json.dumps(COLLECTION)],
    "a collection with a mark": ["\ufeff" + json.dumps(COLLECTION)],
    "a collection of many lines": [json.dumps(COLLECTION, indent=1)],
    "a sorted collection of many lines": [json.dumps(COLLECTION, indent=1, sort_keys=True)],
    "a damaged object first": ['{"oid":"a","lo', line("b")],
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
@example(cuts=[1]).via("a byte")
@given(cuts=st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_pieces_mean_what_the_whole_means(name: str, cuts: list[int]) -> None:
    whole = ("\n".join(TEXTS[name]) + "\n").encode()
    pieces, at = list[bytes](), 0
    while at < len(whole):
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(whole[at : at + size])
        at += size
    assert fed(pieces) == fed([whole])


@pytest.mark.parametrize(
    ("name", "oids"),
    [
        ("units of JSON", "abc"),
        ("units of CSV", "abc"),
        ("an object of another kind first", "ab"),
        ("names in capitals", "AC"),
        ("blank lines before the header", "a"),
        ("a mark", "a"),
        ("a mark before JSON", "ab"),
        ("features", "ab"),
        ("a collection", "ab"),
        ("a collection with a mark", "ab"),
        ("a collection of many lines", "ab"),
        ("a sorted collection of many lines", "ab"),
        ("a damaged object first", "b"),
    ],
)
def test_what_arrives_becomes_records(name: str, oids: str) -> None:
    records, _ = fed(["\n".join(TEXTS[name]).encode()])
    assert [oid for oid, *_ in records] == list(oids)
    assert {at.replace(microsecond=0).timestamp() for *_, at in records} == {START}


def record_at(time_us: int) -> str:
    """A line with a time in nanoseconds."""
    return json.dumps({"oid": "a", "lon": 1, "lat": 2, "ts": 1_000 * time_us}) + "\n"


def test_nanoseconds_of_a_file_keep_their_digits(tmp_path: Path) -> None:
    """Numbers that were read as DOUBLEs are up to 128 ns off, and an exact time may be too early."""
    times = [START * 1_000_000 + 997 * number for number in range(2_000)]
    file = tmp_path / "fed.jsonl"
    file.write_text("".join(map(record_at, times)))
    found = [at for part in read_fed(stream(), file, None) for at in part.records.column("ts").to_pylist()]
    assert [round(at.timestamp() * 1_000_000) for at in found] == times


def test_a_pipe_is_fed_like_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "fed.jsonl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(3 * record_at(START * 1_000_000),))
    writer.start()
    found = [at for part in read_fed(stream(), pipe, None) for at in part.records.column("ts").to_pylist()]
    writer.join()
    assert [at.timestamp() for at in found] == [START] * 3


def test_what_is_compressed_is_refused_at_once() -> None:
    """Its program may go on for long."""
    reader, writer = os.pipe()
    try:
        os.write(writer, b"\x1f\x8b\x08\x00")
        with pytest.raises(SourceError, match="standard input is compressed"):
            next(read_fed(stream(), ArrivingBytes(reader), None))
    finally:
        os.close(reader)
        os.close(writer)


def test_whole_numbers_beyond_64_bits_are_dead_letters_in_tables() -> None:
    rows = [
        {"oid": oid, "lon": 1.0, "lat": 2.0, "ts": START, "n": n}
        for oid, n in (("a", 5), ("b", 2**63), ("c", 2**64))
    ]
    spec = stream()
    spec = msgspec.structs.replace(spec, columns=(*spec.columns, ColumnSpec("n", "BIGINT")))
    for table in (rows, {name: [row[name] for row in rows] for name in rows[0]}, pandas.DataFrame(rows)):
        [part] = read_table(spec, table)
        assert part.records.column("n").to_pylist() == [5]
        assert [letter.reason for letter in part.dead] == [
            f"n: '{n}' is not a valid BIGINT" for n in (2**63, 2**64)
        ]
