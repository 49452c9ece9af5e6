"""Read the events of archives: only the row groups and columns that a request needs.

Parquet files store the minimum and maximum of each column for each row group. The rows of a file are sorted
by time, so a time range selects few row groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq

from stqsh.errors import StqshError
from stqsh.storage.archive_files import ArchiveFile

ROW_GROUP = 1 << 17
"""The number of events in a row group, which is skipped or read as a whole."""

_AT_ONCE = 1 << 18
"""The minimum number of events in a batch, except the last batch."""
_HINT = "put the file back, or ask for times of which it has no event"
_DISK = pyarrow.fs.LocalFileSystem()
_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


class ArchiveReadError(StqshError):
    """An archive file is missing or differs from what was written."""


class Wanted(NamedTuple):
    """The events to read: a half-open time range [since, until) in µs, and a box.

    Attributes:
        columns: the columns to read.
        since, until: the time range; None for an open end.
        box: x1, y1, x2, y2; an infinite side is no bound.
    """

    columns: Sequence[str]
    since: int | None
    until: int | None
    box: tuple[float, float, float, float]


def measure_file(path: Path, time: str) -> tuple[int, int, int]:
    """Return a file's number of events and their earliest and latest time, µs.

    `time` is the name of the time column.
    """
    times = pq.read_table(path, columns=[time]).column(time).cast(pa.int64())
    least: Any = pc.min_max(times)
    return len(times), least["min"].as_py(), least["max"].as_py()


def check_files(folder: Path, stream: str, files: Iterable[ArchiveFile]) -> None:
    """Raise `ArchiveReadError` for an archive file of a stream that is missing or has another size."""
    for file in files:
        path = file.path(folder, stream)
        try:
            size = path.stat().st_size
        except OSError as error:
            is_gone = isinstance(error, FileNotFoundError)
            reason = "is gone" if is_gone else f"cannot be read: {error.strerror}"
            raise ArchiveReadError(f"{path} of the archive of {stream} {reason}", hint=_HINT) from error
        if size != file.size:
            raise ArchiveReadError(
                f"{path} of the archive of {stream} has {size:,} bytes instead of {file.size:,}", hint=_HINT
            )


def read_events(
    folder: Path, stream: str, roles: tuple[str, str, str], files: Iterable[ArchiveFile], wanted: Wanted
) -> Iterator[pa.RecordBatch]:
    """Yield batches that contain the wanted events, and possibly others.

    Small row groups are joined into batches that are large enough to be worth processing.

    Args:
        folder: the archive.
        stream: the name of its stream.
        roles: the names of the columns x, y and time.
        files: the files to read.
        wanted: the events and their columns.

    Raises:
        ArchiveReadError: a file is damaged.
    """
    waiting, count = list[pa.RecordBatch](), 0
    where = _filter(roles, wanted)
    for file in files:
        path = file.path(folder, stream)
        try:
            fragment = _FORMAT.make_fragment(str(path), _DISK)
            for batch in fragment.to_batches(columns=list(wanted.columns), filter=where, batch_size=_AT_ONCE):
                waiting.append(batch)
                count += batch.num_rows
                if count >= _AT_ONCE:
                    yield _joined(waiting)
                    waiting, count = [], 0
        except (pa.ArrowException, OSError) as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            raise ArchiveReadError(
                f"{path} of the archive of {stream} is damaged: {reason}", hint=_HINT
            ) from error
    if count:
        yield _joined(waiting)


def _filter(roles: tuple[str, str, str], wanted: Wanted) -> Any:
    """Return the filter that skips row groups and then single events."""
    x, y, time = roles
    x1, y1, x2, y2 = wanted.box
    bounds = [
        *((time, pc.greater_equal, _instant(at)) for at in (wanted.since,) if at is not None),
        *((time, pc.less, _instant(at)) for at in (wanted.until,) if at is not None),
        *((name, pc.greater_equal, least) for name, least in ((x, x1), (y, y1)) if least > -float("inf")),
        *((name, pc.less_equal, most) for name, most in ((x, x2), (y, y2)) if most < float("inf")),
    ]
    found: Any = None
    for name, compare, bound in bounds:
        one: Any = compare(pc.field(name), bound)
        found = one if found is None else found & one
    return found


def _instant(at: int) -> Any:
    return pa.scalar(at, pa.timestamp("us", tz="UTC"))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    [found] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return found
