"""Read the polygons of files, in degrees, with what the files say of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import shapely

from stqsh.errors import SourceError
from stqsh.sources.formats.geojson_file import read_features
from stqsh.sources.formats.json_documents import features_crs, has_features
from stqsh.sources.formats.json_file import JsonObject
from stqsh.sources.formats.places import PlaceOptions, find_geometry, geometries_of, usual_geometries
from stqsh.sources.formats.record_parser import python_values
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.formats.reference_systems import Projection, projection
from stqsh.sources.inference import columns_of_file
from stqsh.sources.source_files import UNREADABLE, format_of, options_of, own_crs, reader_of
from stqsh.spec.stream import ColumnSpec, FileSourceSpec

POLYGONAL = ("Polygon", "MultiPolygon")
"""The types of geometries that are regions."""


class RegionShape(NamedTuple):
    """A geometry of a file, None where there is none, its type, and what the file says of it by name."""

    geometry: Any
    kind: str | None
    members: JsonObject


def read_shapes(path: Path, source: FileSourceSpec) -> Iterator[RegionShape]:
    """Yield the geometries of a file.

    Raises:
        SourceError: the file cannot be read, its format is unknown, or it has no geometries.
    """
    try:
        form = format_of(path, source)
        if form == "geojson" or (form == "jsonl" and has_features(path)):
            yield from _of_features(path, PlaceOptions.of(source.options))
        else:
            yield from _of_table(path, source)
    except UNREADABLE as problem:
        raise SourceError(f"{path} cannot be read: {problem}") from problem


def _of_features(path: Path, places: PlaceOptions) -> Iterator[RegionShape]:
    project = projection(places.crs or features_crs(path))
    for rows in read_features(path):
        for row in rows:
            feature = row.feature
            if feature is None:
                yield RegionShape(None, None, {})
            elif feature.geometry_type not in POLYGONAL:
                yield RegionShape(None, feature.geometry_type, feature.members)
            else:
                found = shapely.from_geojson(orjson.dumps(feature.geometry), on_invalid="ignore")
                yield RegionShape(_in_degrees(found, project), feature.geometry_type, feature.members)


def _of_table(path: Path, source: FileSourceSpec) -> Iterator[RegionShape]:
    form, options, places = format_of(path, source), options_of(path, source), PlaceOptions.of(source.options)

    def read(layout: RecordSchema) -> Any:
        return reader_of(form)(path, layout, options)

    names = usual_geometries(path, form) if places.geometry is None else (places.geometry,)
    geometry = find_geometry(read, names)
    if geometry is None:
        hint = "such as polygons in WKT; FORMAT CSV (geometry => 'column') names it"
        raise SourceError(f"{path} has no column of geometries", hint=hint)
    project = projection(places.crs or own_crs(path, form, options))
    further = [name for name in columns_of_file(path, source) if name != geometry and name not in places.axes]
    columns = tuple(ColumnSpec(name, "STRING") for name in (*further, geometry))
    for block in read(RecordSchema(columns, "")):
        *values, column = block.columns
        shapes = geometries_of(column)
        rows = zip(*map(_plain_values, values), strict=True) if values else ((),) * len(shapes)
        for found, row in zip(shapes.tolist(), rows, strict=True):
            kind = None if found is None else str(found.geom_type)
            whole = _in_degrees(found, project) if kind in POLYGONAL else None
            yield RegionShape(whole, kind, dict(zip(further, row, strict=True)))


def _plain_values(column: Any) -> list[object]:
    """Return values as JSON has them; bytes as text."""
    return [one.decode(errors="replace") if isinstance(one, bytes) else one for one in python_values(column)]


def _in_degrees(geometry: Any, project: Projection | None) -> Any:
    if project is None or geometry is None:
        return geometry
    return shapely.transform(geometry, lambda places: np.column_stack(project(places[:, 0], places[:, 1])))
