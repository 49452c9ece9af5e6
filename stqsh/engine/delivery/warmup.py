"""Warm-up: from which step on the answers of queries over significant streams are right.

A query that is registered or resumed sees only objects that other queries have kept; a region that grows back
has no objects in its new parts. Both are right once every object has reported, REPORT EVERY later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from stqsh.spec.shedding import SheddingOrder
from stqsh.storage.rows import Spec

MOST = 64
"""Batches that are told apart; queries of earlier ones share the oldest entry."""


@dataclass(frozen=True, slots=True)
class Warmup:
    """The queries that are still warming up after a batch.

    `recent`: (row of the log, step), ascending: queries whose last change stands in the log after that row,
    and before the next one's, are settled with the step. `all_until`: no query is before this step.
    """

    recent: tuple[tuple[int, int], ...] = ()
    all_until: int = 0

    @staticmethod
    def from_json(told: Spec | None) -> Warmup:
        """Read it back from the progress, nothing unsettled where there is none."""
        if not told:
            return Warmup()
        return Warmup(tuple((seq, step) for seq, step in told["recent"]), told["all_until"])

    def to_json(self) -> Spec:
        """Return it as JSON values."""
        return {"recent": [list(entry) for entry in self.recent], "all_until": self.all_until}

    def after(self, batch: WarmupBatch) -> Warmup:
        """Return the warm-up after a batch that took steps."""
        recent = [entry for entry in self.recent if entry[1] > batch.last]
        due = batch.first + batch.report_steps
        if batch.seq > batch.before and due > batch.last:
            recent.append((batch.before, due))
        grown = batch.grows and due > batch.last
        return replace(
            self,
            recent=tuple(_merge_oldest(recent)),
            all_until=max(self.all_until, due) if grown else self.all_until,
        )


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
