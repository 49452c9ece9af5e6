"""Make regions from the polygons of files and statements: read, repair and name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import shapely

from stqsh.errors import SourceError
from stqsh.sources.formats.geojson_file import read_features
from stqsh.sources.formats.geometries import geometries_of
from stqsh.sources.formats.json_documents import features_crs, has_features
from stqsh.sources.formats.json_file import JsonObject, as_text
from stqsh.sources.formats.layer_file import LAYER_FORMATS
from stqsh.sources.formats.parquet_file import geoparquet_geometry
from stqsh.sources.formats.places import PlaceOptions, find_geometry
from stqsh.sources.formats.record_parser import python_values
from stqsh.sources.formats.record_schema import RecordSchema, near
from stqsh.sources.formats.reference_systems import Projection, projection
from stqsh.sources.inference import columns_of_file
from stqsh.sources.source_files import (
    UNREADABLE,
    find_files,
    format_named,
    format_of,
    geometry_names,
    options_of,
    own_crs,
)
from stqsh.spec.region import PolygonSpec
from stqsh.spec.stream import ColumnSpec, FileSourceSpec

_COLUMNS: list[tuple[str, pa.DataType]] = [("member", pa.string()), ("wkb", pa.binary())]
GEOMETRY = pa.schema(_COLUMNS)
"""The schema of a region in the control log; `member` is null for a single region."""

USUAL_NAMES = (
    "name", "id", "zone_id", "zone", "zone_name", "region", "region_id", "district", "district_id",
    "neighborhood", "neighbourhood", "label", "title", "code", "key", "geoid", "objectid", "fid",
)  # fmt: skip
"""Properties that usually name a region, the best names first."""

_SHOWN = 5
_FARTHEST = 180 + 1e-9  # files round: a border on the 180th meridian may be at 180.00000000000006


@dataclass(frozen=True, slots=True)
class RegionSet:
    """Regions with their names, in order, as a batch of the schema `GEOMETRY`, and notes for the user."""

    geometry: pa.RecordBatch
    notes: tuple[str, ...] = ()

    @property
    def members(self) -> list[str]:
        """Return the names of a set of regions."""
        return [member for member in self.geometry.column("member").to_pylist() if member is not None]

    @property
    def beyond(self) -> tuple[str, ...]:
        """The names of the regions that extend beyond -180 to 180; "" for a single region."""
        shapes = shapely.from_wkb(self.geometry.column("wkb").to_numpy(zero_copy_only=False))
        far = abs(shapely.bounds(shapes)[:, 0::2]).max(axis=1, initial=0.0) > _FARTHEST
        members = self.geometry.column("member").to_pylist()
        return tuple(member or "" for member, is_far in zip(members, far.tolist(), strict=True) if is_far)


def read_regions(source: FileSourceSpec, name_column: str | None) -> RegionSet:
    """Read a set of regions from files; features without polygons are noted.

    Args:
        name_column: the property (or `id`) with the regions' names; None to use a common one, which is noted.

    Raises:
        SourceError: there is no file, or one that cannot be read, no polygons, no such property, or a
            duplicate name.
    """
    shapes, notes = _shapes(source)
    names, column = _names(shapes, name_column)
    if name_column is None:
        notes.append(f"guessed: NAME {column}")
    nameless = names.count(None)
    if nameless:
        notes.append(f"{nameless} regions without {column} are left out")
    kept = [(name, shape) for name, shape in zip(names, shapes, strict=True) if name is not None]
    members = [name for name, _ in kept]
    _check_unique(members, column)
    return _made(members, [shape.geometry for _, shape in kept], notes)


def region_of_rings(rings: Sequence[Sequence[Sequence[float]]]) -> RegionSet:
    """Make a region from a polygon's rings, the outer one first. Raises `SourceError` if it is empty."""
    return _made([None], [shapely.Polygon(rings[0], rings[1:])], [])


def region_of_rectangle(x1: float, y1: float, x2: float, y2: float) -> RegionSet:
    """Make a region from a rectangle. Raises `SourceError` if it is a line or a point."""
    return _made([None], [shapely.box(x1, y1, x2, y2)], [])


def region_of_member(geometry: pa.RecordBatch, member: str | None) -> RegionSet:
    """Make a single region from one member of a set, or from all members."""
    members, wkb = geometry.column("member").to_pylist(), geometry.column("wkb").to_pylist()
    chosen = [shape for name, shape in zip(members, wkb, strict=True) if member in (None, name)]
    return _made([None], [shapely.union_all(shapely.from_wkb(chosen))], [])


def polygons_of(geometry: pa.RecordBatch, member: str | None) -> tuple[PolygonSpec, ...]:
    """Return the polygons of one member of a set, or of a single region, without shared edges."""
    members, wkb = geometry.column("member").to_pylist(), geometry.column("wkb").to_pylist()
    [shape] = [shape for name, shape in zip(members, wkb, strict=True) if name == member]
    parts = shapely.get_parts(shapely.from_wkb(shape))
    return tuple(
        PolygonSpec(
            tuple(
                tuple(map(tuple, shapely.get_coordinates(ring).tolist())) for ring in shapely.get_rings(part)
            )
        )
        for part in parts.tolist()
    )


