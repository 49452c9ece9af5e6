"""Find the files of a glob and their formats, and read their records in groups of files."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from stqsh.core.state.interner import SeenKeys
from stqsh.errors import OptionError, SourceError
from stqsh.extensions import FORMATS, ExtensionError, extension_names, find_extension
from stqsh.fs import readable_path
from stqsh.sources.dead_letters import DeadLetter
from stqsh.sources.formats.csv_file import check_csv_header
from stqsh.sources.formats.file_formats import BUILT_IN, FileFormat
from stqsh.sources.formats.json_documents import features_crs
from stqsh.sources.formats.places import (
    USUAL_GEOMETRIES,
    OwnPlaces,
    PlaceOptions,
    read_with_places,
    without_places,
)
from stqsh.sources.formats.record_parser import FileBlock, ParsedRecords, RowBlock, find_lines, parse
from stqsh.sources.formats.record_schema import RecordSchema, near
from stqsh.sources.formats.row_blocks import COMPRESSIONS
from stqsh.spec.stream import AreaSpec, FileSourceSpec, Options, StreamSpec, TableSpec

#: Small files are parsed together, up to this many bytes of text.
GROUP_BYTES = 8 << 20
#: The size of a small block at the beginning of a file: bytes of text, or rows.
_FIRST_BLOCK = 1 << 16
_HINT = "add FORMAT CSV, JSON or PARQUET"
UNREADABLE = (OSError, EOFError, pa.ArrowInvalid, pa.ArrowNotImplementedError)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source: its index in the order of names, its path, its size on disk."""

    index: int
    path: Path
    size: int


def format_named(form: str) -> FileFormat:
    """Return a format, built in or added by a package.

    Raises:
        SourceError: there is no such format, or it cannot be loaded.
    """
    if form in BUILT_IN:
        return BUILT_IN[form]
    try:
        found = find_extension(FORMATS, form)
    except ExtensionError as error:
        raise SourceError(str(error)) from error
    if not isinstance(found, FileFormat):
        problem = "is not a FileFormat" if found is not None else "is not installed here"
        raise SourceError(f"the file format {form!r} {problem}", hint="install the package that adds it")
    return found


def file_source(spec: StreamSpec | TableSpec | AreaSpec) -> FileSourceSpec:
    """Return the source of a stream or table of files."""
    assert isinstance(spec.source, FileSourceSpec), f"{spec.name} is not read from files"
    return spec.source


def find_files(source: FileSourceSpec) -> list[SourceFile]:
    """List the files that match a source's glob, ordered by name (code points).

    Raises:
        SourceError: there is none, or the glob is invalid.
    """
    pattern = source.glob
    try:
        names = [pattern] if Path(pattern).is_file() else _glob(pattern)
        paths = sorted(name for name in names if Path(name).is_file())
        hint = None if paths else _near_file(Path(pattern))
    except OSError as problem:  # such as a name that is too long
        reason = (problem.strerror or str(problem)).lower()
        raise SourceError(f"no file matches {pattern}: {reason}") from problem
    if not paths:
        raise SourceError(f"no file matches {pattern}", hint=hint)
    if source.format is None:
        _check_names(pattern, [Path(path) for path in paths])
    return [SourceFile(index, Path(path), Path(path).stat().st_size) for index, path in enumerate(paths)]


def files_in_folder(folder: str, format_: str | None) -> str:
    """Return a glob for the files in a folder; if formats differ, for those of the most common format.

    Raises:
        SourceError: there is no file, or none of a known format.
    """
    files = [path for path in sorted(Path(folder).iterdir()) if path.is_file() and path.name[0] not in "._"]
    endings = Counter(_ending(path) for path in files if format_ or _known_format(path) is not None)
    if not endings:
        raise SourceError(
            f"there is no file in {folder} yet whose columns could be taken",
            hint="list them after the stream's name: (id STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)",
        )
    ending, _ = endings.most_common(1)[0]
    return str(Path(glob.escape(folder)) / f"[!._]*{ending}")


