"""A directory's files are taken once, whole, in the order of their names, through kills."""

from __future__ import annotations

import errno
import gzip
import os
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.sources.formats.pyarrow_typing import parquet
from stqsh.sources.live import directory_spool
from stqsh.sources.live.directory_spool import QUIET_S, DirectoryLiveSource, DirectoryTaker
from stqsh.sources.live.line_spool import SPOOL
from stqsh.sources.live.protocol import MessageRange, RecordsGoneError
from stqsh.sources.live.record_spool import PART, RecordReader, segments, trim
from stqsh.sources.live.registry import spool_parts
from stqsh.spec.stream import ColumnSpec, DirectorySourceSpec, StreamSpec

_COLUMNS = (("oid", "STRING"), ("lon", "DOUBLE"), ("lat", "DOUBLE"), ("ts", "TIMESTAMP"))


def stream(folder: Path) -> StreamSpec:
    columns = tuple(ColumnSpec(name, kind) for name, kind in _COLUMNS)
    source = DirectorySourceSpec(str(folder))
    return StreamSpec(name="s", columns=columns, key="oid", x="lon", y="lat", time="ts", source=source)


def put(folder: Path, name: str, *objects: str) -> None:
    """Write a file as of long ago, so that it counts as complete; an object `!` makes a bad row."""
    rows = ["oid,lon,lat,ts", *(f"{oid},{'east' if oid == '!' else 10},50,1700000000000" for oid in objects)]
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(rows) + "\n")
    os.utime(folder / name, (1, 1))


def read(spool: Path, start: int, stop: int) -> tuple[list[str], list[str]]:
    """Return the objects of some places, and the files of the dead letters."""
    found = list(RecordReader(spool).read(MessageRange(PART, start, stop)))
    objects = [oid for part in found for oid in part.records.column("oid").to_pylist()]
    return objects, [Path(letter.file).name for part in found for letter in part.dead]


def test_files_become_records_and_letters(tmp_path: Path) -> None:
    incoming, spool = tmp_path / "in", tmp_path / "spool"
    taker, source = (
        DirectoryTaker(stream(incoming), spool),
        DirectoryLiveSource(stream(incoming).source, spool),
    )
    assert "waiting" in source.state().message
    put(incoming, "b.csv", "3", "!", "4")
    put(incoming, "a.csv", "1", "2")
    (incoming / "c.csv").write_text("oid,lon\n")  # still young
    put(incoming, ".d.csv", "9")
    put(incoming, "e.csv.tmp", "9")
    assert taker.look() == 2
    assert taker.look() == 0
    put(incoming, "notes.txt2")
    os.utime(incoming / "c.csv", (1, 1))
    assert taker.look() == 2
    state = source.state()
    assert (state.ends, state.message) == ({PART: 3 + 3 + 1 + 1}, "")
    assert read(spool, 0, 8) == (["1", "2", "3", "4"], ["b.csv", "c.csv", "notes.txt2"])
    [first, *_] = RecordReader(spool).read(MessageRange(PART, 0, 1))
    assert first.records.column("ts")[0].as_py().year == 2023


@pytest.mark.parametrize(("stop", "left"), [(2, 1), (3, 1), (4, 0), (6, 0)])
def test_a_spool_that_is_made_of_its_parts_goes_on_with_the_files_after_them(
    tmp_path: Path, stop: int, left: int
) -> None:
    incoming, other = tmp_path / "in", tmp_path / "other"
    put(incoming, "a.csv", "1", "2")
    put(incoming, "b.csv", "3", "4")
    assert DirectoryTaker(stream(incoming), tmp_path / SPOOL).look() == 2
    other.mkdir()
    for name, content in spool_parts(stream(incoming), tmp_path, 0, stop):
        (other / name).write_bytes(content)
    assert DirectoryTaker(stream(incoming), other).look() == left
    assert DirectoryLiveSource(stream(incoming).source, other).state().ends == {PART: 6}
    assert read(other, 0, 6) == (["1", "2", "3", "4"], [])


@pytest.mark.parametrize("by_s", [-3600, 3600])
def test_a_file_that_is_being_written_is_not_taken_when_the_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_s: int
) -> None:
    incoming = tmp_path / "in"
    taker = DirectoryTaker(stream(incoming), tmp_path / "spool")
    wall_s, steady_s = time.time(), time.monotonic()
    monkeypatch.setattr(time, "time", lambda: wall_s)
    monkeypatch.setattr(time, "monotonic", lambda: steady_s)
    put(incoming, "a.csv", "1")
    os.utime(incoming / "a.csv", (wall_s, wall_s))
    assert taker.look() == 0
    wall_s += by_s
    put(incoming, "b.csv", "1")
    os.utime(incoming / "b.csv", (wall_s - by_s, wall_s - by_s))
    assert taker.look() == 0, "neither is old: the clock was set"
    wall_s, steady_s = wall_s + QUIET_S, steady_s + QUIET_S
    assert taker.look() == 2
    put(incoming, "c.csv", "2")
    wall_s, steady_s = wall_s + 2 * QUIET_S, steady_s + 2 * QUIET_S
    assert taker.look() == 1, "it is old"


