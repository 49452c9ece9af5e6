"""The accuracy of queries' answers: whether they are exact, and if not, how much is missing.

Over a stream with RETAIN SIGNIFICANT, an answer can lack objects of three kinds: those of a cache area that
is not kept in full (expected, by SOLE eq. 4); those that load shedding dropped or cut off (measured, in the
slots' published state); and, for one REPORT EVERY, those that no query kept before this one began.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

from stqsh.client.connection import Connection
from stqsh.client.read.query_tallies import QueryTally, read_tallies
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.query import find_kind
from stqsh.spec.stats import MemoryStats, Warmup
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue import live_queries, live_streams, query_now
from stqsh.storage.rows import Progress, QueryRow, StreamRow
from stqsh.storage.shedding_orders import has_significant_streams


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The accuracy of an answer.

    Attributes:
        value: 0 to 1; None if unknown.
        until: the query warms up before this step; 0 if it has warmed up.
        expected: the accuracy by SOLE eq. 4 of the part that cannot be measured.
        by_slots: whether the answer would differ with another number of slots.
    """

    value: float | None
    until: int = 0
    expected: float = 1.0
    tally: QueryTally | None = None
    by_slots: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether nothing can be missing."""
        return self.value is not None and self.value >= 1 and not self.until

    def text(self) -> str:
        """Return the accuracy in a few words: "exact", "accuracy 0.87", "not settled before step 40"."""
        if self.until:
            return f"not settled before step {self.until}"
        return "exact" if self.is_exact else f"accuracy {share_text(self.value)}"


EXACT = Accuracy(1.0)
LOOK_EVERY_S = 1.0
"""How often a view that follows a query checks its accuracy."""
BY_SLOTS = "each slot keeps its own neighbours: with more slots the answer comes nearer to the exact one"
"""The text for a kNN query that is approximate; see "Neighbours and slots" in core.significance."""
_CAUSE = "its stream keeps significant objects only; SHOW CACHE says more"


def accuracies(
    connection: Connection, queries: Iterable[QueryRow], *, tallied: bool = False
) -> dict[int, Accuracy]:
    """Return how accurate the answers of these queries are, by id.

    Slots are queried only if something may be missing, or always if `tallied`.
    """
    asked = list(queries)
    significant = {stream.id: stream for stream in live_streams(connection.db) if stream.spec.is_significant}
    concerned = [query for query in asked if query.stream_id in significant]
    found = {query.id: EXACT for query in asked}
    if not concerned:
        return found
    progress = connection.progress()
    memory = progress.stats.memory or MemoryStats()
    known = read_tallies(connection, significant.values()) if tallied or _may_miss(memory) else {}
    for query in concerned:
        stream = significant[query.stream_id]
        until = settled_at(query, stream, progress)
        found[query.id] = _accuracy(query, stream, memory, known.get(query.id), until)
    return found


def _may_miss(memory: MemoryStats) -> bool:
    """Return whether slots keep less than queries need, or did so and still lack some objects."""
    return min(memory.factor, memory.cache, memory.area, memory.least) < 1 or memory.drops_objects


def _accuracy(
    query: QueryRow, stream: StreamRow, memory: MemoryStats, tally: QueryTally | None, until: int
) -> Accuracy:
    if query.state == "paused":
        return Accuracy(None, tally=tally)
    by_slots = is_by_slots(query.spec.kind, memory, until)
    if tally is None:
        return Accuracy(None if _may_miss(memory) else 1.0, until, by_slots=by_slots)
    expected = (
        expected_accuracy(stream.spec, tally.area, memory.reach) if query.spec.region.needs_cache else 1.0
    )
    # While the focal object is absent, an empty answer is right.
    value = tally.share * (1.0 if math.isnan(expected) else expected)
    return Accuracy(value, until, expected, tally, by_slots)


def is_by_slots(kind: str, memory: MemoryStats, until: int) -> bool:
    """Return whether the answer of a query of a kind would differ with another number of slots.

    It would for kinds whose slots keep candidates, such as kNN queries, while caches are not kept in full,
    objects are shed, or the query warms up.
    """
    depends = find_kind(kind).depends_on_slots
    return depends and (memory.reach < 1 or memory.drops_objects or until > 0)


def expected_accuracy(stream: StreamSpec, area: float, factor: float) -> float:
    """Return the accuracy by SOLE eq. 4, with the square root of the region's area as its side.

    The margin on both sides of a region is the distance that an object travels between two reports. The
    result is 1 for the full cache and for unbounded regions, NaN while the region's place is unknown.

    Args:
        stream: a stream with REPORT EVERY and MAX SPEED.
        area: the area of the region, m² or square units.
        factor: the share of the cache area that is kept, 0 to 1.
    """
    if factor >= 1 or math.isinf(area):
        return 1.0
    assert stream.max_speed is not None and stream.report_every_us is not None, (
        "RETAIN SIGNIFICANT needs both"
    )
    side, distance = math.sqrt(area), 2 * stream.max_speed * stream.report_every_us / 1e6
    return float(((side + factor * distance) / (side + distance)) ** 2)


def settled_at(query: QueryRow, stream: StreamRow, progress: Progress) -> int:
    """Return the step from which a query has seen all objects that it needs; 0 if that is in the past.

    See `stqsh.engine.delivery.shedding_controller`.
    """
    settling = Warmup() if progress.stats.memory is None else progress.stats.memory.settling
    until = settling.all_until
    if stream.id > progress.seq:
        return 0
    if query.seq > progress.seq:
        return progress.step + 1
    for before, step in settling.recent:
        # A query that is registered with the stream itself has missed nothing.
        if before < query.seq and stream.id <= before:
            until = max(until, step)
    return until if until > progress.step else 0


def topk_text(aggregates: AggregateSpec | None) -> str:
    """Return what is approximate in the answer of a query with approximate TOPK; "" for other queries."""
    error = 0.0 if aggregates is None else aggregates.error
    return f"counts of TOPK are too high by up to {100 * error:g} % of a group's records" if error else ""


class AccuracyWatch:
    """Watches the accuracy of one query's answer.

    `text` is the status line's text about it, "" while it is exact.
    """

    def __init__(self, connection: Connection, query: QueryRow) -> None:
        self._connection, self._query = connection, query
        self._looked, self._announced = float("-inf"), False
        self.text = ""

    def look(self) -> str:
        """Check again if a check is due; return a text the first time that the answer may be incomplete."""
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY_S:
            return ""
        self._looked = now
        query = query_now(self._connection.db, self._query)
        if about := topk_text(query.spec.aggregates):
            self.text = about if query.live else ""
            is_news, self._announced = not self._announced, True
            return f"the answer is approximate: {about}" if is_news else ""
        found = accuracies(self._connection, [query])[query.id]
        if found.is_exact or not query.live:
            self.text = ""
            return ""
        self.text = found.text()
        is_news, self._announced = not self._announced, True
        return f"the answer is approximate: {self.text} ({_CAUSE})" if is_news else ""


@dataclass(frozen=True, slots=True)
class Summary:
    """The accuracy of a session's answers: how many queries are active, approximate, warming up, unknown."""

    queries: int
    approximate: int
    settling: int
    unknown: int
    least: float | None
    until: int

    @property
    def is_exact(self) -> bool:
        """Whether no answer can lack anything."""
        return not (self.approximate or self.settling or self.unknown)

    def text(self) -> str:
        """Return the summary in words: "exact", or "3 of 5 approximate, least accuracy 0.87"."""
        parts = []
        if self.approximate:
            parts.append(
                f"{self.approximate} of {self.queries} approximate, least accuracy {share_text(self.least)}"
            )
        if self.unknown:
            parts.append(f"{self.unknown} of {self.queries} of unknown accuracy")
        if self.settling:
            parts.append(f"{self.settling} of {self.queries} not settled before step {self.until}")
        return "; ".join(parts) or "exact"


