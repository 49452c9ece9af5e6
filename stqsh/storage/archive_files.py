"""The files of streams' archives, as control.db lists them: which events each has, and of which times.

A batch lists the files that it has written in the transaction that records it, so the list says what the
archive has to have, and a reader needs to open only the files of the times that it asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from stqsh.storage.control_log import ControlDb
from stqsh.storage.output_files import archive_file


class ArchiveFile(NamedTuple):
    """A file of an archive.

    Attributes:
        stream: the id of its stream.
        batch: the batch that wrote it.
        day: the day of its events.
        events: how many it has.
        since_us, last_us: the least and the greatest of their times, µs.
        size: its bytes.
        is_counted: whether slots counted its events, which they did not before there was this list.
    """

    stream: int
    batch: int
    day: str
    events: int
    since_us: int
    last_us: int
    size: int
    is_counted: bool = True

    def path(self, folder: Path, name: str) -> Path:
        """Return its place in the folder of an archive, given the name of the stream."""
        return archive_file(folder, name, self.day, self.batch)


def list_archived(control: ControlDb, files: Iterable[ArchiveFile]) -> None:
    """List files of archives; those that are listed already are so once."""
    with control.transaction() as connection:
        connection.executemany(
            "INSERT OR REPLACE INTO archive_files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(f"{file.stream}/{file.batch}/{file.day}", *file) for file in files],
        )


def archived_files(control: ControlDb, stream: int) -> list[ArchiveFile]:
    """Return the files of a stream's archive, in the order of their batches and days."""
    rows = control.query("SELECT * FROM archive_files WHERE stream = ? ORDER BY batch, day", stream)
    return [ArchiveFile._make((*row[1:-1], bool(row[-1]))) for row in rows]


def first_files(files: Sequence[ArchiveFile], let_go: int) -> list[ArchiveFile] | None:
    """Return the files that have what the slots had let go at some step; None if they are not all listed.

    Args:
        files: all files of the archive, by batch.
        let_go: how many events all slots together had let go.
    """
    found, events = list[ArchiveFile](), 0
    for _, batch in groupby(files, lambda file: file.batch):
        written = list(batch)
        count = sum(file.events for file in written if file.is_counted)
        if count and events >= let_go:
            break
        found += written
        events += count
    return found if events == let_go else None
