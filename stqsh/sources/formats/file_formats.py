"""The built-in file formats: their readers, file name endings, and how columns are found.

A package adds formats in the same way: the rest of stqsh knows a format only as a `FileFormat`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import orjson
import pyarrow as pa

from stqsh.errors import SourceError
from stqsh.sources.formats.casting import ISO, cast_column, without_null_words
from stqsh.sources.formats.csv_file import (
    CsvDialect,
    csv_rows,
    csv_text_blocks,
    read_csv_blocks,
    take_header,
    text_columns,
    without_empty,
)
from stqsh.sources.formats.geojson_file import read_features, read_geojson_blocks
from stqsh.sources.formats.gpx_file import FIRST_COLUMNS, gpx_points, read_gpx_blocks
from stqsh.sources.formats.json_documents import has_features, read_json_blocks
from stqsh.sources.formats.json_elements import read_json_text
from stqsh.sources.formats.json_file import JsonObject, as_text, flat_members, member
from stqsh.sources.formats.layer_file import first_columns, layer_crs, read_layer_blocks
from stqsh.sources.formats.parquet_file import geoparquet_geometry, open_parquet, read_parquet_blocks
from stqsh.sources.formats.pyarrow_typing import Array, pc
from stqsh.sources.formats.record_parser import RowBlock
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.formats.row_blocks import TextBlock, find_rows
from stqsh.sources.formats.time_formats import TimeFormat
from stqsh.spec.stream import MOST_COLUMNS, Options

#: The number of bytes, and of objects, that are read from a file to find its columns.
_PROBED_BYTES, PROBED_OBJECTS = 1 << 18, 2000
_WHOLE_TYPES = {"INT", "BIGINT"}
_NUMBER_TYPES = _WHOLE_TYPES | {"FLOAT", "DOUBLE"}
#: Whole numbers of up to 18 digits are BIGINTs; longer ones may lose digits as DOUBLEs.
_BIGINT_DIGITS, _BIGINT_END = 18, 2**63
_WHOLE_NUMBER = r"^-?(0|[1-9]\d*)$"
_ISO_DATE = r"^\d{4}-\d\d-\d\d"
_WORDS = pa.array(["true", "false"])

Columns = dict[str, str | None]
"""Names and types; the type is None if all values are null."""


class Reader(Protocol):
    """Reads a file in blocks of about `size` bytes of text, or of rows."""

    def __call__(
        self, path: Path, layout: RecordSchema, options: Options, size: int | None = None, /
    ) -> Iterator[RowBlock]:
        """Yield the blocks of a file."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A file format, built in or from a package, see `stqsh/docs/extending.md`.

    Attributes:
        read: yields the rows of a file.
        endings: the endings of files of this format, such as ".rep", in lower case.
        columns: returns the columns of a file and their types, None for those with only nulls; without it,
            statements have to list the columns.
        geometry: returns the geometry column that a file declares; None if it declares none.
        crs: returns the reference system that a file declares for its geometries; None if it declares none.
    """

    read: Reader
    endings: tuple[str, ...] = ()
    columns: Callable[[Path, Options], Mapping[str, str | None]] | None = None
    geometry: Callable[[Path], str | None] | None = None
    crs: Callable[[Path, Options], str | None] | None = None


def common_type(one: str | None, other: str | None) -> str | None:
    """Return the type that can hold the values of both types.

    >>> common_type("INT", "BIGINT"), common_type("INT", "FLOAT"), common_type("BIGINT", "BOOLEAN")
    ('BIGINT', 'DOUBLE', 'STRING')
    """
    if one == other or one is None or other is None:
        return one or other
    if {one, other} <= _WHOLE_TYPES:
        return "BIGINT"
    return "DOUBLE" if {one, other} <= _NUMBER_TYPES else "STRING"


def _csv_columns(path: Path, options: Options) -> Columns:
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
    """Return the columns of a CSV file's first rows, binary, with null for empty; {} for an empty file."""
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
    """Return the narrowest type of a text column, None if it is empty.

    Numbers with leading zeros are text, and so are integers too large for BIGINT, because they may be keys.

    Args:
        times: the format of times that are not in ISO 8601.
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


def _json_columns(path: Path, options: Options) -> Columns:
    if has_features(path):
        return _geojson_columns(path, options)
    text = next(read_json_text(path, _PROBED_BYTES), None)
    lines = text.text.split(b"\n", PROBED_OBJECTS)[:PROBED_OBJECTS] if text else []
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
    """Return the types of JSON objects' members, without lists; members of inner objects are named `a.b`."""
    kinds: Columns = {}
    for found in objects:
        for name in flat_members(found):
            value = member(found, name)
            if not isinstance(value, list | dict):
                kinds[name] = common_type(kinds.get(name), _kind_of_value(value))
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


