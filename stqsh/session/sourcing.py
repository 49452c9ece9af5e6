"""The files that a CREATE statement names: where they are, and that there are any."""

from __future__ import annotations

from dataclasses import replace
from glob import iglob  # pathlib's takes no absolute pattern
from pathlib import Path
from typing import TypeVar

from stqsh.errors import SourceError
from stqsh.lang.ast import CreateRegions, CreateStream, CreateTable, FileSource

Creation = TypeVar("Creation", CreateStream, CreateTable, CreateRegions)


def with_absolute_files(statement: Creation, script: str | None = None) -> Creation:
    """The statement with its glob made absolute; other sources stay as they are.

    A relative glob is looked for beside the script first, then in the working directory. Raises
    `SourceError` where no file matches.
    """
    if not isinstance(statement.source, FileSource):
        return statement
    glob = find_files(statement.source.glob, None if script is None else Path(script).absolute().parent)
    return replace(statement, source=replace(statement.source, glob=glob))


def find_files(glob: str, beside: Path | None = None) -> str:
    """A glob that is absolute and matches files. Raises `SourceError` where none does."""
    given = Path(glob).expanduser()
    places = [folder for folder in (beside, Path.cwd()) if folder is not None]
    for absolute in dict.fromkeys(str(folder / given) for folder in places):
        if any(Path(found).is_file() for found in iglob(absolute, recursive=True)):  # noqa: PTH207
            return absolute
    if given.is_absolute():
        raise SourceError(f"no file matches '{glob}'")
    looked = ", ".join(dict.fromkeys(str(folder) for folder in places))
    raise SourceError(f"no file matches '{glob}'", hint=f"looked in {looked}")