def _check_names(pattern: str, paths: Sequence[Path]) -> None:
    """Raise `SourceError` if a glob matches both files of a known format and others, such as a LICENSE."""
    others = [path for path in paths if _known_format(path) is None]
    if others and len(others) < len(paths):
        count = "" if len(others) == 1 else f" and {len(others) - 1} more"
        verb = "says" if len(others) == 1 else "say"
        raise SourceError(
            f"{pattern} also matches {others[0].name}{count}, whose name {verb} no format",
            hint=leaving_out(pattern, paths, others[0]) or _HINT,
        )


def leaving_out(pattern: str, paths: Sequence[Path], path: Path) -> str | None:
    """Return a hint with a glob that excludes a file whose ending differs from most; None if there is none.

    >>> paths = [Path("d/LICENSE.txt"), Path("d/a.csv.gz"), Path("d/b.csv.gz")]
    >>> leaving_out("d/*", paths, paths[0])
    "'d/*.csv.gz' leaves it out"
    """
    endings = Counter(_ending(one) for one in paths if one != path and _known_format(one) is not None)
    if not endings or not glob.has_magic(Path(pattern).name):
        return None
    ending, _ = endings.most_common(1)[0]
    if _ending(path) == ending:
        return None
    return f"'{Path(pattern).parent / f'*{ending}'}' leaves it out"


def _ending(path: Path) -> str:
    """Return the extension of a file, including that of its compression."""
    ending = path.suffix
    return path.with_suffix("").suffix + ending if ending.lower() in COMPRESSIONS else ending


def _known_format(path: Path) -> str | None:
    suffix = _ending(path).lower()
    endings = [suffix, Path(suffix).stem] if suffix else []
    known = (form for form in (*BUILT_IN, *extension_names(FORMATS)) if _has_ending(form, endings))
    return next(known, None) if endings else None


def _has_ending(form: str, endings: Sequence[str]) -> bool:
    return not set(endings).isdisjoint(format_named(form).endings)


