"""The archive files of each stream, listed in control.db with their event counts and time ranges.

The transaction that records a batch also lists the files that the batch wrote. The list is therefore the
record of what an archive must contain, and a reader opens only the files of the times that it needs.
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
        events: the number of its events.
        since_us, last_us: the earliest and the latest time of its events, µs.
        size: its size in bytes.
        is_counted: whether slots counted its events; files written before this list existed are not counted.
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
        """Return the file's path in the folder of an archive; `name` is the stream's name."""
        return archive_file(folder, name, self.day, self.batch)


def list_archived(control: ControlDb, files: Iterable[ArchiveFile]) -> None:
    """Add archive files to the list; a file that is listed already is replaced."""
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
    """Return the files that hold exactly the first `let_go` counted events; None if not all are listed.

    Files of whole batches are added until their counted events reach `let_go`.

    Args:
        files: all files of the archive, by batch.
        let_go: how many events all slots together had removed at some step.
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
