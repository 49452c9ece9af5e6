"""Compute the location columns: from a geometry column, and from other reference systems.

A file has its location in two numeric columns, or in one column of points as WKT or WKB. Its reference system
is given by the option `crs`, or else by the file, or else is longitude and latitude in degrees. Extents only
change their reference system here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from stqsh.errors import SourceError
from stqsh.sources.formats.casting import cast_column
from stqsh.sources.formats.geometries import are_geometries, geometries_of
from stqsh.sources.formats.pyarrow_typing import Array
from stqsh.sources.formats.record_parser import QUOTE_LIMIT, RowBlock, python_values
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.formats.reference_systems import NONE, Floats, Projection, projection
from stqsh.spec.stream import ColumnSpec, Options

ReadBlocks: TypeAlias = Callable[[RecordSchema], Iterator[RowBlock]]
"""Reads the blocks of a file with the given columns; raises `SourceError` if the file lacks one."""

PLACE_OPTIONS = ("crs", "geometry")
"""The options of FORMAT about the places of records, for all formats."""
GEOMETRY = "geometry"
"""The geometry column of the formats that have one."""
USUAL_GEOMETRIES = (
    GEOMETRY, "geom", "the_geom", "wkt", "wkb", "wkt_geom", "wkb_geometry", "geometry_wkt", "geo", "geog",
    "point", "shape", "location", "position", "coordinates",
)  # fmt: skip
"""Usual names of geometry columns."""
_POINT, _MULTIPOINT = 0, 4


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """A source's options about the places of its records.

    Attributes:
        crs: the reference system; None for the file's own.
        geometry: the geometry column; None for one with a usual name.
    """

    crs: str | None = None
    geometry: str | None = None

    @staticmethod
    def of(options: Options) -> PlaceOptions:
        """Read the options `crs` and `geometry`."""
        crs, geometry = options.get("crs"), options.get("geometry")
        return PlaceOptions(None if crs is None else str(crs), None if geometry is None else str(geometry))

    @property
    def axes(self) -> tuple[str, str]:
        """The names of the two columns that are computed from geometries."""
        return ("x", "y") if self.crs is not None and self.crs.lower() == NONE else ("lon", "lat")


class OwnPlaces(NamedTuple):
    """A file's own declarations about places, read only when needed.

    Attributes:
        geometries: returns possible names of its geometry column, the most likely first.
        crs: returns the reference system of its geometries; None if it declares none.
    """

    geometries: Callable[[], Sequence[str]]
    crs: Callable[[], str | None]


def without_places(options: Options) -> Options:
    """Return the options without those about places."""
    return {name: value for name, value in options.items() if name not in PLACE_OPTIONS}


def read_with_places(
    read: ReadBlocks, layout: RecordSchema, options: PlaceOptions, own: OwnPlaces
) -> Iterator[RowBlock]:
    """Yield the blocks of a file; location columns that it lacks are computed from its geometries.

    Args:
        read: reads the file.
        layout: the declared columns.
        options: the options about places.
        own: the file's own declarations about places.

    Raises:
        SourceError: a declared column is missing. OptionError: there is no such reference system.
    """
    if layout.extent is not None:
        yield from _projected_extents(read, layout, layout.extent, options, own)
        return
    axes = (layout.x, layout.y) if layout.located else layout.places or options.axes
    if not set(axes) <= set(layout.names):
        yield from read(layout)
        return
    geometry, first, blocks = options.geometry, None, read(layout)
    if geometry is None:
        try:
            first = next(blocks, None)
        except SourceError:
            geometry = find_geometry(read, own.geometries())
            if geometry is None:
                raise
        else:
            if first is None:
                return
            places = [first.columns[layout.position(axis)] for axis in axes]
            if all(column.null_count == len(column) for column in places):
                geometry = find_geometry(read, own.geometries())
    project = None if not layout.geodetic else projection(options.crs)
    if geometry is None:
        for block in blocks if first is None else chain([first], blocks):
            yield block if project is None else _projected(block, layout, axes, project)
        return
    if layout.geodetic and options.crs is None:
        project = projection(own.crs())
    columns = (*(one for one in layout.columns if one.name not in axes), ColumnSpec(geometry, "STRING"))
    for block in read(replace(layout, columns=columns, x="", y="")):
        yield _placed(block, layout, axes, project)


def _projected_extents(
    read: ReadBlocks, layout: RecordSchema, extent: str, options: PlaceOptions, own: OwnPlaces
) -> Iterator[RowBlock]:
    """Yield the blocks of a file with its extents in degrees; what is no geometry stays as it is."""
    project = projection(options.crs or own.crs()) if layout.geodetic else None
    if project is None:
        yield from read(layout)
        return
    place = layout.position(extent)
    for block in read(layout):
        column = block.columns[place]
        shapes = geometries_of(column)
        degrees = shapely.transform(shapes, project, interleaved=False)
        known = ~shapely.is_missing(shapes)
        texts = column.cast(pa.binary()).to_numpy(zero_copy_only=False)
        projected = pa.array(np.where(known, shapely.to_wkb(degrees), texts), pa.binary())
        yield replace(block, columns=[*block.columns[:place], projected, *block.columns[place + 1 :]])


def find_geometry(read: ReadBlocks, names: Sequence[str]) -> str | None:
    """Return the first of some columns that contains geometries; None if there is none."""
    for name in names:
        try:
            block = next(read(RecordSchema((ColumnSpec(name, "STRING"),), "")), None)
        except SourceError:
            continue
        if block is not None and are_geometries(block.columns[0]):
            return name
    return None


def _placed(
    block: RowBlock, layout: RecordSchema, axes: tuple[str, str], project: Projection | None
) -> RowBlock:
    """Return a block whose location columns are computed from its last column, which has geometries.

    If rows may have no place, a row with another geometry than a point gets none.
    """
    *others, column = block.columns
    found = geometries_of(column)
    kinds = shapely.get_type_id(found)
    single = (kinds == _MULTIPOINT) & (shapely.get_num_geometries(found) == 1)
    found = np.where(single, shapely.get_geometry(found, 0), found)
    are_points = (kinds == _POINT) | single
    x, y = shapely.get_x(found), shapely.get_y(found)
    known = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    if project is not None:
        x, y = project(x, y)
    rest = dict(zip((name for name in layout.names if name not in axes), others, strict=True))
    places = {axis: pa.array(values, mask=~are_points) for axis, values in zip(axes, (x, y), strict=True)}
    whole = replace(block, columns=[(rest | places)[name] for name in layout.names])
    bad = known & ~are_points & (layout.located | (kinds < 0))
    return _without(whole, bad, lambda row: _no_point(column, kinds, row))


def _no_point(column: Array, kinds: NDArray[Any], row: int) -> str:
    if kinds[row] >= 0:
        return f"the geometry is no Point but a {_KINDS[int(kinds[row])]}"
    [value] = python_values(column.slice(row, 1))
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return f"{text[:QUOTE_LIMIT]!r} is not a geometry"


_KINDS = (
    "Point", "LineString", "LinearRing", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon",
    "GeometryCollection",
)  # fmt: skip


def _projected(block: RowBlock, layout: RecordSchema, axes: tuple[str, str], project: Projection) -> RowBlock:
    """Return a block with coordinates in degrees; rows with invalid coordinates are set aside."""
    at = [layout.position(axis) for axis in axes]
    casts = [cast_column(block.columns[place], "DOUBLE") for place in at]
    x, y = (_numbers(cast.values) for cast in casts)
    known = [cast.values.is_valid().to_numpy(zero_copy_only=False) for cast in casts]
    both = known[0] & known[1]
    columns = list(block.columns)
    for place, values, one in zip(
        at, project(np.where(both, x, np.nan), np.where(both, y, np.nan)), known, strict=True
    ):
        columns[place] = pa.array(np.where(both, values, 0.0), mask=~one)
    bad = np.zeros(len(both), np.bool_)
    for cast in casts:
        bad |= False if cast.bad is None else cast.bad

    def reason(row: int) -> str:
        for axis, place, cast in zip(axes, at, casts, strict=True):
            if cast.bad is not None and cast.bad[row]:
                [value] = python_values(block.columns[place].slice(row, 1))
                text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
                return f"{axis}: {text[:QUOTE_LIMIT]!r} is not a valid DOUBLE"
        raise AssertionError("a bad row has a bad coordinate")

    return _without(replace(block, columns=columns), bad, reason)


def _numbers(values: Array) -> Floats:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)


def _without(block: RowBlock, bad: NDArray[np.bool_], reason: Callable[[int], str]) -> RowBlock:
    """Set aside some rows of a block; return the block with the other rows."""
    rows = np.flatnonzero(bad)
    if not len(rows):
        return block
    there = block.locate(block.ordinals[rows])
    dead = tuple((where, reason(row)) for where, row in zip(there, rows.tolist(), strict=True))
    keep: Any = pa.array(~bad)
    columns = [column.filter(keep) for column in block.columns]
    return replace(block, columns=columns, ordinals=block.ordinals[~bad], dead=(*block.dead, *dead))