def _glob(pattern: str) -> list[str]:
    return glob.glob(pattern, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern


def _near_file(path: Path) -> str | None:
    """Return a hint about a path that matches no file."""
    for parent in reversed(path.parents):
        if not glob.has_magic(str(parent)) and not parent.is_dir():
            return f"there is no directory {parent}"
    if glob.has_magic(str(path)):
        return None
    return near(path.name, (entry.name for entry in path.parent.iterdir()))


def format_of(path: Path, source: FileSourceSpec) -> str:
    """Return the format of a file: the one given, or that of its extension.

    Raises:
        SourceError: neither is known.

    >>> format_of(Path("day.csv.gz"), FileSourceSpec("day.*"))
    'csv'
    >>> format_of(Path("day.log"), FileSourceSpec("day.*", "jsonl"))
    'jsonl'
    """
    if source.format:
        return source.format
    found = _known_format(path)
    if found is None:
        raise SourceError(f"the name of {path} does not say what its format is", hint=_HINT)
    return found


def options_of(path: Path, source: FileSourceSpec) -> Options:
    """Return the options of a file's format; a `.tsv` is separated by tabs by default."""
    tabs: Options = (
        {"separator": "\t"} if ".tsv" in path.suffixes and format_of(path, source) == "csv" else {}
    )
    return tabs | without_places(source.options)


def read_file_blocks(
    path: Path, source: FileSourceSpec, layout: RecordSchema, size: int | None = None
) -> Iterator[RowBlock]:
    """Yield the blocks of a file, of about `size` bytes or rows, with places in degrees.

    Raises:
        SourceError: the file's format is unknown, or a declared column is missing.
    """
    form, options = format_of(path, source), options_of(path, source)
    places = PlaceOptions.of(source.options)
    if places.crs is None and form in ("geojson", "jsonl") and path.is_file():
        places = replace(places, crs=features_crs(path))

    def read(columns: RecordSchema) -> Iterator[RowBlock]:
        return format_named(form).read(path, columns, options, size)

    own = OwnPlaces(lambda: geometry_names(path, form), lambda: own_crs(path, form, options))
    return read_with_places(read, layout, places, own)


def own_crs(path: Path, form: str, options: Options) -> str | None:
    """Return the reference system of a file's geometry column; None if it declares none."""
    crs = format_named(form).crs
    return None if crs is None else crs(path, options)


def geometry_names(path: Path, form: str) -> tuple[str, ...]:
    """Return possible names of a file's geometry column, the most likely first, or the declared one."""
    geometry = format_named(form).geometry
    named = None if geometry is None else geometry(path)
    return USUAL_GEOMETRIES if named is None else (named,)


def group_files(files: Iterable[SourceFile], limit: int = GROUP_BYTES) -> Iterator[list[SourceFile]]:
    """Divide files into groups that are read together; a large file forms its own group."""
    group: list[SourceFile] = []
    size = 0
    for file in files:
        if group and size + file.size > limit:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        yield group


def check_files(files: Iterable[SourceFile], source: FileSourceSpec, layout: RecordSchema) -> None:
    """Check the beginning of each file, before the long work starts.

    Raises:
        SourceError: a file's format is unknown, or a declared column is missing.
    """
    files = list(files)
    for file in files:
        try:
            _check_file(file, source, layout)
        except OptionError:
            raise
        except SourceError as problem:
            hint = leaving_out(source.glob, [each.path for each in files], file.path)
            raise SourceError(problem.message, hint=hint or problem.hint) from problem


def _check_file(file: SourceFile, source: FileSourceSpec, layout: RecordSchema) -> None:
    if format_of(file.path, source) == "csv":
        try:
            with suppress(*UNREADABLE):
                check_csv_header(file.path, layout.in_files, options_of(file.path, source))
            return
        except OptionError:
            raise
        except SourceError:  # the places may be in a geometry column
            pass
    read_first_block(file, source, layout)


def read_first_block(file: SourceFile, source: FileSourceSpec, layout: RecordSchema) -> FileBlock | None:
    """Return a small block from the beginning of a file; None if the file is empty or cannot be read.

    Raises:
        SourceError: the file's format is unknown, or a declared column is missing.
    """
    with suppress(*UNREADABLE):
        for block in read_file_blocks(file.path, source, layout.in_files, _FIRST_BLOCK):
            return FileBlock(file.index, readable_path(file.path), block)
    return None


def read_group(
    files: Sequence[SourceFile],
    source: FileSourceSpec,
    layout: RecordSchema,
    known: SeenKeys | None = None,
    *,
    with_lines: bool = False,
) -> Iterator[ParsedRecords]:
    """Yield the records of some files, a few MB at a time, in order of file and place.

    Args:
        known: the keys of earlier records, where a key must not occur again.
        with_lines: whether to find the line of each record of a single file.
    """

    def parsed() -> ParsedRecords:
        found = parse(waiting, layout, known)
        return replace(found, lines=find_lines(waiting, found.places)) if with_lines else found

    waiting: list[FileBlock] = []
    dead: list[DeadLetter] = []
    size = 0
    for block in _blocks(files, source, layout, dead):
        size += block.block.size
        if waiting and (size > GROUP_BYTES or _types(block) != _types(waiting[0])):
            yield parsed()
            waiting, size = [], block.block.size
        waiting.append(block)
    if waiting:
        yield parsed()
    if dead:
        yield replace(parse([], layout), dead=dead)


def _blocks(
    files: Sequence[SourceFile], source: FileSourceSpec, layout: RecordSchema, dead: list[DeadLetter]
) -> Iterator[FileBlock]:
    """Yield the blocks of some files; add unreadable files to `dead`."""
    for file in files:
        try:
            for block in read_file_blocks(file.path, source, layout.in_files):
                yield FileBlock(file.index, readable_path(file.path), block)
        except UNREADABLE as problem:
            text = str(problem).replace("\n", " ")
            dead.append(DeadLetter(readable_path(file.path), 0, f"the file cannot be read: {text}", ""))


def _types(block: FileBlock) -> list[pa.DataType]:
    return [column.type for column in block.block.columns]
