"""The query kinds, one module each; `KINDS` is the only place that names them all.

`stqsh.core.contract.query_kind` describes what a kind implements.
"""

from __future__ import annotations

from stqsh.core.contract.query_kind import QueryKind
from stqsh.core.kinds.aggregates import AggregateKind
from stqsh.core.kinds.first import FirstKind
from stqsh.core.kinds.nearest import NearestKind
from stqsh.core.kinds.nearest_aggregates import NearestAggregateKind
from stqsh.core.kinds.nearest_first import NearestFirstKind
from stqsh.core.kinds.ranges import RangeKind
from stqsh.core.kinds.records import RecordsKind
from stqsh.core.kinds.refreshed_nearest import RefreshedNearestKind

KINDS: dict[str, QueryKind] = {
    kind.name: kind
    for kind in (
        RangeKind(),
        NearestKind(),
        AggregateKind(),
        NearestAggregateKind(),
        RefreshedNearestKind(),
        FirstKind(),
        NearestFirstKind(),
        RecordsKind(),
    )
}
"""The kinds by the name that a query's spec gives in "kind"."""
