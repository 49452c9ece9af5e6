"""Infer the names and types of the columns of a source from its first files."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from stqsh.errors import SourceError
from stqsh.lang.binder.definitions.column_roles import guess_roles
from stqsh.sources.formats.file_formats import PROBED_OBJECTS, Columns, common_type
from stqsh.sources.formats.geometries import has_points
from stqsh.sources.formats.json_documents import has_features
from stqsh.sources.formats.layer_file import LAYER_FORMATS
from stqsh.sources.formats.places import PlaceOptions, find_geometry
from stqsh.sources.formats.record_parser import RowBlock
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.generator.network import COLUMNS as NETWORK_COLUMNS
from stqsh.sources.source_files import (
    find_files,
    format_named,
    format_of,
    geometry_names,
    leaving_out,
    options_of,
)
from stqsh.spec.query_stream import DROP_COLUMN
from stqsh.spec.stream import ColumnSpec, FileSourceSpec, GeneratorSourceSpec, SourceSpec

_PROBED_FILES = 3
"""The number of files that are examined."""
TABULAR = ("csv", "parquet", *LAYER_FORMATS)
"""The formats whose files must have a column in common; otherwise `infer` raises an error."""


def infer(source: SourceSpec) -> list[list[str]]:
    """Return the columns [[name, type], ...] of a source, as in a StreamSpec.

    Raises:
        SourceError: there is no file, none can be read, or the format is unknown.
    """
    if isinstance(source, GeneratorSourceSpec):
        return [list(column) for column in NETWORK_COLUMNS]
    assert isinstance(source, FileSourceSpec), "a live source needs its columns"
    files = [file.path for file in find_files(source)]
    found = [(path, columns_of_file(path, source)) for path in files[:_PROBED_FILES]]
    tabular = [(path, columns) for path, columns in found if format_of(path, source) in TABULAR]
    _check_alike(tabular, source, files)
    merged: Columns = {}
    for _, columns in found:
        for name, kind in columns.items():
            merged[name] = common_type(merged.get(name), kind)
    if not merged:
        raise SourceError(
            f"{source.glob} contains no records from which to infer the columns", hint="give the column list"
        )
    return [[name, kind or "STRING"] for name, kind in merged.items()]


def _check_alike(files: Sequence[tuple[Path, Columns]], source: FileSourceSpec, all_: Sequence[Path]) -> None:
    """Raise `SourceError` for a file that shares no column with the one that has most columns."""
    wide = max(files, key=lambda file: len(file[1]), default=None)
    for path, columns in files:
        if wide is not None and columns and not columns.keys() & wide[1].keys():
            how = leaving_out(source.glob, all_, path) or "choose a pattern that leaves it out"
            raise SourceError(
                f"{path} lacks columns that {wide[0].name} has",
                hint=f"its columns are {_shortened(columns)}; {how}",
            )


def _shortened(columns: Columns) -> str:
    return ", ".join(textwrap.shorten(name, 40, placeholder="…") for name in [*columns][:20])


def columns_of_file(path: Path, source: FileSourceSpec) -> Columns:
    """Return the columns of a file. Raises `SourceError`: it cannot be read, or its format is unknown."""
    form, options = format_of(path, source), options_of(path, source)
    columns = format_named(form).columns
    if columns is None:
        raise SourceError(
            f"the columns of files of the format {form!r} cannot be found", hint="give the column list"
        )
    try:
        found = dict(columns(path, options))
        if not found or _is_located(found):
            return found
        geometry = _geometry_of(path, source)
        places = () if geometry is None else PlaceOptions.of(source.options).axes
        return found | dict.fromkeys(places, "DOUBLE")
    except (OSError, EOFError, pa.ArrowInvalid) as problem:
        raise SourceError(f"{path} cannot be read: {problem}") from problem


def lacks_drops(path: Path, source: FileSourceSpec) -> bool:
    """Return whether a file with rows of a query stream has columns, but none to drop queries."""
    if format_of(path, source) not in TABULAR or source.options.get("header") is False:
        return False  # what an object of JSON lacks is NULL, and columns without names are as declared
    return DROP_COLUMN not in [name.lower() for name in columns_of_file(path, source)]


def _is_located(columns: Columns) -> bool:
    """Return whether columns with usual names form a location."""
    guesses = guess_roles([(name, kind or "") for name, kind in columns.items()])
    return guesses["x"] is not None and guesses["y"] is not None


def _geometry_of(path: Path, source: FileSourceSpec) -> str | None:
    """Return the column with a file's geometries, from which its location columns are computed.

    A file with polygons, for regions, has no location, either.
    """
    names = _geometry_names(path, source)
    return find_geometry(lambda layout: _read_some(path, source, layout), names)


def _geometry_names(path: Path, source: FileSourceSpec) -> Sequence[str]:
    declared = PlaceOptions.of(source.options).geometry
    return geometry_names(path, format_of(path, source)) if declared is None else (declared,)


def _read_some(path: Path, source: FileSourceSpec, layout: RecordSchema) -> Iterator[RowBlock]:
    reader = format_named(format_of(path, source)).read
    return reader(path, layout, options_of(path, source), PROBED_OBJECTS)


def extent_of(source: FileSourceSpec) -> str | None:
    """Return the column of extents of a source: its geometries, if the first ones are other than points.

    None if they are points, if columns with usual names are the location, or if there are no geometries.

    Raises:
        SourceError: the format of a file is unknown.
    """
    for file in find_files(source)[:_PROBED_FILES]:
        path, columns = file.path, format_named(format_of(file.path, source)).columns
        if columns is None or _is_located(dict(columns(path, options_of(path, source)))):
            return None
        geometry = _geometry_of(path, source)
        if geometry is None:
            continue
        layout = RecordSchema((ColumnSpec(geometry, "STRING"),), "")
        block = next(_read_some(path, source, layout), None)
        return geometry if block is not None and not has_points(block.columns[0]) else None
    return None


def with_extent(columns: Sequence[Sequence[str]], source: FileSourceSpec, extent: str) -> list[list[str]]:
    """Return inferred columns with that of extents, last if new, instead of a location computed from it."""
    kept = [list(column) for column in columns]
    first = find_files(source)[0].path
    form = format_of(first, source)
    own = format_named(form).columns
    known = {} if own is None else dict(own(first, options_of(first, source)))
    are_features = form == "geojson" or (form == "jsonl" and has_features(first))
    if are_features or not _is_located(known):
        axes = PlaceOptions.of(source.options).axes
        kept = [column for column in kept if column[0] not in axes]
    return kept if extent in {name for name, _ in kept} else [*kept, [extent, "STRING"]]
