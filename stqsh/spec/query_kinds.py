"""The kinds of queries that a SELECT asks for by its region, without `WITH (kind => ...)`."""

from __future__ import annotations

from dataclasses import dataclass, field

from stqsh.spec.region import RegionBase


@dataclass(frozen=True)
class QueryKindEntry:
    """What binding and display have to know of a kind.

    Attributes:
        name: What a query's spec calls it.
        depends_on_slots: Whether approximate answers depend on the number of slots: each keeps candidates.
        unsupported: The options that its queries cannot have, each with the words of the error.
    """

    name: str
    depends_on_slots: bool = False
    unsupported: dict[str, str] = field(default_factory=dict)


RANGE = QueryKindEntry("range")
NEAREST = QueryKindEntry("nearest", True, {"dwell": "dwell on the nearest neighbours"})

BUILT_IN = {kind.name: kind for kind in (RANGE, NEAREST)}


def kind_of_region(region: RegionBase) -> QueryKindEntry:
    """Return the kind that a query with a region has, unless it names another."""
    return NEAREST if region.is_nearest else RANGE
