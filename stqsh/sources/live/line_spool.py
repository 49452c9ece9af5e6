"""A spool of lines: input that cannot be read again, kept in the session until the slots have stored it.

A directory contains segments `N.lines`, where N is the number of the first line; only whole lines are ever
written. The file `end` contains the total number of lines once the input has ended. The client writes what it
reads from its standard input, and the engine writes what a socket receives. A line is in the spool before the
engine sees it, and its segment is deleted once the batches that took its lines are committed.

Lines belong to texts: standard input is one text, and so is each connection of a socket. A text begins a new
segment, and `N.first` contains a copy of its first line, which may be a header and is needed while lines of
the text follow.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from stqsh.fs import atomic_write, force, is_durable
from stqsh.sources.live.decoding import Messages
from stqsh.sources.live.protocol import (
    MessageRange,
    Position,
    RecordsGoneError,
    SourceState,
    read_problem,
    write_problem,
)
from stqsh.storage.disk_space import is_full

PART = "lines"
"""The name of a spool's only part in positions."""
END = "end"
WHOLE = "whole"
"""The file of a part of a spool, of lines or records, in a session's storage that is written last."""
SPOOL = "spool"
"""The folder of a stream that holds its spool."""
_ENDING = ".lines"
_FIRST_ENDING = ".first"
_SEGMENT_BYTES = 8 << 20
_LINE_BYTES, _KEPT_BYTES = 64 << 20, 1 << 10
"""A line longer than the first size is cut to the second, so that a sender cannot exhaust the memory."""
_TOO_LONG = b"\xff (the line is too long)"
"""The bytes appended to a cut line; they are not valid text, so the line becomes a dead letter."""


def segments(folder: Path) -> list[tuple[int, Path]]:
    """Return the segments of a spool with the numbers of their first lines, in order."""
    return _numbered(folder, _ENDING)


def _numbered(folder: Path, ending: str) -> list[tuple[int, Path]]:
    """Return the files of a spool whose names are line numbers, with these numbers, in order."""
    found = folder.glob(f"*{ending}")
    return sorted((int(path.stem), path) for path in found if path.stem.isdigit())


class LineBegun:
    """A line whose end has not arrived yet.

    Attributes:
        size: how many of its bytes are kept.
    """

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[bytes] = []
        self._is_cut = False

    def add(self, data: bytes, most: int) -> None:
        """Add bytes; if the line becomes longer than `most`, keep only its beginning, and a mark."""
        if self._is_cut or not data:
            return
        self._pieces.append(data)
        self.size += len(data)
        if self.size > most:
            self._pieces = [b"".join(self._pieces)[:_KEPT_BYTES], _TOO_LONG]
            self.size, self._is_cut = sum(map(len, self._pieces)), True

    def end(self, data: bytes) -> bytes:
        """Return the kept bytes joined with `data`, which begins with the line's rest; begin a new line."""
        if self._is_cut:
            _, mark, after = data.partition(b"\n")
            data = mark + after
        pieces, self._pieces, self.size, self._is_cut = self._pieces, [], 0, False
        return b"".join([*pieces, data])


class SpoolWriter:
    """Appends lines to a spool; only one process may write at a time.

    Added lines are kept in memory until they are written, even if `flush` fails.

    Args:
        folder: the spool's folder.
        segment_bytes: the size from which a segment is not continued.
        line_bytes: the maximum length; a longer line becomes a dead letter with only its beginning.
    """

    def __init__(
        self, folder: Path, segment_bytes: int = _SEGMENT_BYTES, line_bytes: int = _LINE_BYTES
    ) -> None:
        self._folder, self._segment_bytes, self._line_bytes = folder, segment_bytes, line_bytes
        self._line = LineBegun()
        self._begins = True
        self._waiting: deque[tuple[bool, bytes]] = deque()
        self._unwritten = memoryview(b"")
        self._file, self._is_late = -1, False
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / END).unlink(missing_ok=True)
        self.lines = self._repair()
        self._open()

    def begin_text(self) -> None:
        """Treat the next line as the first line of a text."""
        self._begins = True

    def add(self, data: bytes) -> None:
        """Add bytes; a line becomes visible with the next `flush` after its end has arrived."""
        whole, mark, rest = data.rpartition(b"\n")
        if mark:
            self._wait(self._line.end(whole) + mark)
        self._line.add(rest, self._line_bytes)

    def end_line(self, mark: bytes = b"") -> None:
        """End the current line, if any, with `mark`."""
        if self._line.size:
            self._wait(self._line.end(b"") + mark + b"\n")

    def keep(self, *, is_last: bool = False) -> bool:
        """Flush, or finish if this is the end; return False and record the problem if the disk is full.

        If the folder is gone because the stream was dropped, further input is discarded.
        """
        try:
            if is_full(self._folder):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if is_last:
                self.finish()
            else:
                self.flush()
        except FileNotFoundError:
            self._waiting.clear()
            self._unwritten = memoryview(b"")
        except OSError as problem:
            reason = (problem.strerror or str(problem)).lower()
            write_problem(self._folder, f"lines cannot be kept: {reason}; it is tried again")
            self._is_late = True
            return False
        if self._is_late:
            write_problem(self._folder, "")
            self._is_late = False
        return True

    def finish(self) -> None:
        """Append the last line, even if its end is missing, and record that the input has ended.

        Raises:
            OSError: the disk is full; another call tries again.
        """
        self.end_line()
        self.flush()
        atomic_write(self._folder / END, str(self.lines).encode())
        os.close(self._file)

    def flush(self) -> None:
        """Write the lines that are not on disk yet.

        Raises:
            OSError: the disk is full.
        """
        while self._unwritten or self._waiting:
            if not self._unwritten:
                self._place(*self._waiting[0])
                self._unwritten = memoryview(self._waiting.popleft()[1])
            # A full disk may accept a part of the lines; the rest has to follow it.
            count = os.write(self._file, self._unwritten)
            self._size += count
            self.lines += bytes(self._unwritten[:count]).count(b"\n")
            self._unwritten = self._unwritten[count:]

    def _wait(self, text: bytes) -> None:
        self._waiting.append((self._begins, text))
        self._begins = False

    def _place(self, begins: bool, text: bytes) -> None:
        """Begin a new segment if needed, and store a copy of the first line of a text."""
        if self._size >= self._segment_bytes or (begins and self._size):
            self._open()
        if begins:
            first_line = text[: text.index(b"\n")]
            atomic_write(self._folder / f"{self.lines:015d}{_FIRST_ENDING}", first_line)

    def _open(self) -> None:
        path, before = self._folder / f"{self.lines:015d}{_ENDING}", self._file
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = 0
        if before >= 0:
            os.close(before)

    def _repair(self) -> int:
        """Cut off an incomplete line left by a killed writer, and return the number of lines."""
        found = segments(self._folder)
        if not found:
            return 0
        first, path = found[-1]
        content = path.read_bytes()
        end = content.rfind(b"\n") + 1
        if end < len(content):
            os.truncate(path, end)
        return first + content.count(b"\n", 0, end)


