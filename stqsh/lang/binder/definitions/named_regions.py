"""Bind CREATE REGION and CREATE REGIONS to AreaSpecs."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from stqsh.lang.ast.statements import CreateRegion, CreateRegions
from stqsh.lang.binder.definitions.streams import source_spec
from stqsh.lang.binder.names import check_free
from stqsh.lang.binder.regions import fixed_region
from stqsh.lang.binder.unsupported import SOURCE_RULES, check
from stqsh.lang.catalogue import CatalogueView
from stqsh.spec.region import CircleSpec, NamedRegionSpec, Region
from stqsh.spec.stream import AreaSpec


class NewRegion(NamedTuple):
    """A single region to create, with its bound definition."""

    spec: AreaSpec
    region: Region


class NewRegionSet(NamedTuple):
    """A set of regions to create, whose members have not been read yet.

    `name_column` is the column or property with their names; None if it must be guessed.
    """

    spec: AreaSpec
    name_column: str | None


def create_region(statement: CreateRegion, catalogue: CatalogueView) -> NewRegion:
    """Bind a single region: a rectangle, a circle, a polygon, or an existing region under another name.

    Raises `BindFault` and `NotSupportedError`.
    """
    check_free(statement.name, catalogue)
    region = fixed_region(statement.region, catalogue)
    made_from = region.area if isinstance(region, NamedRegionSpec | CircleSpec) else None
    circle = replace(region, area=None) if isinstance(region, CircleSpec) else None
    return NewRegion(AreaSpec(name=statement.name.text, area=made_from, circle=circle), region)


def create_regions(statement: CreateRegions, catalogue: CatalogueView) -> NewRegionSet:
    """Bind a set of regions. Raises `BindFault` and `NotSupportedError`."""
    check(SOURCE_RULES, statement)
    check_free(statement.name, catalogue)
    column = statement.name_column
    spec = AreaSpec(name=statement.name.text, set=True, source=source_spec(statement.source))
    return NewRegionSet(spec, None if column is None else column.text)
