"""Find the files and folders that statements name, and locate their errors in the statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from glob import has_magic, iglob  # pathlib's takes no absolute pattern
from os.path import isdir, normpath
from pathlib import Path
from typing import Any, TypeVar

from stqsh.errors import OptionError, SourceError, StqshError
from stqsh.lang.ast.source import Span
from stqsh.lang.ast.statements import (
    CreateRegions,
    CreateStream,
    CreateTable,
    DirectorySource,
    FileSource,
    GeneratorSource,
    RegisterQueries,
)
from stqsh.lang.errors import BindError, locating, near
from stqsh.spec.stream import FileSourceSpec
from stqsh.storage.control_log import wall_clock_us

Creation = TypeVar("Creation", CreateStream, CreateTable, CreateRegions, RegisterQueries)
Reader = CreateStream | CreateTable | CreateRegions | RegisterQueries


def with_absolute_files(statement: Creation, script: str | None = None) -> Creation:
    """Return the statement with its glob made absolute; other sources stay as they are.

    A relative glob is resolved against the script's folder first, then against the working directory.

    Raises:
        SourceError: no file matches.
    """
    if isinstance(statement.source, DirectorySource):
        path = find_folder(statement.source.path, None if script is None else Path(script).absolute().parent)
        return replace(statement, source=replace(statement.source, path=path))
    if not isinstance(statement.source, FileSource):
        return statement
    glob = find_files(statement.source.glob, None if script is None else Path(script).absolute().parent)
    return replace(statement, source=replace(statement.source, glob=glob))


def find_files(glob: str, beside: Path | None = None) -> str:
    """Return an absolute glob that matches files; raise `SourceError` if none does."""
    if not glob:
        raise SourceError("the name of the file is empty")
    given = Path(glob).expanduser()
    places = [folder for folder in (beside, Path.cwd()) if folder is not None]
    for absolute in dict.fromkeys(str(folder / given) for folder in places):
        if any(Path(found).is_file() for found in iglob(absolute, recursive=True)):  # noqa: PTH207
            return _without_dots(absolute)
    looked = "" if given.is_absolute() else "looked in " + ", ".join(dict.fromkeys(map(str, places)))
    close = next(filter(None, (_near_file(folder / given) for folder in places)), "")
    hint = "; ".join(filter(None, [close, looked]))
    raise SourceError(f"no file matches '{glob}'", hint=hint or None)


def find_folder(path: str, beside: Path | None = None) -> str:
    """Return the absolute path of a folder; raise `SourceError` if there is none."""
    given = Path(path).expanduser()
    for folder in (beside, Path.cwd()):
        if path and folder is not None and _is_folder(folder / given):
            return normpath(folder / given)
    raise SourceError(f"there is no folder '{path}'", hint="DIRECTORY takes the files that appear in one")


def _is_folder(path: Path) -> bool:
    return isdir(path)  # noqa: PTH112 - `Path.is_dir` fails for a name that is too long


def _without_dots(glob: str) -> str:
    """Return a glob without `..`, unless a folder before it is a link that leads elsewhere."""
    plain = normpath(glob)
    folder = next((one for one in Path(glob).parents if not has_magic(str(one))), Path(glob))
    return plain if folder.resolve() == Path(normpath(folder)).resolve() else glob


def _near_file(path: Path) -> str:
    """Explain a path without a file: it is a folder, its folder does not exist, or a similar name exists."""
    if _is_folder(path):
        return f"it is a folder: '{path}/*' names the files in it"
    folders = (one for one in reversed(path.parents) if not has_magic(str(one)))
    missing = next((one for one in folders if not _is_folder(one)), None)
    if missing is not None:
        return f"there is no folder {missing}"
    if has_magic(str(path)):
        return ""
    found = near(path.name, (one.name for one in path.parent.iterdir()))
    return f"maybe you meant {path.parent / found}" if found else ""


@contextmanager
def pointing_at_source(statement: Reader) -> Iterator[None]:
    """Turn errors of a source into errors of the statement, with line and caret.

    Raises:
        BindError: for each `SourceError` raised inside, at the option that it concerns, else at the source.
    """
    try:
        with locating(statement.piece):
            yield
    except SourceError as error:
        with locating(statement.piece):
            raise BindError(error.message, _place(statement, error), hint=error.hint) from error


def _place(statement: Reader, error: SourceError) -> Span:
    """Return where to show a source's error in the statement: the option's name, its value, or the source."""
    source = statement.source
    if source is None:
        return statement.span
    if not isinstance(error, OptionError) or not isinstance(source, FileSource | GeneratorSource):
        return source.span
    value = dict(source.options).get(error.option)
    if value is None or not error.is_unknown:
        return source.span if value is None else value.span
    return statement.option_name(error.option, value.span)


Columns = tuple[tuple[str, str], ...]
"""Names of columns and their types."""


def file_columns(glob: str, format_: str | None, options: Mapping[str, Any]) -> Columns:
    """Return the columns of the matching files; () if there are none, or they cannot be read."""
    # pyarrow: only when needed
    from stqsh.sources.recognition import recognize

    try:
        source = FileSourceSpec(find_files(glob), format_, dict(options))
        return tuple((name, kind) for name, kind in recognize(source, None, None).columns)
    except (StqshError, OSError):
        return ()


def make_folder(path: str, span: Span) -> Path:
    """Make a folder for a session's output, and return its absolute path.

    Raises:
        BindError: files cannot be written to it; the error has the position in the statement.
    """
    if not path:
        raise BindError("the name of the folder is empty", span)
    folder = Path(path).expanduser().absolute()
    probe = folder / f".stqsh-{wall_clock_us()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "not a folder" if is_file else (error.strerror or str(error)).lower()
        raise BindError(f"files cannot be written to {folder}: {reason}", span) from error
    return folder
