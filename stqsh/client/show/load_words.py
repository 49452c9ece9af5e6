"""Summarize the load of significant streams: what exact answers need, what is allowed, what that costs.

All figures are computed from the slots' reports of S: the number of objects by the number of queries that
need each, for kept objects and for dropped ones. Shedding by objects first drops the objects that the fewest
queries need (SOLE section 6.4), so S also predicts what another budget would keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

from stqsh.spec.stats import StreamMemory
from stqsh.storage.shedding_orders import MemorySettings
from stqsh.units import format_size

GOOD = 0.9
"""The share of all needs for which the sentence suggests a budget."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The objects of significant streams that queries need, over all slots.

    Attributes:
        counts: objects that may be dropped, by the number of queries that need each: 1, 2, … and more.
        fixed: objects that no shedding drops.
        size: the average number of bytes per object.
    """

    counts: tuple[int, ...] = ()
    fixed: int = 0
    size: float = 0.0

    @property
    def objects(self) -> int:
        """The number of objects that exact answers need."""
        return self.fixed + sum(self.counts)

    def kept_share(self, objects: float) -> float:
        """Return the largest share of all needs that so many objects can satisfy, 0 to 1."""
        # Drop the objects that the fewest queries need first, which loses the fewest needs per object.
        needed = self._needed
        lost, excess = 0.0, max(0.0, self.objects - objects)
        for queries, count in enumerate(self.counts, start=1):
            dropped = min(excess, count)
            lost, excess = lost + queries * dropped, excess - dropped
        return 1 - lost / needed if needed else 1.0

    def objects_for(self, share: float) -> int:
        """Return the number of objects that satisfy a share of all needs."""
        # The inverse of `kept_share`: drop objects in the same order while the lost needs are few enough.
        may_lose, dropped = (1 - share) * self._needed, 0
        for queries, count in enumerate(self.counts, start=1):
            fit = min(count, floor(may_lose / queries))
            may_lose, dropped = may_lose - queries * fit, dropped + fit
            if fit < count:
                break
        return self.objects - dropped

    @property
    def _needed(self) -> int:
        """The number of needs: pairs of a query and an object it needs; a fixed object counts once."""
        return self.fixed + sum(queries * count for queries, count in enumerate(self.counts, start=1))


def demand(reported: Sequence[StreamMemory]) -> Demand:
    """Return the needs of queries, from the reports of all slots."""
    kept, dropped = (
        tuple(sum(column) for column in zip(*columns, strict=True))
        for columns in ([one.histogram for one in reported], [one.dropped for one in reported])
    )
    objects = sum(one.objects for one in reported)
    counts = tuple(map(sum, zip(kept, dropped, strict=True))) if dropped else kept
    return Demand(counts, objects - sum(kept), sum(one.bytes for one in reported) / max(1, objects))


def load_sentence(needs: Demand, wished: MemorySettings, accuracy: float | None) -> str:
    """Return what exact answers need, what is allowed, and what that costs or will cost.

    Args:
        needs: what queries need.
        wished: what the settings allow.
        accuracy: the mean accuracy of the answers now; None if it is unknown or not to be mentioned.
    """
    exact = f"exact answers need {needs.objects:,} object{'' if needs.objects == 1 else 's'}"
    if wished.in_bytes:
        exact += f" ({format_size(ceil(needs.objects * needs.size))})"
    if not wished.sheds or wished.budget is None:
        return f"{exact}: all are kept, nothing is shed"
    allowed = wished.budget / needs.size if wished.in_bytes and needs.size else float(wished.budget)
    given = format_size(wished.budget) if wished.in_bytes else f"{wished.budget:,}"
    if needs.objects <= allowed:
        return f"{exact}; you allow {given}: all are kept"
    target = allowed * wished.keep
    brought = format_size(floor(wished.target or 0)) if wished.in_bytes else f"{floor(target):,}"
    parts = [f"{exact}; you allow {given}, which shedding brings down to {brought}"]
    if accuracy is not None:
        parts.append(f"answers are {_percent(accuracy)} accurate on average")
    if wished.mode == "object":
        parts.append(f"that keeps about {_percent(needs.kept_share(target))} of what queries need")
        better = needs.objects_for(GOOD)
        if better > target:
            budget = ceil(better / wished.keep * (needs.size if wished.in_bytes else 1))
            more = format_size(budget) if wished.in_bytes else f"{budget:,}"
            parts.append(f"a budget of {more} would keep {_percent(GOOD)}")
    else:
        parts.append("regions and the caches around them shrink until it fits")
    return "; ".join(parts)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share < 1 else "100 %"
