"""Warm-up: the step from which the answers of queries over significant streams are right.

A query that is registered or resumed sees only objects that other queries have kept; a region that grows back
has no objects in its new parts. Both are right once every object has reported, one REPORT EVERY later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stats import Warmup

MOST = 64
"""Maximum number of batches that are kept apart; queries of earlier ones share the oldest entry."""


@dataclass(frozen=True, slots=True)
class WarmupBatch:
    """One batch: its steps, the log rows that it took in, and their effect.

    Attributes:
        first: its first step.
        last: its last step.
        before: it took in the log's rows `before < row <= seq`.
        seq: see `before`.
        report_steps: after this many steps every object has reported.
        grows: whether an order among the rows lets regions or their caches grow.
    """

    first: int
    last: int
    before: int
    seq: int
    report_steps: int
    grows: bool = False


def warmup_after(before: Warmup, batch: WarmupBatch) -> Warmup:
    """Return the warm-up after a batch that took steps."""
    recent = [entry for entry in before.recent if entry[1] > batch.last]
    due = batch.first + batch.report_steps
    if batch.seq > batch.before and due > batch.last:
        recent.append((batch.before, due))
    grown = batch.grows and due > batch.last
    return Warmup(tuple(_merge_oldest(recent)), max(before.all_until, due) if grown else before.all_until)


def ask_for_more(orders: Iterable[SheddingOrder]) -> bool:
    """Return whether one of these orders asks for more than the one before it.

    The first of them was in force before the others.
    """
    areas = [(order.factor * order.cache, order.area) for order in orders]
    return any(later[0] > first[0] or later[1] > first[1] for first, later in pairwise(areas))


def _merge_oldest(recent: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge the oldest entries if there are more than MOST."""
    spare = len(recent) - MOST
    if spare <= 0:
        return recent
    return [(recent[0][0], recent[spare][1]), *recent[spare + 1 :]]
