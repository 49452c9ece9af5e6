"""CREATE REGION and REGIONS: their polygons go into the control log, made valid and named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stqsh.errors import StqshError
from stqsh.lang import ast
from stqsh.lang.bind import bind
from stqsh.lang.errors import locating
from stqsh.lang.printer import to_sql
from stqsh.session import changes
from stqsh.session.catalogue import area_geometry
from stqsh.session.creation import there_already
from stqsh.session.desk import Desk
from stqsh.session.records import Spec
from stqsh.session.results import Message, Outcome
from stqsh.session.sourcing import pointing_at_source, with_absolute_files

if TYPE_CHECKING:
    from stqsh.sources.regions import Regions

_ONLY_WHILE_CREATING = ("region", "name_column")
"""What the binder says of where an area's geometry comes from; it is not kept."""


def create_region(desk: Desk, statement: ast.CreateRegion) -> Iterator[Outcome]:
    """Enter a region of its own: a polygon, a rectangle, or one that is there under another name."""
    if desk.knows(statement.name.text):
        yield there_already(desk, statement)
        return
    bound = bind(statement, desk.view)
    with locating(statement.piece):
        regions = _regions_of(desk, bound.spec["region"])
    made_from = {"area": bound.spec["region"]["area"]} if bound.spec["region"]["type"] == "area" else {}
    yield _entered(desk, statement, {**bound.spec, **made_from}, regions)


def create_regions(desk: Desk, statement: ast.CreateRegions) -> Iterator[Outcome]:
    """Enter a set of regions, read from GeoJSON at once."""
    if desk.knows(statement.name.text):
        yield there_already(desk, statement)
        return
    from stqsh.sources.regions import read_regions  # shapely: not before it is needed

    with pointing_at_source(statement):
        statement = with_absolute_files(statement, desk.script)
        bound = bind(statement, desk.view)
        regions = read_regions(bound.spec["source"], bound.spec["name_column"])
    yield _entered(desk, statement, {**bound.spec, "members": regions.members}, regions)


def _entered(desk: Desk, statement: ast.Statement, spec: Spec, regions: Regions) -> Message:
    from stqsh.core.chunks import pack

    kept = {name: value for name, value in spec.items() if name not in _ONLY_WHILE_CREATING}
    area = changes.create_area(desk.link.db, f"{to_sql(statement)};", kept, pack(regions.geometry))
    desk.link.wake()
    count = f" of {len(regions.members)}" if area.spec["set"] else ""
    return Message("\n".join([f"{area.word} {area.name}{count} created", *regions.notes]))


def _regions_of(desk: Desk, region: Spec) -> Regions:
    """The geometry of a bound region that stands still. Raises `StqshError` where it encloses nothing."""
    from stqsh.core.chunks import unpack
    from stqsh.sources.regions import region_of_member, region_of_rectangle, region_of_rings

    kind: Any = region["type"]
    if kind == "polygon":
        return region_of_rings(region["rings"])
    if kind == "rect":
        return region_of_rectangle(*(region[name] for name in ("x1", "y1", "x2", "y2")))
    if kind == "area":
        return region_of_member(unpack(area_geometry(desk.link.db, region["area"])), region["member"])
    raise StqshError("a region is a polygon, a rectangle, or a region that is there")