class SpoolSource:
    """A spool in the planner: counts the lines that have arrived."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segment, self._bytes, self._lines = -1, 0, 0

    def state(self) -> SourceState:
        """Return the number of lines; they are as safe as the session's durability requires."""
        ended = (self._folder / END).exists()  # must be checked before the lines are counted
        found = segments(self._folder)
        for first, path in found:
            if first > self._segment:
                self._segment, self._bytes, self._lines = first, 0, first
            if first == self._segment:
                self._count(path)
        start = found[0][0] if found else self._lines
        message = read_problem(self._folder)
        return SourceState({PART: start}, {PART: self._lines}, ended=ended, message=message)

    def _count(self, path: Path) -> None:
        with path.open("rb") as file:
            file.seek(self._bytes)
            data = file.read()
            if data and is_durable():  # sync before an offset refers to the lines
                os.fsync(file.fileno())
                force(self._folder)
        self._bytes += data.rfind(b"\n") + 1
        self._lines += data.count(b"\n")

    def begin(self) -> Position:
        """Return the first line."""
        return {PART: 0}

    def close(self) -> None:
        """Do nothing: no file stays open."""


def has_passed_end(folder: Path, position: Position) -> bool:
    """Return whether the input of a spool has ended, and a position is after its last line."""
    try:
        end = int((folder / END).read_bytes())
    except FileNotFoundError:
        return False
    return position.get(PART, 0) >= end


def parts(folder: Path, start: int, stop: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files, with their names, of a spool that has only the lines start <= line < stop."""
    texts = _numbered(folder, _FIRST_ENDING)
    begun = [(first, path) for first, path in texts if first <= start][-1:]
    for first, path in [*begun, *((first, path) for first, path in texts if start < first < stop)]:
        yield f"{first:015d}{_FIRST_ENDING}", path.read_bytes()
    found = segments(folder)
    for (first, path), after in zip(found, [*(first for first, _ in found[1:]), stop], strict=True):
        begin, end = max(first, start), min(after, stop)
        if begin < end:
            lines = path.read_bytes().split(b"\n")[begin - first : end - first]
            yield f"{begin:015d}{_ENDING}", b"".join(line + b"\n" for line in lines)


class SpoolReader:
    """A spool in a worker."""

    def __init__(self, folder: Path, place: str) -> None:
        self._folder, self._place = folder, place

    def read(self, wanted: MessageRange) -> Iterator[Messages]:
        """Yield the lines of a range, one segment after the other.

        Raises:
            RecordsGoneError: a segment has been deleted.
        """
        at = wanted.start
        found, texts = segments(self._folder), _numbered(self._folder, _FIRST_ENDING)
        for (first, path), after in zip(found, [*(first for first, _ in found[1:]), None], strict=True):
            if at >= wanted.stop or first > at:
                break
            if after is not None and after <= at:
                continue
            stop = wanted.stop if after is None else min(after, wanted.stop)
            lines = path.read_bytes().split(b"\n")[at - first : stop - first]
            # Line numbers in dead letters start at 1, as in files.
            places = np.arange(at + 1, at + 1 + len(lines))
            yield Messages(self._place, places, list(lines), first_line=_first_line(texts, first))
            at += len(lines)
        if at < wanted.stop:
            raise RecordsGoneError(
                f"the session's folder lacks lines {at + 1} to {wanted.stop} of {self._place}"
            )


def _first_line(texts: list[tuple[int, Path]], segment: int) -> bytes:
    """Return the first line of the text to which a segment belongs."""
    begun = [path for first, path in texts if first <= segment]
    return begun[-1].read_bytes() if begun else b""


def trim(folder: Path, taken: int) -> None:
    """Delete the segments with only lines before `taken`, except the last, and first lines likewise."""
    for ending in (_ENDING, _FIRST_ENDING):
        for (_, path), (after, _) in pairwise(_numbered(folder, ending)):
            if after <= taken:
                path.unlink(missing_ok=True)
