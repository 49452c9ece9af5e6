"""Notices: the messages of alerts to the shells of a session, in a file of which shells read what is new.

Nothing depends on the file: it starts over when it is large, and a line cut short by a full disk is lost.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from stqsh.fs import atomic_write, file_lock
from stqsh.storage.home import SessionHome

_MOST_BYTES = 256 << 10


class Notice(Struct, frozen=True):
    """A line for the shells; `bell` also rings the terminal's bell."""

    text: str
    bell: bool = False


def post_notice(home: SessionHome, notice: Notice) -> None:
    """Append a notice."""
    path, line = _path(home), msgspec.json.encode(notice) + b"\n"
    with file_lock(path.with_name(".notices.lock")):
        if path.exists() and path.stat().st_size > _MOST_BYTES:
            atomic_write(path, line, private=True)
            return
        with path.open("a+b") as file:
            file.write(line if _is_whole(file) else b"\n" + line)


class NoticeReader:
    """Reads the notices posted after the reader was created."""

    def __init__(self, home: SessionHome) -> None:
        self._path = _path(home)
        self._file, self._place = self._seen()

    def read(self) -> list[Notice]:
        """Return the notices posted since the last call."""
        file, size = self._seen()
        if file != self._file:
            self._file, self._place = file, 0
        if size <= self._place:
            return []
        with self._path.open("rb") as opened:
            opened.seek(self._place)
            whole = opened.read().rpartition(b"\n")[0]
        self._place += len(whole) + bool(whole)
        return [notice for line in whole.splitlines() if (notice := _decoded(line)) is not None]

    def _seen(self) -> tuple[int, int]:
        """Return the identity of the current file, and its size."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_ino, found.st_size


def _decoded(line: bytes) -> Notice | None:
    """Return a notice; None if its line was cut short."""
    try:
        return msgspec.json.decode(line, type=Notice)
    except msgspec.MsgspecError:
        return None


def _is_whole(file: BinaryIO) -> bool:
    """Return whether a file, open for reading and appending, is empty or ends with a complete line."""
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read() == b"\n"


def _path(home: SessionHome) -> Path:
    return home.path / "sinks" / "notices"
