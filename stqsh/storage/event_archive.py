"""The files of an event stream's archive: what KEEP lets go, as Parquet by day.

Each batch that lets events go writes one file for each day, under a name that the batch gives: a batch that
Spark repeats writes the same again.
"""

from __future__ import annotations

import re
from pathlib import Path

_NUMBER = r"\d{12}"


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
