"""Records by hand: any number of writers, each segment whole or not at all, each place read once."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from stqsh import fs
from stqsh.sources.dead_letters import DeadLetter
from stqsh.sources.live import inserted_records
from stqsh.sources.live.inserted_records import InsertedSource, RecordAppender
from stqsh.sources.live.protocol import MessageRange, write_problem
from stqsh.sources.live.record_spool import PART, RecordReader, SpoolSegment, segments, trim


def segment(*keys: str, dead: int = 0) -> SpoolSegment:
    letters = [DeadLetter("a.csv", line, "wrong", "x") for line in range(dead)]
    return SpoolSegment(
        pa.RecordBatch.from_pydict({"oid": list(keys)}, pa.schema({"oid": pa.string()})), letters
    )


def read(spool: Path, start: int, stop: int) -> list[str]:
    found = RecordReader(spool).read(MessageRange(PART, start, stop))
    return [oid for part in found for oid in part.records.column("oid").to_pylist()]


def test_what_is_appended_is_read_in_order_and_trimmed(tmp_path: Path) -> None:
    spool, source = tmp_path / "spool", InsertedSource(tmp_path / "spool")
    assert source.state().ends == {PART: 0}
    RecordAppender(spool).append(segment("a", "b", dead=2))
    RecordAppender(spool).append(segment("c"))
    assert source.state().ends == {PART: 5}
    assert read(spool, 0, 5) == ["a", "b", "c"]
    assert read(spool, 1, 4) == ["b", "c"]
    [first] = RecordReader(spool).read(MessageRange(PART, 2, 3))
    assert len(first.dead) == 2 and not first.records.num_rows
    trim(spool, 3)
    assert [place for place, _ in segments(spool)] == [3]
    RecordAppender(spool).append(segment("d"))
    assert read(spool, 3, 7) == ["c", "d"]


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    appender = RecordAppender(spool)
    threads = [
        threading.Thread(target=lambda n=n: [appender.append(segment(f"{n}-{k}")) for k in range(20)])  # type: ignore[misc]
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end = InsertedSource(spool).state().ends[PART]
    found = read(spool, 0, end)
    assert sorted(found) == sorted(f"{n}-{k}" for n in range(4) for k in range(20))
    for n in range(4):  # each writer's own order stays
        assert [key for key in found if key.startswith(f"{n}-")] == [f"{n}-{k}" for k in range(20)]


def test_a_writer_that_dies_before_its_end_is_known_has_written_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = tmp_path / "spool"
    RecordAppender(spool).append(segment("a"))
    with monkeypatch.context() as patch:
        patch.setattr(inserted_records, "atomic_write", None)
        with pytest.raises(TypeError):
            RecordAppender(spool).append(segment("lost", "lost too"))
    assert InsertedSource(spool).state().ends == {PART: 2}
    RecordAppender(spool).append(segment("b"))
    assert read(spool, 0, InsertedSource(spool).state().ends[PART]) == ["a", "b"]


def test_a_durable_append_is_forced_to_the_disk_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[str] = []
    monkeypatch.setattr(fs, "force", lambda path: forced.append(path.name.lstrip(".").partition(".")[0]))
    RecordAppender(tmp_path / "spool", durable=True).append(segment("a"))
    assert forced == ["000000000000000", "spool", "end", "spool"]
    forced.clear()
    RecordAppender(tmp_path / "spool", durable=False).append(segment("b"))
    assert forced == []


def test_a_problem_is_told_and_taken_back(tmp_path: Path) -> None:
    source = InsertedSource(tmp_path)
    write_problem(tmp_path, "waiting for port 80")
    assert source.state().message == "waiting for port 80"
    write_problem(tmp_path, "")
    assert source.state().message == ""