def summary(connection: Connection) -> Summary:
    """Return how accurate the answers of all active queries are; skip the queries if all must be exact."""
    if not has_significant_streams(connection.db):
        return Summary(0, 0, 0, 0, None, 0)
    active = [query for query in live_queries(connection.db) if query.state == "active"]
    found = list(accuracies(connection, active).values())
    less = [one.value for one in found if one.value is not None and one.value < 1]
    return Summary(
        len(active),
        len(less),
        sum(one.until > 0 for one in found),
        sum(one.value is None for one in found),
        min(less, default=None),
        max((one.until for one in found), default=0),
    )


def share_text(share: float | None) -> str:
    """Return a share with two digits, never rounded up to 1."""
    if share is None:
        return "unknown"
    return "1" if share >= 1 else f"{math.floor(share * 100) / 100:.2f}"


def accuracy_shown(accuracy: Accuracy) -> float | str | None:
    """Return an accuracy as a table cell: a number, a text while the query warms up, None if unknown."""
    if accuracy.until:
        return accuracy.text()
    return accuracy.value if accuracy.value is None else rounded(accuracy.value)


def rounded(value: float) -> float | None:
    """Return a figure with four digits, None if it is unknown or infinite; a share below 1 stays below 1."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.4g}")
    return 0.9999 if value < 1 <= short else short


def shedding_text(memory: MemoryStats | None) -> str:
    """Describe the current load shedding: `object, k 2, 12 % dropped`; "" if nothing is shed."""
    if memory is None:
        return ""
    if memory.cache < 1 or memory.area < 1:
        return f"query, cache {memory.cache:.0%}, area {memory.area:.0%}".replace("%", " %")
    if not memory.drops_objects:
        return ""
    dropped = memory.shadow / max(1, memory.shadow + memory.objects)
    return f"object, k {memory.k}, {100 * dropped:.0f} % dropped"
