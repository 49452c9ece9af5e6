"""A spool: lines that cannot be had again, kept in the session until the slots have them for good.

A directory holds segments `N.lines`, N being the number of the first line; only whole lines are ever written.
`end` says how many lines there were in all, once nothing follows. The client writes what it reads from its
standard input, the engine what a socket brings. A line is in the spool before the engine sees it, and its
segment is deleted once the batches that took its lines are committed.

Lines are those of texts: standard input is one, and each connection of a socket. A text begins a segment, and
`N.first` repeats its first line, which may be a header: it is needed as long as lines of the text follow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from stqsh.fs import atomic_write
from stqsh.sources.live.decoding import Messages
from stqsh.sources.live.protocol import (
    MessageRange,
    Position,
    RecordsGoneError,
    SourceState,
    read_problem,
)

PART = "lines"
"""The name of a spool's only part in positions."""
END = "end"
SPOOL = "spool"
"""The folder of a stream that holds its spool."""
_ENDING = ".lines"
_FIRST_ENDING = ".first"
_SEGMENT_BYTES = 8 << 20


def segments(folder: Path) -> list[tuple[int, Path]]:
    """Return the segments of a spool with the number of their first line, in order."""
    return _numbered(folder, _ENDING)


def _numbered(folder: Path, ending: str) -> list[tuple[int, Path]]:
    """Return the files of a spool that are named by a line, with its number, in order."""
    found = folder.glob(f"*{ending}")
    return sorted((int(path.stem), path) for path in found if path.stem.isdigit())


class SpoolWriter:
    """Appends lines to a spool; one process writes at a time.

    Args:
        folder: the spool's.
        segment_bytes: a segment of this size is not continued.
    """

    def __init__(self, folder: Path, segment_bytes: int = _SEGMENT_BYTES) -> None:
        self._folder, self._segment_bytes = folder, segment_bytes
        self._rest = b""
        self._begins = True
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / END).unlink(missing_ok=True)
        self.lines = self._repair()
        self._open()

    def begin_text(self) -> None:
        """Take the line that comes next as the first one of a text."""
        self._begins = True

    def write(self, data: bytes) -> None:
        """Append bytes; a line appears once its end has come."""
        whole, mark, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest
        if mark:
            self._append(whole + mark)

    def end_line(self, mark: bytes = b"") -> None:
        """Append the line that has begun, if there is one, followed by `mark`."""
        if self._rest:
            self._append(self._rest + mark + b"\n")
            self._rest = b""

    def finish(self) -> None:
        """Append the last line, also without its end, and say that nothing follows."""
        self.end_line()
        os.close(self._file)
        atomic_write(self._folder / END, str(self.lines).encode())

    def _append(self, text: bytes) -> None:
        if self._size >= self._segment_bytes or (self._begins and self._size):
            os.close(self._file)
            self._open()
        if self._begins:
            first_line = text[: text.index(b"\n")]
            atomic_write(self._folder / f"{self.lines:015d}{_FIRST_ENDING}", first_line)
            self._begins = False
        view = memoryview(text)
        while view:
            view = view[os.write(self._file, view) :]
        self._size += len(text)
        self.lines += text.count(b"\n")

    def _open(self) -> None:
        path = self._folder / f"{self.lines:015d}{_ENDING}"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = 0

    def _repair(self) -> int:
        """Cut off what a killed writer had begun, and return the number of lines."""
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
    """A spool in the planner: counts the lines that have come."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segment, self._bytes, self._lines = -1, 0, 0

    def state(self) -> SourceState:
        """Return how many lines there are."""
        ended = (self._folder / END).exists()  # before the lines are counted
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
        self._bytes += data.rfind(b"\n") + 1
        self._lines += data.count(b"\n")

    def begin(self) -> Position:
        """Return the first line."""
        return {PART: 0}

    def close(self) -> None:
        """Do nothing: no file stays open."""


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
            # Lines count from 1 in dead letters, as in files.
            places = np.arange(at + 1, at + 1 + len(lines))
            yield Messages(self._place, places, list(lines), first_line=_first_line(texts, first))
            at += len(lines)
        if at < wanted.stop:
            raise RecordsGoneError(
                f"the session's folder lacks lines {at + 1} to {wanted.stop} of {self._place}"
            )


def _first_line(texts: list[tuple[int, Path]], segment: int) -> bytes:
    """Return the first line of the text that a segment belongs to."""
    begun = [path for first, path in texts if first <= segment]
    return begun[-1].read_bytes() if begun else b""


def trim(folder: Path, taken: int) -> None:
    """Delete the segments all of whose lines are before `taken`, except the last, and first lines alike."""
    for ending in (_ENDING, _FIRST_ENDING):
        for (_, path), (after, _) in pairwise(_numbered(folder, ending)):
            if after <= taken:
                path.unlink(missing_ok=True)