def holds_regions(path: Path) -> bool:
    """Return whether the first geometry of a file is a polygon; a text file counts as GeoJSON.

    Raises:
        OSError: the file cannot be read. SourceError: the package for its format is not installed.
    """
    source = FileSourceSpec(str(path))
    try:
        form = format_of(path, source)
    except SourceError:
        return False
    has_shapes = form in ("geojson", *LAYER_FORMATS) or (form == "jsonl" and has_features(path))
    if not has_shapes and (form != "parquet" or geoparquet_geometry(path) is None):
        return False
    first = next((shape for shape in read_shapes(path, source) if shape.kind), None)
    return first is not None and first.kind in POLYGONAL


def no_polygons() -> RegionSet:
    """Return an empty geometry, for a circle, which is defined by its spec."""
    return RegionSet(pa.RecordBatch.from_pylist([], schema=GEOMETRY))


# -- features ------------------------------------------------------------------------------------------------


def _shapes(source: FileSourceSpec) -> tuple[list[RegionShape], list[str]]:
    """Return the polygons of all files, and notes on the other shapes."""
    shapes: list[RegionShape] = []
    others: Counter[str] = Counter()
    for file in find_files(source):
        for shape in read_shapes(file.path, source):
            if shape.kind in POLYGONAL:
                shapes.append(shape)
            else:
                others[str(shape.kind or "without a geometry")] += 1
    if not shapes:
        raise SourceError(
            f"there is no polygon in {source.glob}", hint="regions are polygons, such as those of GeoJSON"
        )
    notes = [_left_out(kind, count) for kind, count in others.items()]
    return shapes, notes


def _left_out(kind: str, count: int) -> str:
    """Return a note on features that are not regions."""
    features = "1 feature without polygons is" if count == 1 else f"{count} features without polygons are"
    return f"{features} left out ({kind})"


def _names(features: Sequence[RegionShape], column: str | None) -> tuple[list[str | None], str]:
    """Return the name of each feature, None if it has none, and the property that contains the names."""
    properties = [feature.members for feature in features]
    if column is None:
        column = _guess(properties)
    elif not any(column in found for found in properties):
        known = list(dict.fromkeys(name for found in properties for name in found))
        hint = near(column, known) or f"there are {', '.join(known[:20])}"
        raise SourceError(f"no region has a property {column}", hint=hint)
    names: list[str | None] = as_text(found.get(column) for found in properties).to_pylist()
    return names, column


def _guess(properties: Sequence[JsonObject]) -> str:
    """Return the usual property for names whose values are complete and unique."""
    columns: dict[str, str] = {}
    for found in properties:
        for name in found:
            columns.setdefault(name.lower(), name)
    for usual in USUAL_NAMES:
        column = columns.get(usual)
        values = [orjson.dumps(found.get(column), default=str) for found in properties] if column else []
        if values and len(set(values)) == len(values) and b"null" not in values:
            assert column is not None
            return column
    known = ", ".join(list(columns.values())[:20]) or "none"
    raise SourceError("no property looks like the name of each region", hint=f"add NAME and one of: {known}")


def _check_unique(members: Sequence[str], column: str) -> None:
    twice = [name for name, count in Counter(members).items() if count > 1]
    if twice:
        names = ", ".join(repr(name) for name in twice[:_SHOWN])
        hint = "another property may name them: NAME column"
        raise SourceError(f"more than one region has the {column} {names}", hint=hint)


# -- geometry ------------------------------------------------------------------------------------------------


def _made(members: Sequence[str | None], geometries: list[Any], notes: list[str]) -> RegionSet:
    """Make geometries valid and keep their polygons; geometries without any are dropped."""
    repaired, empty, kept = [], [], []
    for member, geometry in zip(members, geometries, strict=True):
        label = member or "the region"
        whole = geometry is not None and shapely.is_valid(geometry)
        polygons = shapely.force_2d(geometry if whole else _polygons(shapely.make_valid(geometry)))
        if polygons is None or polygons.is_empty:
            empty.append(label)
            continue
        kept.append((member, shapely.to_wkb(polygons)))
        if not whole:
            repaired.append(label)
    if not kept:
        raise SourceError("the region encloses nothing" if None in members else "no region encloses anything")
    notes = list(notes)
    if repaired:
        notes.append(f"made valid: {_listed(repaired)}")
    if empty:
        notes.append(f"left out, they enclose nothing: {_listed(empty)}")
    columns = [[member for member, _ in kept], [wkb for _, wkb in kept]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, GEOMETRY, strict=True)]
    return RegionSet(pa.RecordBatch.from_arrays(arrays, schema=GEOMETRY), tuple(notes))


def _polygons(geometry: Any) -> Any:
    """Keep the polygons of a repaired geometry; its lines and points have no area."""
    parts = shapely.get_parts(shapely.get_parts(geometry))
    polygons = [part for part in parts if part.geom_type == "Polygon"]
    if not polygons:
        return None
    return polygons[0] if len(polygons) == 1 else shapely.multipolygons(polygons)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


POLYGONAL = ("Polygon", "MultiPolygon")
"""The types of geometries that are regions."""


class RegionShape(NamedTuple):
    """A geometry of a file (None if there is none), its type, and its properties by name."""

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
        return format_named(form).read(path, layout, options)

    names = geometry_names(path, form) if places.geometry is None else (places.geometry,)
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
    """Return values as JSON types; bytes become text."""
    return [one.decode(errors="replace") if isinstance(one, bytes) else one for one in python_values(column)]


def _in_degrees(geometry: Any, project: Projection | None) -> Any:
    if project is None or geometry is None:
        return geometry
    return shapely.transform(geometry, lambda places: np.column_stack(project(places[:, 0], places[:, 1])))
