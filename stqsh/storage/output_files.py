"""The names of the files that a session writes for other programs: those of sinks and of archives.

A sink's files are `NAME-STEP-PART.FORMAT`: the sink's name, the first step of the batch (12 digits), and the
number of the batch's part (4 digits). Further tables of a part have the suffixes `-1`, `-2`, …. An incomplete
file is hidden: its name begins with a dot.

An archive holds the events that KEEP removes from an event stream, as Parquet files by day. Each batch that
removes events writes one file for each day. The file's name contains the batch's number, so a batch that
Spark repeats replaces its own files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from stqsh.errors import StqshError


class FileTakenError(StqshError):
    """The target path holds a file that stqsh did not write."""


def file_name(sink: str, place: tuple[int, int, int], form: str) -> str:
    """Return the name of a file; characters of the sink's name that file names cannot contain are escaped.

    Args:
        sink: the sink's name.
        place: the step, part and table.
        form: the format.
    """
    step, part, table = place
    further = f"-{table}" if table else ""
    return f"{quote(sink, safe='')}-{step:012d}-{part:04d}{further}.{form}"


def hidden_name(name: str) -> str:
    """Return the name of a file that is not yet complete."""
    return f".{name}.part"


def is_file_of(name: str, sink: str) -> bool:
    """Return whether a file name is that of one of the sink's files, complete or not."""
    stem = re.escape(quote(sink, safe=""))
    return re.fullmatch(rf"\.?{stem}-\d{{12}}-\d{{4}}(-\d+)?\.\w+(\.part)?", name) is not None


def check_replaceable(path: Path, begin: bytes, what: str) -> None:
    """Check that a file may be written: the path is free, or its file is empty or was written by stqsh.

    Args:
        path: the file's path.
        begin: the bytes with which such files begin.
        what: what the file is, for messages, such as "a map's page".

    Raises:
        FileTakenError: another program has written the file.
        OSError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            found = file.read(len(begin))
    except FileNotFoundError:
        return
    if found not in (b"", begin):
        raise FileTakenError(
            f"{path} is there already and is not {what}", hint="name another place, or delete the file first"
        )


def archive_file(folder: Path, stream: str, day: str, batch: int) -> Path:
    """Return the path of the archive file that a batch writes for a day.

    >>> archive_file(Path("old"), "posts", "2025-06-14", 7).as_posix()
    'old/day=2025-06-14/posts-000000000007.parquet'
    """
    return folder / f"day={day}" / f"{stream}-{batch:012d}.parquet"


def archive_of(folder: Path, stream: str) -> Iterator[tuple[int, str, Path]]:
    """Yield the batch, the day and the path of each archive file of the stream with that name."""
    form = re.compile(rf"{re.escape(stream)}-(\d{{12}})[.]parquet")
    for path in sorted(folder.glob("day=*/*.parquet")):
        if found := form.fullmatch(path.name):
            yield int(found[1]), path.parent.name.removeprefix("day="), path
