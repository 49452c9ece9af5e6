"""Write the events that KEEP no longer retains to their archive (SSTD section 3.2).

SSTD keeps recent tuples in memory and flushes older ones to disk. Here a batch writes the events that it
removes before it is committed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stqsh.errors import StqshError
from stqsh.fs import replacing
from stqsh.spec.stream import StreamSpec
from stqsh.storage.archive_files import ArchiveFile
from stqsh.storage.archive_reader import ROW_GROUP
from stqsh.storage.output_files import archive_file


class ArchiveError(StqshError):
    """Events cannot be written to their archive."""


def write_archive(stream: StreamSpec, batch: int, events: pa.Table) -> list[ArchiveFile]:
    """Write the events that a batch removes, and return the files.

    The files do not depend on how the events were dealt to slots.

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
    files = []
    try:
        for day in pc.unique(days).to_pylist():
            path = archive_file(folder, stream.name, day, batch)
            path.parent.mkdir(parents=True, exist_ok=True)
            written = events.filter(pc.equal(days, day))
            with replacing(path) as new:
                pq.write_table(written, new, row_group_size=ROW_GROUP, write_page_checksum=True)
                size = new.stat().st_size
            times = written.column(stream.time).cast(pa.int64())  # ascending
            since_us, last_us = times[0].as_py(), times[-1].as_py()
            files.append(ArchiveFile(stream.id, batch, day, len(times), since_us, last_us, size))
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise ArchiveError(
            f"events of {stream.name} cannot be archived in {folder}: {reason}",
            hint="no event is lost: they stay in the session until they can be written",
        ) from problem
    return files