@given(st.lists(st.lists(st.sampled_from("ab!"), max_size=4), min_size=1, max_size=4), st.data())
def test_every_cut_reads_the_same_once(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[str]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("directory")
    incoming, spool = folder / "in", folder / "spool"
    for number, objects in enumerate(files):
        put(incoming, f"{number}.csv", *objects)
        DirectoryTaker(stream(incoming), spool).look()  # each time another process
    end = DirectoryLiveSource(stream(incoming).source, spool).state().ends[PART]
    cuts = sorted({0, end, *data.draw(st.lists(st.integers(0, end), max_size=4))})
    objects, letters = list[str](), list[str]()
    for start, stop in pairwise(cuts):
        some, dead = read(spool, start, stop)
        objects += some
        letters += dead
        trim(spool, start)
    assert objects == [oid for some in files for oid in some if oid != "!"]
    assert letters == [f"{n}.csv" for n, some in enumerate(files) for oid in some if oid == "!"]


def put_odd(folder: Path) -> int:
    """Write files of which each is unusual in its own way; return how many."""
    folder.mkdir()
    head = "oid,lon,lat,ts\n"
    put(folder, "b.csv", "1", "!")
    (folder / "b.csv").rename(folder / os.fsdecode(b"b\xfc.csv"))
    (folder / os.fsdecode(b"c\xfc.csv.gz")).write_bytes(gzip.compress(f"{head}2,1,2,1700000000\n".encode()))
    (folder / "d.csv").write_bytes(b"x" * 200_000)
    (folder / "d.csv.gz").write_bytes(gzip.compress(b"x" * 200_000))
    latin = pa.array([b"3", b"\xff\xfe"]).view(pa.string())
    table = pa.table({"oid": latin, "lon": [1.0, 1.0], "lat": [2.0, 2.0], "ts": [1_700_000_000] * 2})
    parquet.write_table(table, folder / "e.parquet")
    parquet.write_table(table, folder / "f.parquet")
    (folder / "f.parquet").rename(folder / os.fsdecode(b"f\xfc.parquet"))
    twice = pa.table([*table.columns, table["oid"]], [*table.column_names, "oid"])
    parquet.write_table(twice, folder / "g.parquet")
    lists = table.set_column(0, "oid", pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), latin))
    parquet.write_table(lists, folder / "h.parquet")
    for file in folder.iterdir():
        os.utime(file, (1, 1))
    return len(list(folder.iterdir()))


def test_no_unusual_file_stops_the_directory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    incoming, spool = tmp_path / "in", tmp_path / "spool"
    count = put_odd(incoming)
    put(incoming, "z.csv", "9")
    assert DirectoryTaker(stream(incoming), spool).look() == count + 1
    again = DirectoryTaker(stream(incoming), spool)
    assert again.look() == 0, "the ledger knows their names"
    end = DirectoryLiveSource(stream(incoming).source, spool).state().ends[PART]
    letters = [
        letter for part in RecordReader(spool).read(MessageRange(PART, 0, end)) for letter in part.dead
    ]
    assert read(spool, 0, end)[0] == ["1", "2", "3", "3", "9"]
    assert [(Path(letter.file).name, letter.line) for letter in letters] == [
        (r"b\xfc.csv", 3),
        ("d.csv", 0),
        ("d.csv.gz", 0),
        ("e.parquet", 2),
        (r"f\xfc.parquet", 2),
        ("g.parquet", 0),
        ("h.parquet", 1),
        ("h.parquet", 2),
    ]
    assert "has no header: field larger than field limit" in letters[1].reason
    assert letters[3].reason == "oid: not valid UTF-8"
    assert "has several columns oid" in letters[5].reason
    assert not caplog.records, "each of them is foreseen"


def test_names_with_a_backslash_are_those_of_older_ledgers(tmp_path: Path) -> None:
    incoming, spool = tmp_path / "in", tmp_path / "spool"
    put(incoming, r"a\b.csv", "1")
    assert DirectoryTaker(stream(incoming), spool).look() == 1
    assert msgspec.json.decode((spool / "taken.jsonl").read_bytes())["name"] == r"a\b.csv"
    assert DirectoryTaker(stream(incoming), spool).look() == 0


def test_a_file_that_breaks_its_reader_is_a_dead_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    incoming, spool = tmp_path / "in", tmp_path / "spool"
    put(incoming, "a.csv", "1")
    taker = DirectoryTaker(stream(incoming), spool)

    def broken(*_: object, **__: object) -> None:
        raise KeyError("row\n7")

    monkeypatch.setattr(directory_spool, "read_group", broken)
    assert taker.look() == 1
    monkeypatch.undo()
    put(incoming, "b.csv", "2")
    assert taker.look() == 1
    assert read(spool, 0, 3) == (["2"], ["a.csv"])
    assert "KeyError" in caplog.text


def test_a_full_disk_is_no_fault_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    incoming, spool = tmp_path / "in", tmp_path / "spool"
    put(incoming, "a.csv", "1")
    taker = DirectoryTaker(stream(incoming), spool)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(directory_spool, "write_segment", full)
    with pytest.raises(OSError, match="No space"):
        taker.look()
    monkeypatch.undo()
    assert DirectoryTaker(stream(incoming), spool).look() == 1
    assert read(spool, 0, 2) == (["1"], [])


def test_a_kill_while_a_file_is_taken_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    incoming, spool = tmp_path / "in", tmp_path / "spool"
    put(incoming, "a.csv", "1")
    DirectoryTaker(stream(incoming), spool).look()
    put(incoming, "b.csv", "2", "3")
    taker = DirectoryTaker(stream(incoming), spool)
    monkeypatch.setattr(directory_spool, "TakenFile", None)  # it dies before the ledger knows
    with pytest.raises(TypeError):
        taker.look()
    monkeypatch.undo()
    assert [first for first, _ in segments(spool)] == [0, 2]
    put(incoming, "b.csv", "4")
    with (spool / "taken.jsonl").open("ab") as ledger:
        ledger.write(b'{"name":"b.csv","en')
    again = DirectoryTaker(stream(incoming), spool)
    assert [first for first, _ in segments(spool)] == [0]
    again.look()
    assert read(spool, 0, 4) == (["1", "4"], [])
    trim(spool, 2)
    with pytest.raises(RecordsGoneError):
        read(spool, 0, 4)
