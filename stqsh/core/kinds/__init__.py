"""The query kinds, one module each, and those that packages add; only `KINDS` lists them all.

`stqsh.core.contract.query_kind` describes what a kind implements.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from stqsh import extensions
from stqsh.core.contract.query_kind import QueryKind
from stqsh.core.kinds.aggregates import AggregateKind
from stqsh.core.kinds.dwelling_aggregates import DwellingAggregateKind
from stqsh.core.kinds.nearest import NearestKind
from stqsh.core.kinds.neighbour_results import FirstRows, Groups, Rows
from stqsh.core.kinds.ranges import RangeKind
from stqsh.core.kinds.records import RecordsKind
from stqsh.core.kinds.refreshed_nearest import RefreshedNearestKind
from stqsh.core.kinds.refreshed_rows import RefreshedRowsKind
from stqsh.core.kinds.top_n import TopNKind
from stqsh.spec.query import (
    NEAREST,
    NEAREST_AGGREGATE,
    NEAREST_TOP_N,
    REFRESHED_NEAREST,
    REFRESHED_NEAREST_ROWS,
)

log = logging.getLogger("stqsh.extensions")


def _added() -> list[QueryKind]:
    """Return the kinds that packages add; a kind that cannot be loaded is logged and skipped."""
    found: list[QueryKind] = []
    for name in extensions.extension_names(extensions.KINDS):
        try:
            added: Any = extensions.find_extension(extensions.KINDS, name)
        except extensions.ExtensionError as error:
            log.error("%s", error)
            continue
        if isinstance(added, type) and issubclass(added, QueryKind) and added.name == name:
            found.append(added())
        else:
            log.error("what is added as the kind of query %r is no QueryKind of that name", name)
    return found


KINDS: dict[str, QueryKind] = {
    kind.name: kind
    for kind in (
        *_added(),
        RangeKind(),
        NearestKind(NEAREST.name, Rows),
        AggregateKind(),
        DwellingAggregateKind(),
        NearestKind(NEAREST_AGGREGATE.name, Groups),
        RefreshedNearestKind(REFRESHED_NEAREST.name, Groups),
        TopNKind(),
        NearestKind(NEAREST_TOP_N.name, FirstRows),
        RefreshedRowsKind(),
        RefreshedNearestKind(REFRESHED_NEAREST_ROWS.name, FirstRows),
        RecordsKind(),
    )
}
"""The kinds by name, which is "kind" in a query's spec."""


def missing_kinds(names: Iterable[str]) -> list[str]:
    """Return the unknown kinds among names: the package that adds them is missing or cannot be loaded."""
    return sorted(set(names) - KINDS.keys())
