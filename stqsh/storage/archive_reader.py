"""Read the events of archives: only the row groups of the times and places asked for, and only the columns.

Parquet files say of each row group the least and the greatest value of each column. A file's rows are in the
order of their times, so a range of times leaves few of them.
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
"""The events of a row group: what is skipped, or read, as a whole."""

_AT_ONCE = 1 << 18
"""The least events of a batch, unless they are the last ones."""
_HINT = "put the file back, or ask for times of which it has no event"
_DISK = pyarrow.fs.LocalFileSystem()
_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


class ArchiveReadError(StqshError):
    """A file of an archive that is gone, or is not as it was written."""


class Wanted(NamedTuple):
    """The events to read: those of the times from `since` on and before `until`, µs, in a box.

    Attributes:
        columns: the columns to read.
        since, until: the times; None where they are not bounded.
        box: x1, y1, x2, y2; sides that are infinite do not bound.
    """

    columns: Sequence[str]
    since: int | None
    until: int | None
    box: tuple[float, float, float, float]


def measure_file(path: Path, time: str) -> tuple[int, int, int]:
    """Return how many events a file has, and the least and the greatest of their times, µs.

    `time` is the column of the times.
    """
    times = pq.read_table(path, columns=[time]).column(time).cast(pa.int64())
    least: Any = pc.min_max(times)
    return len(times), least["min"].as_py(), least["max"].as_py()


def check_files(folder: Path, stream: str, files: Iterable[ArchiveFile]) -> None:
    """Raise `ArchiveReadError` for a file of a stream's archive that is gone, or has another size."""
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
    """Yield the events wanted, in batches that are worth the work on each; others may be among them.

    Args:
        folder: the archive.
        stream: the name of its stream.
        roles: the columns of x, y and the time.
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
    """Return the condition by which row groups, and then events, are left out."""
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
