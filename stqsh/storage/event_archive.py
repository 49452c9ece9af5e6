"""The archive of an event stream: what KEEP lets go, as Parquet files by day (SSTD section 3.2).

SSTD keeps recent tuples in memory and flushes older ones to disk. Here each batch that lets events go writes
one file for each day, under a name that the batch gives: a batch that Spark repeats writes the same again.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stqsh.errors import StqshError
from stqsh.fs import replacing
from stqsh.spec.stream import StreamSpec

_NUMBER = r"\d{12}"


class ArchiveError(StqshError):
    """Events cannot be written to their archive."""


def archive_file(folder: Path, stream: str, day: str, batch: int) -> Path:
    """Return the path of a batch's file for a day.

    >>> archive_file(Path("old"), "posts", "2025-06-14", 7).as_posix()
    'old/day=2025-06-14/posts-000000000007.parquet'
    """
    return folder / f"day={day}" / f"{stream}-{batch:012d}.parquet"


def find_archive(folder: Path, stream: str) -> Path | None:
    """Return a file of an archive of a stream of that name, None if the folder has none."""
    form = re.compile(f"{re.escape(stream)}-{_NUMBER}[.]parquet")
    return next((path for path in sorted(folder.glob("day=*/*.parquet")) if form.fullmatch(path.name)), None)


def write_archive(stream: StreamSpec, batch: int, events: pa.Table) -> None:
    """Write the events that a batch lets go.

    The files are the same however the events were dealt to slots.

    Args:
        stream: their stream.
        batch: the number of the batch.
        events: the stream's columns.

    Raises:
        ArchiveError: a file cannot be written.
    """
    assert stream.archive is not None, "the stream has an archive"
    folder = Path(stream.archive)
    events = events.sort_by([(stream.time, "ascending"), (stream.key, "ascending")])
    days: Any = pc.strftime(events.column(stream.time), format="%Y-%m-%d")
    try:
        for day in pc.unique(days).to_pylist():
            path = archive_file(folder, stream.name, day, batch)
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as new:
                pq.write_table(events.filter(pc.equal(days, day)), new)
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise ArchiveError(
            f"events of {stream.name} cannot be archived in {folder}: {reason}",
            hint="no event is lost: they stay in the session until they can be written",
        ) from problem
