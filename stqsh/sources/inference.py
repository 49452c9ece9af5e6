"""Infer the names and types of the columns of a source from its first files."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from stqsh.errors import SourceError
from stqsh.lang.binder.definitions.column_roles import guess_roles
from stqsh.sources.formats.casting import ISO, cast_column, without_null_words
from stqsh.sources.formats.csv_file import (
    CsvDialect,
    csv_rows,
    csv_text_blocks,
    take_header,
    text_columns,
    without_empty,
)
from stqsh.sources.formats.geojson_file import read_features
from stqsh.sources.formats.gpx_file import FIRST_COLUMNS, gpx_points
from stqsh.sources.formats.json_documents import has_features
from stqsh.sources.formats.json_elements import read_json_text
from stqsh.sources.formats.json_file import JsonObject, as_text, flat_members, member
from stqsh.sources.formats.layer_file import LAYER_FORMATS, first_columns
from stqsh.sources.formats.parquet_file import open_parquet
from stqsh.sources.formats.places import PlaceOptions, find_geometry, usual_geometries
from stqsh.sources.formats.pyarrow_typing import Array, pc
from stqsh.sources.formats.row_blocks import TextBlock, find_rows
from stqsh.sources.formats.time_formats import TimeFormat
from stqsh.sources.generator.network import COLUMNS as NETWORK_COLUMNS
from stqsh.sources.source_files import added_format, find_files, format_of, leaving_out, options_of, reader_of
from stqsh.spec.stream import MOST_COLUMNS, FileSourceSpec, GeneratorSourceSpec, Options, SourceSpec

#: The number of bytes that are read of a file, and of files that are read.
_PROBED_BYTES = 1 << 18
_PROBED_FILES = 3
_PROBED_OBJECTS = 2000
#: The formats whose files have the same columns, or another error.
TABULAR = ("csv", "parquet", *LAYER_FORMATS)
_WHOLE_TYPES = {"INT", "BIGINT"}
_NUMBER_TYPES = _WHOLE_TYPES | {"FLOAT", "DOUBLE"}
#: Whole numbers of up to 18 digits are BIGINTs; longer ones may lose digits as DOUBLEs.
_BIGINT_DIGITS, _BIGINT_END = 18, 2**63
_WHOLE_NUMBER = r"^-?(0|[1-9]\d*)$"
_ISO_DATE = r"^\d{4}-\d\d-\d\d"
_WORDS = pa.array(["true", "false"])

Columns = dict[str, str | None]
"""Names and types; None where all values are null."""


def infer(source: SourceSpec) -> list[list[str]]:
    """Return the columns [[name, type], ...] of a source, as in a StreamSpec.

    Raises:
        SourceError: there is no file, none that can be read, or its format is unknown.
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
            merged[name] = _common(merged.get(name), kind)
    if not merged:
        raise SourceError(
            f"{source.glob} contains no records from which to infer the columns", hint="give the column list"
        )
    return [[name, kind or "STRING"] for name, kind in merged.items()]


def _check_alike(files: Sequence[tuple[Path, Columns]], source: FileSourceSpec, all_: Sequence[Path]) -> None:
    """Raise `SourceError` where a file shares no column with another one: it is hardly of the same source."""
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
    try:
        found = _probe(form)(path, options)
        return found if not found or _is_located(found) else found | _places_of(path, source)
    except (OSError, EOFError, pa.ArrowInvalid) as problem:
        raise SourceError(f"{path} cannot be read: {problem}") from problem


def _probe(form: str) -> Callable[[Path, Options], Columns]:
    """Return what finds the columns of files of a format. Raises `SourceError` where nothing does."""
    if form in _PROBES:
        return _PROBES[form]
    added = added_format(form).columns
    if added is None:
        raise SourceError(
            f"the columns of files of the format {form!r} cannot be found", hint="give the column list"
        )
    return lambda path, options: dict(added(path, options))


def _is_located(columns: Columns) -> bool:
    """Return whether columns with usual names are a location."""
    guesses = guess_roles([(name, kind or "") for name, kind in columns.items()])
    return guesses["x"] is not None and guesses["y"] is not None


