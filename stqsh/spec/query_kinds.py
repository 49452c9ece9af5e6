"""The kinds of queries that a SELECT has by its region, without `WITH (kind => ...)`."""

from __future__ import annotations

from dataclasses import dataclass, field

from stqsh.spec.region import RegionBase


@dataclass(frozen=True)
class QueryKindEntry:
    """The facts about a kind that binding and display need.

    Attributes:
        name: the kind's name in a query's spec.
        depends_on_slots: whether approximate answers depend on the number of slots: each keeps candidates.
        unsupported: the options that its queries cannot have, each with the text of the error.
    """

    name: str
    depends_on_slots: bool = False
    unsupported: dict[str, str] = field(default_factory=dict)


RANGE = QueryKindEntry("range")
NEAREST = QueryKindEntry("nearest", True, {"dwell": "dwell on the nearest neighbours"})

BUILT_IN = {kind.name: kind for kind in (RANGE, NEAREST)}


def find_kind(name: str) -> QueryKindEntry:
    """Return the facts about a kind; for one that is plugged in, those that hold unless it says otherwise."""
    return BUILT_IN.get(name) or QueryKindEntry(name)


def kind_of_region(region: RegionBase) -> QueryKindEntry:
    """Return the kind that a query with a region has, unless it names another."""
    return NEAREST if region.is_nearest else RANGE
