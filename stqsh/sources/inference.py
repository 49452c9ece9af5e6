"""Infer the names and types of the columns of a source from its first files."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from stqsh.errors import SourceError
from stqsh.lang.binder.definitions.column_roles import guess_roles
from stqsh.sources.formats.file_formats import PROBED_OBJECTS, Columns, common_type
from stqsh.sources.formats.layer_file import LAYER_FORMATS
from stqsh.sources.formats.places import PlaceOptions, find_geometry
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
from stqsh.spec.stream import FileSourceSpec, GeneratorSourceSpec, SourceSpec

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
        return found if not found or _is_located(found) else found | _places_of(path, source)
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


def _places_of(path: Path, source: FileSourceSpec) -> Columns:
    """Return the location columns that are computed from a file's geometries; {} without geometries.

    A file with polygons, for regions, has no location, either.
    """
    form, options, places = format_of(path, source), options_of(path, source), PlaceOptions.of(source.options)
    names = geometry_names(path, form) if places.geometry is None else (places.geometry,)
    geometry = find_geometry(
        lambda layout: format_named(form).read(path, layout, options, PROBED_OBJECTS), names
    )
    return {} if geometry is None else dict.fromkeys(places.axes, "DOUBLE")