def _geojson_columns(path: Path, options: Options) -> Columns:
    rows = next(read_features(path), [])
    features = [row.feature for row in rows[:PROBED_OBJECTS] if row.feature is not None]
    identities = [feature.identity for feature in features]
    kinds = kinds_of_objects([*identities, *(feature.properties for feature in features)])
    shapes = {feature.geometry_type for feature in features} - {None}
    has_places = not shapes or "Point" in shapes
    return kinds | ({"lon": "DOUBLE", "lat": "DOUBLE"} if has_places else {})


def _parquet_columns(path: Path, options: Options) -> Columns:
    with open_parquet(path) as file:
        schema = file.schema_arrow
    return {field.name: kind for field in schema if (kind := kind_of_arrow(field.type)) is not None}


def _layer_columns(path: Path, options: Options) -> Columns:
    kinds: Columns = {}
    for field, column in first_columns(path, options).items():
        kinds[field] = kind_of_arrow(column.type)
        if kinds[field] == "STRING" and kind_of_text(column) == "TIMESTAMP":  # Shapefiles have no time type
            kinds[field] = "TIMESTAMP"
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _gpx_columns(path: Path, options: Options) -> Columns:
    points = next(gpx_points(path, PROBED_OBJECTS), [])
    names = dict.fromkeys([*FIRST_COLUMNS, *(name for point in points for name in point)]) if points else {}
    columns = {name: as_text(point.get(name) for point in points) for name in names}
    return {name: kind_of_text(column, TimeFormat.of(options)) for name, column in columns.items()}


def kind_of_arrow(kind: pa.DataType) -> str | None:
    """Return the column type for an Arrow type; None if there is none."""
    if isinstance(kind, pa.DictionaryType):
        return kind_of_arrow(kind.value_type)
    for is_kind, name in _ARROW_KINDS:
        if is_kind(kind):
            return name
    return None


def _whole_digits(kind: Any) -> int:
    """Return the number of digits of an integral decimal type, 0 for other types."""
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


def _named_geometry(path: Path) -> str | None:
    found = geoparquet_geometry(path)
    return None if found is None else found[0]


def _geometry_crs(path: Path, options: Options) -> str | None:
    found = geoparquet_geometry(path)
    return None if found is None else found[1]


def _layers(ending: str) -> FileFormat:
    return FileFormat(read_layer_blocks, (ending,), _layer_columns, crs=layer_crs)


BUILT_IN: dict[str, FileFormat] = {
    "csv": FileFormat(read_csv_blocks, (".csv", ".tsv", ".txt"), _csv_columns),
    "jsonl": FileFormat(read_json_blocks, (".jsonl", ".ndjson", ".json"), _json_columns),
    "geojson": FileFormat(read_geojson_blocks, (".geojson", ".geojsonl"), _geojson_columns),
    "parquet": FileFormat(
        read_parquet_blocks,
        (".parquet", ".pq", ".geoparquet"),
        _parquet_columns,
        geometry=_named_geometry,
        crs=_geometry_crs,
    ),
    "gpx": FileFormat(read_gpx_blocks, (".gpx",), _gpx_columns),
    "gpkg": _layers(".gpkg"),
    "shapefile": _layers(".shp"),
    "fgb": _layers(".fgb"),
}
"""The formats by their names in `FORMAT`."""
