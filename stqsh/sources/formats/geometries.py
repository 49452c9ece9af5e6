"""Read geometries from columns of WKT, WKB or GeoJSON, and write extents as WKT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from stqsh.sources.formats.pyarrow_typing import Array, pc

_SRID = r"^\s*SRID=\d+;"
_WKB_BEGINS = (b"\x00", b"\x01")
_HEX_WKB = r"^\s*0[01][0-9A-Fa-f]{8}"
_JSON = r"^\s*\{.*coordinates"
_WKT = r"^\s*(SRID=\d+;)?\s*(?i:MULTI)?(?i:POINT|LINESTRING|POLYGON|GEOMETRYCOLLECTION)\b"
_POINT, _LINE, _POLYGON, _MULTIPOINT, _COLLECTION = 0, 1, 3, 4, 7
_MANY = {
    _POINT: shapely.multipoints,
    _LINE: shapely.multilinestrings,
    _POLYGON: shapely.multipolygons,
    _COLLECTION: shapely.geometrycollections,
}
"""The function that makes one geometry of several, by their type; that of a collection if they differ."""
_SHOWN = 200
"""The number of characters of a bad value that are quoted."""
_LIMITS = np.array([540.0, 90.0, 540.0, 90.0])
"""How far an extent may reach: a turn of the globe beyond the 180th meridian."""
_MERIDIAN, _TURN = 180.0, 360.0


class ExtentTexts(NamedTuple):
    """A column of extents.

    Attributes:
        texts: their WKT, string (n,); NULL for a row without one, or with one that is `bad`.
        bad: whether a value is no extent, bool (n,).
        reason: returns why a row's value is none.
    """

    texts: Array
    bad: NDArray[np.bool_]
    reason: Callable[[int], str]


def extent_texts(column: Array, *, geodetic: bool) -> ExtentTexts:
    """Return extents as WKT, in which equal coordinates always have equal texts.

    An empty geometry is an empty location. Polygons that cross themselves are made valid, and heights are
    dropped. Geodetic extents are cut at the 180th meridian.
    """
    shapes = geometries_of(column)
    missing = shapely.is_missing(shapes)
    blank = np.asarray(_are_blank(column), np.bool_)
    reach = shapely.bounds(shapes).reshape(-1, 4)
    empty = shapely.is_empty(shapes)
    with np.errstate(invalid="ignore"):
        far = ~np.isfinite(reach).all(axis=1)
        if geodetic:
            far |= (np.abs(reach) > _LIMITS).any(axis=1) | (reach[:, 2] - reach[:, 0] > _TURN)
    bad = np.where(missing, ~blank, far & ~empty)
    good = ~bad & ~missing & ~empty
    flat = shapely.force_2d(shapes[good])
    wrong = ~shapely.is_valid(flat)
    flat[wrong] = shapely.make_valid(flat[wrong])
    if geodetic:
        beyond = (np.abs(reach[good][:, [0, 2]]) > _MERIDIAN).any(axis=1)
        if beyond.any():
            flat[beyond] = _cut_at_meridian(flat[beyond])
    texts = np.full(len(shapes), None, object)
    texts[good] = shapely.to_wkt(flat, rounding_precision=-1)

    def reason(row: int) -> str:
        if missing[row]:
            value = column[row].as_py()
            text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
            return f"{text[:_SHOWN]!r} is not a geometry"
        if geodetic:
            return "the geometry reaches beyond 90 degrees of latitude, or more than once around the globe"
        return "a coordinate is not a number"

    return ExtentTexts(pa.array(texts, pa.string()), bad, reason)


def _cut_at_meridian(shapes: NDArray[Any]) -> NDArray[Any]:
    """Return shapes that reach beyond the 180th meridian as several parts within -180 to 180 degrees.

    Where a part only touches the meridian, the part on the other side has that place.
    """
    simple, owner = shapely.get_parts(shapes, return_index=True)
    while (shapely.get_type_id(simple) > _POLYGON).any():  # those in a collection
        simple, whole = shapely.get_parts(simple, return_index=True)
        owner = owner[whole]
    parts, owners = [], []
    for turn in (0.0, _TURN, -_TURN):
        window = shapely.box(turn - _MERIDIAN, -90.0, turn + _MERIDIAN, 90.0)
        cut, of = shapely.get_parts(shapely.intersection(simple, window), return_index=True)
        kept = (shapely.get_dimensions(cut) == shapely.get_dimensions(simple[of])) & ~shapely.is_empty(cut)
        parts.append(shapely.transform(cut[kept], lambda places, by=turn: places - np.array([by, 0.0])))
        owners.append(owner[of[kept]])
    order = np.argsort(np.concatenate(owners), kind="stable")
    found, of = np.concatenate(parts)[order], np.concatenate(owners)[order]
    whole, kinds, counts = np.full(len(shapes), None, object), shapely.get_type_id(found), np.bincount(of)
    first = np.cumsum(counts) - counts
    are_alike = np.maximum.reduceat(kinds, first) == np.minimum.reduceat(kinds, first)
    for kind, join in _MANY.items():
        mine = np.flatnonzero((counts > 1) & (np.where(are_alike, kinds[first], _COLLECTION) == kind))
        some = np.isin(of, mine)
        whole[mine] = join(found[some], indices=np.searchsorted(mine, of[some]))
    alone = counts == 1
    whole[alone] = found[first[alone]]
    return whole


def _are_blank(column: Array) -> Any:
    """Return whether values are NULL or an empty text."""
    empty = column.is_null()
    if _is_text(column.type):
        empty = pc.or_(empty, pc.fill_null(pc.equal(pc.binary_length(column), 0), False))
    return empty.to_numpy(zero_copy_only=False)


def are_geometries(column: Array) -> bool:
    """Return whether the first value of a column is a geometry."""
    known = column.drop_null()
    if pa.types.is_struct(column.type):
        return {field.name for field in column.type} >= {"x", "y"}
    if not len(known) or not _is_text(column.type):
        return False
    first = known[0].as_py()
    if isinstance(first, bytes) and first.startswith(_WKB_BEGINS):
        return shapely.from_wkb(first, on_invalid="ignore") is not None
    text = pa.array([first.decode(errors="replace") if isinstance(first, bytes) else first])
    return bool(pc.match_substring_regex(text, f"{_WKT}|{_HEX_WKB}|{_JSON}")[0].as_py())


def has_points(column: Array) -> bool:
    """Return whether a column has a point, or several as one geometry, or has no geometries at all."""
    kinds = shapely.get_type_id(geometries_of(column))
    known = kinds[kinds >= 0]
    return not len(known) or bool(np.isin(known, (_POINT, _MULTIPOINT)).any())


def geometries_of(column: Array) -> NDArray[Any]:
    """Return the geometries of a column, objects (n,); None for null and for other values."""
    if pa.types.is_struct(column.type):
        x, y = (pc.struct_field(column, axis).to_numpy(zero_copy_only=False) for axis in ("x", "y"))
        points: NDArray[Any] = np.asarray(shapely.points(x, y), object)
        points[column.is_null().to_numpy(zero_copy_only=False)] = None
        return points
    first = next(iter(column.drop_null()[:1].to_pylist()), b"")
    if isinstance(first, bytes) and first.startswith(_WKB_BEGINS):
        found: NDArray[Any] = shapely.from_wkb(column.to_numpy(zero_copy_only=False), on_invalid="ignore")
        return found
    text = column.cast(pa.binary()).cast(pa.string()) if not pa.types.is_string(column.type) else column
    text = pc.replace_substring_regex(text, _SRID, "")
    text = pc.utf8_trim_whitespace(text)
    out: NDArray[Any] = np.full(len(text), None, object)
    left = column.is_valid()
    for form, parse in ((_HEX_WKB, shapely.from_wkb), (_JSON, shapely.from_geojson), (".", shapely.from_wkt)):
        chosen = pc.and_(left, pc.fill_null(pc.match_substring_regex(text, form), False))
        rows = np.flatnonzero(chosen.to_numpy(zero_copy_only=False))
        out[rows] = parse(text.take(pa.array(rows)).to_numpy(zero_copy_only=False), on_invalid="ignore")
        left = pc.and_not(left, chosen)
    return out


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
    return any(test(kind) for test in tests)
