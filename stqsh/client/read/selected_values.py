"""The meaning of select-list columns for display: lengths, names of regions, and shapes of regions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stqsh.spec.expression import (
    ColumnExpr,
    DistanceExpr,
    DistanceToExpr,
    Expr,
    ExtentDistanceExpr,
    FunctionExpr,
    RegionOfExpr,
)
from stqsh.storage.catalogue import area_geometry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stqsh.spec.query import BoundQuery
    from stqsh.storage.control_log import ControlDb


_KEEPING = ("min", "max", "avg", "sum")
"""Aggregate functions whose values have the unit of their argument."""


def lengths_in(spec: BoundQuery, *, planar: bool) -> frozenset[int]:
    """Return the positions of the columns that hold lengths in metres; none of a planar stream."""
    if planar:
        return frozenset()
    return frozenset(place for place, value in _values(spec) if _is_length(value))


def _is_length(value: Expr) -> bool:
    if isinstance(value, FunctionExpr):
        return value.name == "ST_DISTANCE"
    return isinstance(value, DistanceExpr | DistanceToExpr | ExtentDistanceExpr)


def region_in(spec: BoundQuery) -> tuple[int, int] | None:
    """Return the position of the first `REGION(zones)` column, and the id of the set; None without one."""
    found = ((place, value.area) for place, value in _values(spec) if isinstance(value, RegionOfExpr))
    return next(found, None)


def region_group(spec: BoundQuery) -> tuple[int, int] | None:
    """Return the position of the first `REGION(zones)` in GROUP BY and the set's id; None without one."""
    if spec.aggregates is None or spec.aggregates.distinct:  # then keys are what is shown
        return None
    groups = spec.aggregates.groups
    found = (
        (place, group.value.area)
        for place, group in enumerate(groups)
        if isinstance(group.value, RegionOfExpr)
    )
    return next(found, None)


def _values(spec: BoundQuery) -> Iterator[tuple[int, Expr]]:
    """Yield the positions of columns, each with the expression over records that determines its unit."""
    if spec.aggregates is None:
        yield from ((place, column.value) for place, column in enumerate(spec.result.select))
        return
    groups = {f"g{number}": group.value for number, group in enumerate(spec.aggregates.groups)}
    measured = {
        f"m{number}": measure.argument
        for number, measure in enumerate(spec.aggregates.measures)
        if measure.function in _KEEPING and measure.argument is not None
    }
    for place, column in enumerate(spec.aggregates.select):
        if isinstance(column.value, ColumnExpr):
            value = (groups | measured).get(column.value.name)
            if value is not None:
                yield place, value


def member_shapes(db: ControlDb, area: int) -> Mapping[str, bytes]:
    """Return the geometries of a set's members as GeoJSON texts by name, even if the set has been dropped."""
    import shapely  # this and pyarrow take a while to load

    from stqsh.spec.chunk import unpack

    geometry = unpack(area_geometry(db, area))
    names = geometry.column("member").to_pylist()
    shapes = shapely.from_wkb(geometry.column("wkb").to_numpy(zero_copy_only=False))
    texts = shapely.to_geojson(shapes).tolist()
    return {name: text.encode() for name, text in zip(names, texts, strict=True) if name is not None}