def _places_of(path: Path, source: FileSourceSpec) -> Columns:
    """Return the columns of the location that are made of a file's geometries; {} without geometries.

    A file may have polygons, for regions: it has no location, either.
    """
    form, options, places = format_of(path, source), options_of(path, source), PlaceOptions.of(source.options)
    names = usual_geometries(path, form) if places.geometry is None else (places.geometry,)
    geometry = find_geometry(lambda layout: reader_of(form)(path, layout, options, _PROBED_OBJECTS), names)
    return {} if geometry is None else dict.fromkeys(places.axes, "DOUBLE")


def _common(one: str | None, other: str | None) -> str | None:
    """Return the type that can hold the values of both types.

    >>> _common("INT", "BIGINT"), _common("INT", "FLOAT"), _common("BIGINT", "BOOLEAN")
    ('BIGINT', 'DOUBLE', 'STRING')
    """
    if one == other or one is None or other is None:
        return one or other
    if {one, other} <= _WHOLE_TYPES:
        return "BIGINT"
    return "DOUBLE" if {one, other} <= _NUMBER_TYPES else "STRING"


# -- a probe for each format ---------------------------------------------------------------------------------


def _probe_csv(path: Path, options: Options) -> Columns:
    dialect, times = CsvDialect.of(options), TimeFormat.of(options)
    kinds: Columns = {}
    fields = first_fields(path, options)
    if len(fields) > MOST_COLUMNS:
        raise SourceError(
            f"{path} has {len(fields):,} columns, and a stream or table has {MOST_COLUMNS:,} at most",
            hint="list those that are needed after its name: (id STRING, lon DOUBLE, lat DOUBLE, …)",
        )
    for name, column in fields.items():
        kinds[name] = kind_of_text(column, times)
        if dialect.decimal != "." and kinds[name] in ("STRING", "DOUBLE"):
            kinds[name] = "DOUBLE" if kind_of_text(dialect.pointed(column)) == "DOUBLE" else "STRING"
    return kinds


def first_fields(path: Path, options: Options) -> dict[str, Array]:
    """Return the columns of a CSV file's first rows, binary and null where empty; {} for an empty file."""
    dialect = CsvDialect.of(options)
    text = next(csv_text_blocks(path, dialect, _PROBED_BYTES), None)
    if text is None or not len(find_rows(text.text, dialect.quoting)):
        return {}
    if dialect.header:
        names, text = take_header(text, dialect, str(path))
    else:
        names = [f"c{place}" for place in range(1, _width(text, dialect) + 1)]
    if not text.text:
        return dict.fromkeys(names, pa.array([], pa.binary()))
    fields = text_columns(text, dialect, list(range(len(names))), len(names))
    return dict(zip(names, map(without_empty, fields.columns), strict=True))


def _width(text: TextBlock, dialect: CsvDialect) -> int:
    stop = [*find_rows(text.text, dialect.quoting), len(text.text)][1]
    return len(next(csv_rows(text.text[:stop].decode(errors="replace").strip("\r\n"), dialect)))


def kind_of_text(column: Array, times: TimeFormat = ISO) -> str | None:
    """Return the narrowest type of a column of text, None if it is empty.

    Leading zeros make it text, and so do whole numbers that are no BIGINT: they may be keys.

    Args:
        times: the format of times that are not ISO 8601.
    """
    cast = cast_column(column, "STRING")
    values = without_null_words(cast.values.drop_null()).drop_null()
    if cast.bad is not None or len(values) == 0:
        return None if cast.bad is None and len(cast.values) == cast.values.null_count else "STRING"
    if times.pattern and cast_column(values, "TIMESTAMP", times).bad is None:
        return "TIMESTAMP"
    if _all_match(values, _WHOLE_NUMBER):
        return "BIGINT" if _casts(values, "BIGINT") else "STRING"
    if not _all_match(values, r"^-?0\d") and _casts(values, "DOUBLE"):
        return "DOUBLE"
    if not times.pattern and _all_match(values, _ISO_DATE) and _casts(values, "TIMESTAMP"):
        return "TIMESTAMP"
    words = pc.all(pc.is_in(pc.ascii_lower(values), value_set=_WORDS)).as_py()
    return "BOOLEAN" if words else "STRING"


def _all_match(values: Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, pattern)).as_py())


def _casts(values: Array, kind: str) -> bool:
    return cast_column(values, kind).bad is None


