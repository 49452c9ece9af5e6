"""Read JSON files: lines, arrays, lists within an object, or GeoJSON features."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stqsh.sources.formats.geojson_file import geojson_crs, may_be_collection, read_geojson_blocks
from stqsh.sources.formats.json_elements import read_head, read_json_text
from stqsh.sources.formats.json_file import json_blocks, load_object
from stqsh.sources.formats.record_parser import RowBlock
from stqsh.sources.formats.record_schema import RecordSchema, check_options
from stqsh.sources.formats.row_blocks import BOM
from stqsh.sources.formats.time_formats import TIME_OPTIONS
from stqsh.spec.stream import Options

#: The number of bytes that are examined to find out whether a file contains features.
_HEAD = 1 << 16


def read_json_blocks(
    path: Path, layout: RecordSchema, options: Options, size: int | None = None
) -> Iterator[RowBlock]:
    """Read a JSON file in blocks of about `size` bytes; missing members are null.

    Raises:
        SourceError: an option is unknown, or no object has the key or the time.
        OSError: the file cannot be read.
    """
    check_options(options, TIME_OPTIONS, "FORMAT JSON")
    if has_features(path):
        yield from read_geojson_blocks(path, layout, options, size)
    else:
        yield from json_blocks(read_json_text(path, size), layout, str(path))


def features_crs(path: Path) -> str | None:
    """Return the reference system that a GeoJSON file declares; None if it has none, or is not GeoJSON.

    Only the beginning of the file is searched; it counts as empty if the file cannot be read.
    """
    try:
        head = read_head(path, _HEAD)
    except OSError:
        return None
    return geojson_crs(head) if b'"features"' in head or b'"geometry"' in head else None


def has_features(path: Path) -> bool:
    """Return whether a JSON file is GeoJSON: a FeatureCollection, or one Feature per line; never for a pipe.

    Raises:
        OSError: the file cannot be read.
    """
    if not path.is_file():
        return False  # data read from a pipe cannot be read again
    head = read_head(path, _HEAD)
    first, _ = load_object(head.removeprefix(BOM).lstrip().partition(b"\n")[0])
    if first is not None and first.get("type") == "Feature" and "geometry" in first:
        return True
    return may_be_collection(head)
