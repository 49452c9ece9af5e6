"""Load shedding: what slots are told between two batches when their streams outgrow the budget (SOLE 6).

A pure function of the settings, the load and the order that stands. The load goes up to the budget freely;
beyond it shedding begins, and goes on until the load is at the target, a share of the budget; between the
two what stands stays, so that the order does not flicker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from stqsh.session.memory import MemorySettings, Order, allowed
from stqsh.session.records import Spec

CACHE_DOWN, CACHE_UP = 0.25, 0.1
"""Steps of the cache's share: quickly down, and up in steps that do not leap far over the budget."""
LEAST_AREA = 0.1
"""Less of a region is no answer any more, and would take long to grow back."""
LEAST_GROWTH, MOST_GROWTH = 0.001, 1.25
"""A region's area grows by so much at a time: in all at the least, and by this factor at the most."""
PATIENCE = 3
"""So many times every object has to report before a smaller k is tried."""
_DIGITS, _LITTLE = 4, 1e-6


@dataclass(frozen=True, slots=True)
class Load:
    """What significant streams hold after a step, over all slots.

    `shadow`: objects that were dropped and still report. `histogram`: S[1] … S[63] and the rest: objects that
    no query has locked, by their reference counts. `report_steps`: so many steps after the step in which
    something may come back, it has reported. `least`: the least accuracy of a query.
    """

    objects: int = 0
    bytes: int = 0
    histogram: tuple[int, ...] = ()
    step: int = 0
    report_steps: int = 1
    shadow: int = 0
    least: float = 1.0

    def held(self, settings: MemorySettings) -> int:
        """What counts against the budget: objects, or bytes."""
        return self.bytes if settings.in_bytes else self.objects

    def wanted(self, settings: MemorySettings) -> float:
        """What would be held if nothing had been dropped; bytes are taken to grow with the objects."""
        return self.held(settings) * (self.objects + self.shadow) / max(1, self.objects)


def load_of(told: Iterable[Spec], step: int, report_steps: int) -> Load:
    """Sum what slots tell of their significant streams (Evaluate's stats "memory", a stream each)."""
    streams = list(told)
    histogram = tuple(sum(counts) for counts in zip(*(one["histogram"] for one in streams), strict=True))
    objects, size, shadow = (
        sum(int(one[name]) for one in streams) for name in ("objects", "bytes", "shadow")
    )
    least = min((float(one["least"]) for one in streams), default=1.0)
    return Load(objects, size, histogram, step, max(1, report_steps), shadow, least)


def decide(settings: MemorySettings, load: Load, now: Order) -> Order:
    """The order that is to hold after `load` was seen while `now` stood; `now` itself where nothing changes.

    Over the budget, object shedding drops what fewer than k queries want, with the least k that brings the
    load to the target (SOLE section 6.4), and lets everything back in once all of it fits the target; query
    shedding first shrinks caches, then regions, and lets them grow back, step by step, below the target
    (section 6.3).
    """
    order = allowed(settings, now)
    if settings.sheds:
        rule = _shed_objects if settings.mode == "object" else _shed_queries
        order = rule(settings, load, order)
    return now if order.same_as(now) else replace(order, step=load.step)


def _shed_objects(settings: MemorySettings, load: Load, now: Order) -> Order:
    held, budget, target = load.held(settings), settings.budget or 0, settings.target or 0.0
    if now.k == 1 and held <= budget:
        return now
    if held <= target:
        return _released(settings, load, now)
    # Bytes are taken to shrink with the objects; what is wrong about that, the next batch puts right.
    least = least_k(load.histogram, load.objects * (held - target) / held)
    return replace(now, k=least if held > budget else max(least, now.k))


def _released(settings: MemorySettings, load: Load, now: Order) -> Order:
    """Let objects back in where the load is gone; try a smaller k where more were dropped than had to be.

    With k = 1 all that were dropped come back as they report: while they are too many, that would only bring
    the load back, to be shed anew. How many a smaller k > 1 brings back, only trying tells.
    """
    if load.wanted(settings) <= (settings.target or 0.0):
        return replace(now, k=1)
    is_due = load.step - now.step >= PATIENCE * load.report_steps
    return replace(now, k=now.k - 1) if is_due and now.k > 2 else now


def least_k(histogram: Sequence[int], excess: float) -> int:
    """The least k such that at least `excess` objects are wanted by fewer than k queries.

    Where there are not so many, the least that drops all there are; 1 drops none.
    """
    fewer = list(accumulate(histogram[:-1], initial=0))  # by k - 1: how many are wanted by fewer than k
    enough = [number for number, count in enumerate(fewer, start=1) if count >= min(excess, fewer[-1])]
    return enough[0]


def _shed_queries(settings: MemorySettings, load: Load, now: Order) -> Order:
    held, budget, target = load.held(settings), settings.budget or 0, settings.target or 0.0
    if held > budget:
        # Where every query is at its least accuracy, smaller shares change nothing but the way back.
        return now if load.least > now.area + _LITTLE else _shrunk(now, target / held)
    # What a larger region asks for comes as it reports: whoever does not wait for that grows too far.
    if held < target and load.step - now.step >= load.report_steps:
        return _grown(now, target / max(1, held))
    return now


def _shrunk(now: Order, share: float) -> Order:
    if now.cache > 0:
        return replace(now, cache=max(0.0, round(now.cache - CACHE_DOWN, _DIGITS)))
    return replace(now, area=max(LEAST_AREA, round(now.area * share, _DIGITS)))


def _grown(now: Order, share: float) -> Order:
    if now.area < 1:
        larger = max(now.area * min(MOST_GROWTH, (1 + share) / 2), now.area + LEAST_GROWTH)
        return replace(now, area=min(1.0, round(larger, _DIGITS)))
    return replace(now, cache=min(1.0, round(now.cache + CACHE_UP, _DIGITS)))