def _probe_json(path: Path, options: Options) -> Columns:
    if has_features(path):
        return _probe_geojson(path, options)
    text = next(read_json_text(path, _PROBED_BYTES), None)
    lines = text.text.split(b"\n", _PROBED_OBJECTS)[:_PROBED_OBJECTS] if text else []
    return kinds_of_objects(_objects(lines))


def _objects(lines: Iterable[bytes]) -> Iterable[JsonObject]:
    for line in lines:
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(found, dict):
            yield found


def kinds_of_objects(objects: Iterable[JsonObject]) -> Columns:
    """Return the types of the members of JSON objects, without lists; of objects within them as `a.b`."""
    kinds: Columns = {}
    for found in objects:
        for name in flat_members(found):
            value = member(found, name)
            if not isinstance(value, list | dict):
                kinds[name] = _common(kinds.get(name), _kind_of_value(value))
    return kinds


def _kind_of_value(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        dated = re.match(_ISO_DATE, value) and _casts(pa.array([value]), "TIMESTAMP")
        return "TIMESTAMP" if dated else "STRING"
    if isinstance(value, int) and value >= _BIGINT_END:
        return "STRING"
    return {bool: "BOOLEAN", int: "BIGINT"}.get(type(value), "DOUBLE")


def _probe_geojson(path: Path, options: Options) -> Columns:
    rows = next(read_features(path), [])
    features = [row.feature for row in rows[:_PROBED_OBJECTS] if row.feature is not None]
    identities = [feature.identity for feature in features]
    kinds = kinds_of_objects([*identities, *(feature.properties for feature in features)])
    return kinds | {"lon": "DOUBLE", "lat": "DOUBLE"}


def _probe_parquet(path: Path, options: Options) -> Columns:
    with open_parquet(path) as file:
        schema = file.schema_arrow
    return {field.name: kind for field in schema if (kind := kind_of_arrow(field.type)) is not None}


def _probe_layer(path: Path, options: Options) -> Columns:
    kinds: Columns = {}
    for field, column in first_columns(path, options).items():
        kinds[field] = kind_of_arrow(column.type)
        if kinds[field] == "STRING" and kind_of_text(column) == "TIMESTAMP":  # a Shapefile has no times
            kinds[field] = "TIMESTAMP"
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _probe_gpx(path: Path, options: Options) -> Columns:
    points = next(gpx_points(path, _PROBED_OBJECTS), [])
    names = dict.fromkeys([*FIRST_COLUMNS, *(name for point in points for name in point)]) if points else {}
    columns = {name: as_text(point.get(name) for point in points) for name in names}
    return {name: kind_of_text(column, TimeFormat.of(options)) for name, column in columns.items()}


def kind_of_arrow(kind: pa.DataType) -> str | None:
    """Return the column type for an Arrow type; None where there is none."""
    if isinstance(kind, pa.DictionaryType):
        return kind_of_arrow(kind.value_type)
    for is_kind, name in _ARROW_KINDS:
        if is_kind(kind):
            return name
    return None


def _whole_digits(kind: Any) -> int:
    """Return how many digits the decimals of a type have that are whole numbers, 0 for other types."""
    return int(kind.precision) if pa.types.is_decimal(kind) and kind.scale == 0 else 0


_ARROW_KINDS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (lambda kind: kind == pa.int32(), "INT"),
    (lambda kind: kind == pa.float32(), "FLOAT"),
    (pa.types.is_integer, "BIGINT"),
    (pa.types.is_floating, "DOUBLE"),
    (lambda kind: _whole_digits(kind) > _BIGINT_DIGITS, "STRING"),
    (lambda kind: _whole_digits(kind) > 0, "BIGINT"),
    (pa.types.is_decimal, "DOUBLE"),
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_timestamp, "TIMESTAMP"),
    (pa.types.is_date, "TIMESTAMP"),
    (pa.types.is_string, "STRING"),
    (pa.types.is_large_string, "STRING"),
    (pa.types.is_string_view, "STRING"),
)
_PROBES: dict[str, Callable[[Path, Options], Columns]] = {
    "csv": _probe_csv,
    "jsonl": _probe_json,
    "geojson": _probe_geojson,
    "parquet": _probe_parquet,
    "gpx": _probe_gpx,
    **dict.fromkeys(LAYER_FORMATS, _probe_layer),
}
