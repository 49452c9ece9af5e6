"""Warm-up: from which step on the answers of queries over significant streams are right.

A query that is registered or resumed sees only objects that other queries have kept; a region that grows back
has no objects in its new parts. Both are right once every object has reported, REPORT EVERY later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stats import Warmup

MOST = 64
"""Batches that are told apart; queries of earlier ones share the oldest entry."""


@dataclass(frozen=True, slots=True)
class WarmupBatch:
    """One batch: its steps, the rows `before < row <= seq` of the log that it took in, what they brought.

    `grows`: whether an order among them lets regions or their caches grow. `report_steps`: after so many
    steps every object has reported.
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
    """Whether, in a row of orders of which the first was in force before, one asks for more than the last."""
    areas = [(order.factor * order.cache, order.area) for order in orders]
    return any(later[0] > first[0] or later[1] > first[1] for first, later in pairwise(areas))


def _merge_oldest(recent: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge the oldest entries where there are more than MOST."""
    spare = len(recent) - MOST
    if spare <= 0:
        return recent
    return [(recent[0][0], recent[spare][1]), *recent[spare + 1 :]]
