"""A spool keeps whole lines, through kills, until they are taken for good."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.spools import write

from stqsh.fs import DURABILITY
from stqsh.sources.live import line_spool
from stqsh.sources.live.line_spool import PART, SpoolReader, SpoolSource, SpoolWriter, segments, trim
from stqsh.sources.live.protocol import MessageRange, RecordsGoneError


def read(folder: Path, start: int, stop: int) -> list[bytes | None]:
    reader = SpoolReader(folder, "stdin")
    return [value for part in reader.read(MessageRange(PART, start, stop)) for value in part.values]


@given(st.lists(st.binary(max_size=20)), st.integers(1, 30))
def test_lines_come_back_however_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], size: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    writer, source = SpoolWriter(folder, segment_bytes=size), SpoolSource(folder)
    for piece in pieces:
        write(writer, piece)
        source.state()
    writer.finish()
    text = b"".join(pieces)
    lines = text.removesuffix(b"\n").split(b"\n") if text else []
    state = source.state()
    assert (state.ends, state.ended) == ({PART: len(lines)}, True)
    assert read(folder, 0, len(lines)) == lines
    assert read(folder, len(lines) // 2, len(lines)) == lines[len(lines) // 2 :]


def test_a_killed_writer_leaves_whole_lines(tmp_path: Path) -> None:
    write(SpoolWriter(tmp_path), b"a\nb\n")
    [(_, path)] = segments(tmp_path)
    with path.open("ab") as file:
        file.write(b"hal")
    assert SpoolSource(tmp_path).state().ends == {PART: 2}
    again = SpoolWriter(tmp_path)
    write(again, b"c\n")
    assert SpoolSource(tmp_path).state().ends == {PART: 3}
    assert read(tmp_path, 0, 3) == [b"a", b"b", b"c"]


def test_segments_that_are_taken_go_and_are_missed_if_they_are_wanted(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, segment_bytes=1)
    for line in (b"a\n", b"b\n", b"c\n"):
        write(writer, line)
    trim(tmp_path, 2)
    assert read(tmp_path, 2, 3) == [b"c"]
    assert SpoolSource(tmp_path).state().first == {PART: 2}
    with pytest.raises(RecordsGoneError, match="lines 2 to 3 of stdin"):
        read(tmp_path, 1, 3)


def test_lines_know_the_first_line_of_their_text_as_long_as_they_are_there(tmp_path: Path) -> None:
    def first_lines(start: int, stop: int) -> list[tuple[bytes, list[bytes | None]]]:
        wanted = MessageRange(PART, start, stop)
        return [(part.first_line, part.values) for part in SpoolReader(tmp_path, "socket").read(wanted)]

    writer = SpoolWriter(tmp_path, segment_bytes=4)
    for piece in (b"he", b"ad\na\nb\n", b"c\n"):
        write(writer, piece)
    writer.begin_text()
    write(writer, b"other\nd\n")
    again = SpoolWriter(tmp_path)
    write(again, b"third\ne\n")
    old, other, third = (b"head", [b"c"]), (b"other", [b"other", b"d"]), (b"third", [b"third", b"e"])
    assert first_lines(0, 8) == [(b"head", [b"head", b"a", b"b"]), old, other, third]
    trim(tmp_path, 3)
    assert first_lines(3, 8) == [old, other, third]
    trim(tmp_path, 6)
    assert first_lines(6, 8) == [third]
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "000000000000006.first",
        "000000000000006.lines",
    ]


def test_nothing_is_lost_or_moved_where_the_disk_takes_only_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, source = SpoolWriter(tmp_path, segment_bytes=8), SpoolSource(tmp_path)
    write(writer, b"one\n")
    room = [9]
    write_some = os.write

    def written(file: int, data: memoryview) -> int:
        if not room[0]:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        count = write_some(file, data[: room[0]])
        room[0] -= count
        return count

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", written)
        writer.add(b"two\nthree\nfo")
        assert not writer.keep()
        assert source.state().ends == {PART: 2}
        assert source.state().message == "lines cannot be kept: disk quota exceeded; it is tried again"
        writer.add(b"ur\n")
        writer.begin_text()
        writer.add(b"five\n")
        assert not writer.keep()
    assert writer.keep(is_last=True)
    state = source.state()
    assert (state.ends, state.ended, state.message) == ({PART: 5}, True, "")
    assert read(tmp_path, 0, 5) == [b"one", b"two", b"three", b"four", b"five"]


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, source = SpoolWriter(tmp_path), SpoolSource(tmp_path)
    writer.add(b"one\n")
    with monkeypatch.context() as full:
        full.setattr(line_spool, "is_full", lambda _: True)
        assert not writer.keep()
        assert source.state().message.startswith("lines cannot be kept: no space left on device")
    assert writer.keep()
    assert (source.state().ends, source.state().message) == ({PART: 1}, "")


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, line_bytes=5000)
    for _ in range(1000):
        write(writer, b"0123456789" * 10)
    write(writer, b"its end\nnext\n")
    cut, following = read(tmp_path, 0, 2)
    assert cut == (b"0123456789" * 103)[:1024] + b"\xff (the line is too long)"
    assert following == b"next"


def test_lines_are_on_the_disk_before_an_offset_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[str] = []
    monkeypatch.setenv(DURABILITY, "disk")
    monkeypatch.setattr(
        os, "fsync", lambda file: forced.append(str(Path(f"/proc/self/fd/{file}").readlink()))
    )
    source = SpoolSource(tmp_path)
    writer = SpoolWriter(tmp_path)
    write(writer, b"one\n")
    forced.clear()
    assert source.state().ends == {PART: 1}
    [(_, segment)] = segments(tmp_path)
    assert forced == [str(segment), str(tmp_path)]
    source.state()
    assert len(forced) == 2, "nothing has come since"
