"""CREATE REGION and REGIONS: make polygons valid, name them, and write them to the control log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from stqsh.client.results import Message, Outcome
from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.create import there_already
from stqsh.client.statements.source_paths import pointing_at_source, with_absolute_files
from stqsh.errors import SourceError, StqshError
from stqsh.lang.ast import statements
from stqsh.lang.binder.bind import bind
from stqsh.lang.errors import BindError, locating
from stqsh.lang.printer.printer import to_sql
from stqsh.sources.region_files import (
    no_polygons,
    read_regions,
    region_of_member,
    region_of_rectangle,
    region_of_rings,
)
from stqsh.spec.chunk import pack, unpack
from stqsh.spec.region import CircleSpec, NamedRegionSpec, PolygonSpec, RectangleSpec, Region
from stqsh.spec.stream import AreaSpec
from stqsh.storage import catalogue_writer
from stqsh.storage.catalogue import area_geometry

if TYPE_CHECKING:
    from stqsh.sources.region_files import RegionSet


def create_region(context: StatementContext, statement: statements.CreateRegion) -> Iterator[Outcome]:
    """Create a single region: a polygon, a rectangle, a circle, or an existing one under another name."""
    if context.knows(statement.name.text):
        yield there_already(context, statement)
        return
    bound = bind(statement, context.view)
    with locating(statement.piece):
        try:
            regions = _regions_of(context, bound.spec.region)
        except SourceError as error:
            raise BindError(error.message, statement.region.span, hint=error.hint) from error
    yield _entered(context, statement, bound.spec.spec, regions)


def create_regions(context: StatementContext, statement: statements.CreateRegions) -> Iterator[Outcome]:
    """Create a set of regions, read from GeoJSON at once."""
    if context.knows(statement.name.text):
        yield there_already(context, statement)
        return
    with pointing_at_source(statement):
        statement = with_absolute_files(statement, context.script)
        bound = bind(statement, context.view)
        regions = read_regions(bound.spec.spec.source, bound.spec.name_column)
    spec = msgspec.structs.replace(bound.spec.spec, members=tuple(regions.members))
    yield _entered(context, statement, spec, regions)


def _entered(
    context: StatementContext, statement: statements.Statement, spec: AreaSpec, regions: RegionSet
) -> Message:
    spec = msgspec.structs.replace(spec, beyond=regions.beyond)
    area = catalogue_writer.create_area(
        context.connection.db, f"{to_sql(statement)};", spec, pack(regions.geometry)
    )
    context.connection.wake()
    count = f" of {len(regions.members)}" if area.spec.set else ""
    return Message("\n".join([f"{area.word} {area.name}{count} created", *regions.notes]))


def _regions_of(context: StatementContext, region: Region) -> RegionSet:
    """Return the geometry of a bound stationary region; raise `StqshError` if its area is empty."""
    if isinstance(region, PolygonSpec):
        return region_of_rings(region.rings)
    if isinstance(region, RectangleSpec):
        return region_of_rectangle(*region.box)
    if isinstance(region, NamedRegionSpec):
        return region_of_member(unpack(area_geometry(context.connection.db, region.area)), region.member)
    if isinstance(region, CircleSpec):
        return no_polygons()
    raise StqshError("a region is a circle, a polygon, a rectangle, or an existing region")
