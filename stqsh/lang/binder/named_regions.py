"""CREATE REGION and CREATE REGIONS to AreaSpecs."""

from __future__ import annotations

from stqsh.lang.ast.statements import CreateRegion, CreateRegions
from stqsh.lang.binder.names import check_free
from stqsh.lang.binder.regions import fixed_region
from stqsh.lang.binder.streams import source_spec
from stqsh.lang.binder.unsupported import SOURCE_RULES, check
from stqsh.lang.catalogue import CatalogueView, Spec


def create_region(statement: CreateRegion, catalogue: CatalogueView) -> Spec:
    """The AreaSpec of a single region without its id, and under "region" the region it is made from.

    That is a rectangle, a polygon, or a region that exists ("area"). Raises `BindFault`, `NotSupportedError`.
    """
    check_free(statement.name, catalogue)
    region = fixed_region(statement.region, catalogue)
    return {"name": statement.name.text, "set": False, "members": [], "source": None, "region": region}


def create_regions(statement: CreateRegions, catalogue: CatalogueView) -> Spec:
    """The AreaSpec of a set of regions without its id and, as they stand in the file, its members.

    Under "name_column" is the column (or property) that names them, None where it is to be guessed.
    Raises `BindFault`, `NotSupportedError`.
    """
    check(SOURCE_RULES, statement)
    check_free(statement.name, catalogue)
    column = statement.name_column
    return {
        "name": statement.name.text,
        "set": True,
        "members": [],
        "source": source_spec(statement.source),
        "name_column": None if column is None else column.text,
    }
