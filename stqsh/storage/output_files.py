"""The names of the files that a session writes for others: those of sinks, and those of archives.

A sink's files are `NAME-STEP-PART.FORMAT`: the sink's name, the first step of the batch (12 digits), and the
number of the part of the batch (4 digits). Further tables of a part have `-1`, `-2`, … behind that. A file
that is not complete is hidden: its name begins with a dot.

An archive holds what KEEP lets go of an event stream, as Parquet by day. Each batch that lets events go
writes one file for each day, under a name that the batch gives: a batch that Spark repeats writes the same
again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from stqsh.errors import StqshError


class FileTakenError(StqshError):
    """A file that stqsh has not written, where one is to be written."""


def file_name(sink: str, place: tuple[int, int, int], form: str) -> str:
    """Return the name of a file; signs of the sink's name that file names cannot have are escaped.

    Args:
        sink: the sink's name.
        place: step, part and table.
        form: the format.
    """
    step, part, table = place
    further = f"-{table}" if table else ""
    return f"{quote(sink, safe='')}-{step:012d}-{part:04d}{further}.{form}"


def hidden_name(name: str) -> str:
    """Return the name that a file has until it is complete."""
    return f".{name}.part"


def is_file_of(name: str, sink: str) -> bool:
    """Return whether a file has the name of a sink's files, complete or not."""
    stem = re.escape(quote(sink, safe=""))
    return re.fullmatch(rf"\.?{stem}-\d{{12}}-\d{{4}}(-\d+)?\.\w+(\.part)?", name) is not None


def check_replaceable(path: Path, begin: bytes, what: str) -> None:
    """Check that a file may be written: there is none, an empty one, or one that stqsh has written.

    Args:
        path: the file's place.
        begin: what such files begin with.
        what: what such a file is, as a message names it, such as "a map's page".

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
    """Return the path of a batch's file for a day.

    >>> archive_file(Path("old"), "posts", "2025-06-14", 7).as_posix()
    'old/day=2025-06-14/posts-000000000007.parquet'
    """
    return folder / f"day={day}" / f"{stream}-{batch:012d}.parquet"


def archive_of(folder: Path, stream: str) -> Iterator[tuple[int, str, Path]]:
    """Yield the batch, the day and the path of each file of an archive of a stream of that name."""
    form = re.compile(rf"{re.escape(stream)}-(\d{{12}})[.]parquet")
    for path in sorted(folder.glob("day=*/*.parquet")):
        if found := form.fullmatch(path.name):
            yield int(found[1]), path.parent.name.removeprefix("day="), path
