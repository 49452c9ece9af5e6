"""Load shedding policy: compute the next order from settings, load and last order (SOLE section 6).

It is a pure function of the settings, the load and the current order. The load may rise up to the budget.
Beyond it shedding begins, and continues until the load is at the target, a share of the budget. Between the
two the order does not change, so that it does not oscillate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil

from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stats import StreamMemory
from stqsh.storage.shedding_orders import MemorySettings, allowed

CACHE_DOWN, CACHE_UP = 0.25, 0.1
"""Steps of the cache's share. It falls fast, and rises in small steps to avoid overshooting the budget."""
LEAST_AREA = 0.1
"""The minimum share of a region: a smaller one gives no useful answer, and would take long to grow back."""
LEAST_GROWTH, MOST_GROWTH = 0.001, 1.25
"""Growth of the share of regions' areas in one order: at least this much in all, at most by this factor."""
_NOTABLE = 0.02
"""The minimum change of `part` that is worth a new order."""
_DIGITS, _LITTLE = 4, 1e-6


@dataclass(frozen=True, slots=True)
class StreamLoad:
    """The load of significant streams after a step, over all slots.

    Attributes:
        histogram: objects that no query has locked, by reference count: S[1] … S[63], then the rest.
        report_steps: the number of steps within which every object that may come back reports.
        shadow: the number of dropped objects that still report.
        least: the lowest accuracy of a query.
        dropped: the histogram of the objects in `shadow`.
    """

    objects: int = 0
    bytes: int = 0
    histogram: tuple[int, ...] = ()
    step: int = 0
    report_steps: int = 1
    shadow: int = 0
    least: float = 1.0
    dropped: tuple[int, ...] = ()

    @property
    def by_references(self) -> tuple[int, ...]:
        """The histogram S of all objects that are not locked, held or dropped."""
        if not self.dropped:
            return self.histogram
        return tuple(map(sum, zip(self.histogram, self.dropped, strict=True)))

    def held(self, settings: MemorySettings) -> int:
        """Return the load that counts against the budget: objects or bytes."""
        return self.bytes if settings.in_bytes else self.objects

    def wanted(self, settings: MemorySettings) -> float:
        """Return the load if nothing had been dropped, assuming that bytes grow with the objects."""
        return self.held(settings) * (self.objects + self.shadow) / max(1, self.objects)


def load_of(memories: Iterable[StreamMemory], step: int, report_steps: int) -> StreamLoad:
    """Sum the memory of significant streams over slots after a step."""
    streams = list(memories)
    histogram, dropped = (
        tuple(sum(counts) for counts in zip(*columns, strict=True))
        for columns in ([one.histogram for one in streams], [one.dropped for one in streams])
    )
    return StreamLoad(
        objects=sum(one.objects for one in streams),
        bytes=sum(one.bytes for one in streams),
        histogram=histogram,
        step=step,
        report_steps=max(1, report_steps),
        shadow=sum(one.shadow for one in streams),
        least=min((one.least for one in streams), default=1.0),
        dropped=dropped,
    )


def decide(settings: MemorySettings, load: StreamLoad, now: SheddingOrder) -> SheddingOrder:
    """Return the order after `now` for a load; `now` itself if nothing changes.

    Over the budget, object shedding drops the objects that fewer than k queries want, with the smallest k
    that brings the load to the target (SOLE section 6.4). SOLE stops dropping there, but a dropped object
    would come back with its next report. So k stays, and of the objects that k - 1 queries want only the
    necessary part is dropped. S also counts dropped objects, so it shows in advance what must be dropped and
    what may come back. Everything comes back once all of it fits the target. Query shedding shrinks caches
    first, then regions, and lets them grow back, step by step, below the target (section 6.3).
    """
    order = allowed(settings, now)
    if settings.sheds:
        rule = _shed_objects if settings.mode == "object" else _shed_queries
        order = rule(settings, load, order)
    return now if order.same_as(now) else replace(order, step=load.step)


def _shed_objects(settings: MemorySettings, load: StreamLoad, now: SheddingOrder) -> SheddingOrder:
    """Return an order that drops more objects once the load exceeds the budget, or fewer below the target."""
    held, budget, target = load.held(settings), settings.budget or 0, settings.target or 0.0
    if now.k == 1 and held <= budget:
        return now
    if load.wanted(settings) <= target:
        return replace(now, k=1, part=1.0)
    # Bytes are assumed to shrink with the objects; the next batch corrects the error.
    excess = load.objects * (1 - target / max(1, held)) + load.shadow
    k, part = least_k(load.by_references, excess)
    more = (k - 1 + part) - (now.k - 1 + now.part)
    is_due = load.step - now.step >= load.report_steps
    if now.k == 1 or (held > target and more > _NOTABLE) or (held <= target and more < -_NOTABLE and is_due):
        return replace(now, k=k, part=part)
    if held > budget and is_due and now.part < 1 and load.histogram[now.k - 2]:
        # Fewer of these keys than expected belong to the part.
        return replace(now, part=min(1.0, round(now.part + _NOTABLE, _DIGITS)))
    return now


def least_k(histogram: Sequence[int], excess: float) -> tuple[int, float]:
    """Return the smallest k for an excess, and the share to drop of the objects that k - 1 queries want.

    At least `excess` objects are wanted by fewer than k queries. SOLE section 6.4 drops all of those that k -
    1 want; the share is the part that suffices. If there are not enough objects, k is the smallest that drops
    all of them; k = 1 drops none.
    """
    fewer = list(accumulate(histogram[:-1], initial=0))  # by k - 1: how many are wanted by fewer than k
    wanted = min(excess, fewer[-1])
    k = next(number for number, count in enumerate(fewer, start=1) if count >= wanted)
    if k == 1:
        return 1, 1.0
    part = (wanted - fewer[k - 2]) / histogram[k - 2]
    return k, min(1.0, ceil(part * 10**_DIGITS - _LITTLE) / 10**_DIGITS)


def _shed_queries(settings: MemorySettings, load: StreamLoad, now: SheddingOrder) -> SheddingOrder:
    held, budget, target = load.held(settings), settings.budget or 0, settings.target or 0.0
    if held > budget:
        # If every query is at its minimum accuracy, smaller shares would only delay the recovery.
        return now if load.least > now.area + _LITTLE else _shrunk(now, target / held)
    # Objects in a larger region appear as they report; growing before that would grow too far.
    if held < target and load.step - now.step >= load.report_steps:
        return _grown(now, target / max(1, held))
    return now


def _shrunk(now: SheddingOrder, share: float) -> SheddingOrder:
    if now.cache > 0:
        return replace(now, cache=max(0.0, round(now.cache - CACHE_DOWN, _DIGITS)))
    return replace(now, area=max(LEAST_AREA, round(now.area * share, _DIGITS)))


def _grown(now: SheddingOrder, share: float) -> SheddingOrder:
    if now.area < 1:
        larger = max(now.area * min(MOST_GROWTH, (1 + share) / 2), now.area + LEAST_GROWTH)
        return replace(now, area=min(1.0, round(larger, _DIGITS)))
    return replace(now, cache=min(1.0, round(now.cache + CACHE_UP, _DIGITS)))
