"""Read points from GeoJSON files: a FeatureCollection, or one Feature per line.

A Point provides the values of the LOCATION columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from stqsh.sources.formats.json_file import JsonObject, as_text, load_object, member, member_names, shown_line
from stqsh.sources.formats.record_parser import RowBlock, RowLocation
from stqsh.sources.formats.record_schema import RecordSchema, check_options
from stqsh.sources.formats.row_blocks import BOM, PLAIN, open_bytes, read_text_blocks
from stqsh.sources.formats.time_formats import TIME_OPTIONS
from stqsh.spec.stream import Options

_GEOMETRY = "geometry"
"""The column with a feature's geometry as JSON, if it is asked for and no property has that name."""
_COLLECTION = "FeatureCollection"
_CRS = re.compile(rb'"crs"\s*:\s*\{[^{}]*"properties"\s*:\s*\{\s*"name"\s*:\s*"([^"]+)"')


class Feature(NamedTuple):
    """A feature.

    Attributes:
        geometry: the JSON of the geometry, None if it is missing.
        identity: the members that are not properties: `id`, if the feature has one.
    """

    geometry: object
    properties: JsonObject
    identity: JsonObject

    @staticmethod
    def of(value: JsonObject) -> Feature:
        """Return the feature that a JSON object describes."""
        properties = value.get("properties")
        identity = {name: content for name, content in value.items() if name == "id"}
        return Feature(value.get("geometry"), properties if isinstance(properties, dict) else {}, identity)

    @property
    def geometry_type(self) -> str | None:
        """The type of the geometry, such as Point."""
        kind = self.geometry.get("type") if isinstance(self.geometry, dict) else None
        return None if kind is None else str(kind)

    @property
    def members(self) -> JsonObject:
        """The identity and the properties."""
        return {**self.identity, **self.properties}


class FeatureRow(NamedTuple):
    """A line, or an element of a collection: its feature, or the reason why it has none."""

    line: int
    text: bytes
    feature: Feature | None
    reason: str


def read_geojson_blocks(
    path: Path, layout: RecordSchema, options: Options, size: int | None = None
) -> Iterator[RowBlock]:
    """Read a GeoJSON file; columns other than the location are properties, or the member `id`.

    A FeatureCollection is read as a whole, and its features are numbered from 1 like lines; otherwise blocks
    have about `size` bytes.

    Raises:
        SourceError: no feature has the key or the time. OSError: the file cannot be read.
    """
    check_options(options, TIME_OPTIONS, "FORMAT GEOJSON")
    names: list[str] | None = None
    for number, rows in enumerate(read_features(path, size)):
        flat = [flatten(row, layout) for row in rows]
        good = [members for members in flat if isinstance(members, dict)]
        if names is None:
            names = member_names(b"\n".join(map(orjson.dumps, good[:100])), layout, str(path))
        yield _block(rows, flat, names, number)


def read_features(path: Path, size: int | None = None) -> Iterator[list[FeatureRow]]:
    """Yield the features of a file in blocks, of about `size` bytes for single features.

    Raises:
        OSError: the file cannot be read, or is a FeatureCollection with invalid JSON.
    """
    with open_bytes(path) as stream:
        head = stream.read(4096)
    if may_be_collection(head):
        with open_bytes(path) as stream:
            rows = collection_rows(stream.read())
        if rows is not None:
            yield rows
            return
    for text in read_text_blocks(path, PLAIN, size):
        lines = enumerate(text.text.split(b"\n"), start=text.first_line)
        yield [_feature_row(number, line) for number, line in lines if line.strip()]


def _feature_row(number: int, line: bytes) -> FeatureRow:
    found, reason = load_object(line)
    return FeatureRow(number, line, None if found is None else Feature.of(found), reason)


def geojson_crs(head: bytes) -> str | None:
    """Return the reference system in the beginning of an old GeoJSON file; None if it has none.

    >>> geojson_crs(b'{"crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::25832"}}')
    'urn:ogc:def:crs:EPSG::25832'
    """
    found = _CRS.search(head)
    return None if found is None else found[1].decode(errors="replace")


def may_be_collection(head: bytes) -> bool:
    """Return whether a file with this beginning may be a FeatureCollection; members may be in any order."""
    text = head.removeprefix(BOM).lstrip()
    first, _ = load_object(text.partition(b"\n")[0])
    if first is not None:
        return first.get("type") == _COLLECTION
    return text.startswith(b"{") and (b'"features"' in text or _COLLECTION.encode() in text)


def collection_rows(text: bytes) -> list[FeatureRow] | None:
    """Return the features of a FeatureCollection; None if the text is not and does not claim to be one.

    Raises:
        OSError: the text claims to be a FeatureCollection but is not.
    """
    found, reason = load_object(text.removeprefix(BOM))
    features = found.get("features") if found else None
    if not isinstance(features, list):
        if _COLLECTION.encode() in text:
            raise OSError(reason or "no FeatureCollection")
        return None
    rows = []
    for number, feature in enumerate(features, start=1):
        good = Feature.of(feature) if isinstance(feature, dict) else None
        rows.append(FeatureRow(number, orjson.dumps(feature), good, "not a JSON object"))
    return rows


def flatten(row: FeatureRow, layout: RecordSchema) -> JsonObject | str:
    """Return a feature's values by column, or the reason why it is not a record.

    A feature without a geometry is a record with an empty location.
    """
    feature = row.feature
    if feature is None:
        return row.reason
    point = _point(feature)
    if not layout.located:
        place = {} if point is None else {"lon": point[0], "lat": point[1]}
        shape = {_GEOMETRY: feature.geometry} if _GEOMETRY in layout.names else {}
        return {**feature.identity, **place, **shape, **feature.properties}
    if point is None:
        return "geometry: no Point"
    return {**feature.members, layout.x: point[0], layout.y: point[1]}


def _point(feature: Feature) -> tuple[object, object] | None:
    """Return the coordinates of a Point; empty ones without a geometry; None for other geometries."""
    if feature.geometry is None:
        return None, None
    place = feature.geometry.get("coordinates") if isinstance(feature.geometry, dict) else None
    if feature.geometry_type != "Point" or not isinstance(place, list) or len(place) < 2:
        return None
    return place[0], place[1]


def _block(
    rows: Sequence[FeatureRow], flat: Sequence[JsonObject | str], names: Sequence[str], number: int
) -> RowBlock:
    good = [place for place, members in enumerate(flat) if isinstance(members, dict)]
    records = [found for found in flat if isinstance(found, dict)]
    columns = [as_text(member(found, name) for found in records) for name in names]
    bad = [(_located(rows[i]), reason) for i, reason in enumerate(flat) if isinstance(reason, str)]
    size = sum(len(row.text) for row in rows)
    return RowBlock(columns, np.array(good, dtype=np.int64), partial(_locate, rows), number, tuple(bad), size)


def _locate(rows: Sequence[FeatureRow], ordinals: NDArray[np.int64]) -> list[RowLocation]:
    return [_located(rows[i]) for i in ordinals.tolist()]


def _located(row: FeatureRow) -> RowLocation:
    return RowLocation(row.line, shown_line(row.text))
