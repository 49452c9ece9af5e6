"""Load shedding policy: the order that follows from settings, load and last order (SOLE section 6).

A pure function of the settings, the load and the order that stands. The load goes up to the budget freely;
beyond it shedding begins, and goes on until the load is at the target, a share of the budget; between the
two what stands stays, so that the order does not flicker.
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
"""Steps of the cache's share: quickly down, and up in steps that do not leap far over the budget."""
LEAST_AREA = 0.1
"""Less of a region is no answer any more, and would take long to grow back."""
LEAST_GROWTH, MOST_GROWTH = 0.001, 1.25
"""A region's area grows by so much at a time: in all at the least, and by this factor at the most."""
_NOTABLE = 0.02
"""Of the objects with one more or one less reference so many are worth another order."""
_DIGITS, _LITTLE = 4, 1e-6


@dataclass(frozen=True, slots=True)
class StreamLoad:
    """The load of significant streams after a step, over all slots.

    `shadow`: objects that were dropped and still report. `histogram`: S[1] … S[63] and the rest: objects that
    no query has locked, by their reference counts; `dropped`: the same of `shadow`. `report_steps`: so many
    steps after the step in which something may come back, it has reported. `least`: the least accuracy of a
    query.
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
        """S of all objects that are not locked, whether they are held or have been dropped."""
        if not self.dropped:
            return self.histogram
        return tuple(map(sum, zip(self.histogram, self.dropped, strict=True)))

    def held(self, settings: MemorySettings) -> int:
        """Return what counts against the budget: objects or bytes."""
        return self.bytes if settings.in_bytes else self.objects

    def wanted(self, settings: MemorySettings) -> float:
        """Return the load if nothing had been dropped; bytes are assumed to grow with the objects."""
        return self.held(settings) * (self.objects + self.shadow) / max(1, self.objects)


def load_of(memories: Iterable[StreamMemory], step: int, report_steps: int) -> StreamLoad:
    """Sum what slots hold of significant streams after a step."""
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
    """Return the order to follow `now` under a load; `now` itself where nothing changes.

    Over the budget, object shedding drops what fewer than k queries want, with the least k that brings the
    load to the target (SOLE section 6.4). SOLE stops dropping there; but who was dropped would come back with
    its next report, so k stays, and of those that k - 1 want only the part goes that has to. S is kept of the
    dropped objects, too: so what has to go, and what may come back, is known without trying. Everything comes
    back once all of it fits the target. Query shedding first shrinks caches, then regions, and lets them grow
    back, step by step, below the target (section 6.3).
    """
    order = allowed(settings, now)
    if settings.sheds:
        rule = _shed_objects if settings.mode == "object" else _shed_queries
        order = rule(settings, load, order)
    return now if order.same_as(now) else replace(order, step=load.step)


def _shed_objects(settings: MemorySettings, load: StreamLoad, now: SheddingOrder) -> SheddingOrder:
    """Drop more while more is held than the target, once it was over the budget; or less, if that will do."""
    held, budget, target = load.held(settings), settings.budget or 0, settings.target or 0.0
    if now.k == 1 and held <= budget:
        return now
    if load.wanted(settings) <= target:
        return replace(now, k=1, part=1.0)
    # Bytes are taken to shrink with the objects; what is wrong about that, the next batch puts right.
    excess = load.objects * (1 - target / max(1, held)) + load.shadow
    k, part = least_k(load.by_references, excess)
    more = (k - 1 + part) - (now.k - 1 + now.part)
    is_due = load.step - now.step >= load.report_steps
    if now.k == 1 or (held > target and more > _NOTABLE) or (held <= target and more < -_NOTABLE and is_due):
        return replace(now, k=k, part=part)
    if held > budget and is_due and now.part < 1 and load.histogram[now.k - 2]:
        # Of these keys fewer than one should think belong to the part.
        return replace(now, part=min(1.0, round(now.part + _NOTABLE, _DIGITS)))
    return now


def least_k(histogram: Sequence[int], excess: float) -> tuple[int, float]:
    """The least k such that at least `excess` objects are wanted by fewer than k queries; and of those that
    k - 1 want the share that is enough (SOLE section 6.4 drops them all).

    Where there are not so many, the least that drops all there are; k = 1 drops none.
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
        # Where every query is at its least accuracy, smaller shares change nothing but the way back.
        return now if load.least > now.area + _LITTLE else _shrunk(now, target / held)
    # What a larger region asks for comes as it reports: whoever does not wait for that grows too far.
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
