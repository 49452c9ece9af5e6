"""GeoJSON: a FeatureCollection, or one Feature a line. Points only; a Point gives the LOCATION columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from stqsh.sources.formats.json_file import as_text, load_object, member_names, shown_line
from stqsh.sources.formats.record_parser import RowBlock, RowLocation
from stqsh.sources.formats.record_schema import RecordSchema, check_options
from stqsh.sources.formats.row_blocks import PLAIN, open_bytes, read_text_blocks
from stqsh.sources.formats.time_formats import TIME_OPTIONS
from stqsh.spec.stream import Options

Feature = dict[str, Any]


class FeatureRow(NamedTuple):
    """What stands on a line (or at a place of a collection): a feature, or the reason why there is none."""

    line: int
    text: bytes
    feature: Feature | None
    reason: str


def read_geojson_blocks(path: Path, layout: RecordSchema, options: Options) -> Iterator[RowBlock]:
    """Read a GeoJSON file; columns but the location are found among the properties, or are called `id`.

    A FeatureCollection is read as a whole; its features count as lines, from 1.

    Raises:
        SourceError: no feature has the key or the time. OSError: the file cannot be read.
    """
    check_options(options, TIME_OPTIONS, "FORMAT GEOJSON")
    names: list[str] | None = None
    for number, rows in enumerate(read_features(path)):
        flat = [flatten(row, layout) for row in rows]
        good = [members for members in flat if isinstance(members, dict)]
        if names is None:
            names = member_names(b"\n".join(map(orjson.dumps, good[:100])), layout, str(path))
        yield _block(rows, flat, names, number)


def read_features(path: Path) -> Iterator[list[FeatureRow]]:
    """Read a file's features, as many at a time as its lines give."""
    with open_bytes(path) as stream:
        head = stream.read(4096)
    if is_collection(head):
        with open_bytes(path) as stream:
            yield collection_rows(stream.read())
        return
    for text in read_text_blocks(path, PLAIN):
        lines = enumerate(text.text.split(b"\n"), start=text.first_line)
        yield [FeatureRow(number, line, *load_object(line)) for number, line in lines if line.strip()]


def is_collection(head: bytes) -> bool:
    """Say, from the beginning of a file, whether it is one FeatureCollection."""
    return b'"FeatureCollection"' in head.split(b'"features"')[0]


def collection_rows(text: bytes) -> list[FeatureRow]:
    """Return the features of a FeatureCollection.

    Raises:
        OSError: it is broken, so that nothing of it can be read.
    """
    found, reason = load_object(text)
    features = found.get("features") if found else None
    if not isinstance(features, list):
        raise OSError(reason or "no FeatureCollection")
    rows = []
    for number, feature in enumerate(features, start=1):
        good = feature if isinstance(feature, dict) else None
        rows.append(FeatureRow(number, orjson.dumps(feature), good, "no JSON object"))
    return rows


def flatten(row: FeatureRow, layout: RecordSchema) -> Feature | str:
    """Return a feature as one object with the location's columns; the reason where it has no point.

    A feature without a geometry is a record with an empty location.
    """
    if row.feature is None:
        return row.reason
    geometry = row.feature.get("geometry")
    place: Any = [None, None]
    if geometry is not None:
        kind = geometry.get("type") if isinstance(geometry, dict) else None
        place = geometry.get("coordinates") if kind == "Point" else None
        if layout.located and (not isinstance(place, list) or len(place) < 2):
            return "geometry: no Point"
    properties = row.feature.get("properties") or {}
    outer = {"id": row.feature["id"]} if "id" in row.feature else {}
    if not layout.located:
        return {**outer, **_point(place), **properties}
    return {**outer, **properties, layout.x: place[0], layout.y: place[1]}


def _point(place: Any) -> Feature:
    """Return the coordinates of a table's row, which need not have any."""
    return {"lon": place[0], "lat": place[1]} if isinstance(place, list) and len(place) >= 2 else {}


def _block(
    rows: Sequence[FeatureRow], flat: Sequence[Feature | str], names: Sequence[str], number: int
) -> RowBlock:
    good = [place for place, members in enumerate(flat) if isinstance(members, dict)]
    members = [found for found in flat if isinstance(found, dict)]
    columns = [as_text(found.get(name) for found in members) for name in names]
    bad = [(_located(rows[i]), reason) for i, reason in enumerate(flat) if isinstance(reason, str)]
    size = sum(len(row.text) for row in rows)
    return RowBlock(columns, np.array(good, dtype=np.int64), partial(_locate, rows), number, tuple(bad), size)


def _locate(rows: Sequence[FeatureRow], ordinals: NDArray[np.int64]) -> list[RowLocation]:
    return [_located(rows[i]) for i in ordinals.tolist()]


def _located(row: FeatureRow) -> RowLocation:
    return RowLocation(row.line, shown_line(row.text))
