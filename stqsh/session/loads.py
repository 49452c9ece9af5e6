"""SHOW LOAD and SHOW CACHE: what streams that RETAIN SIGNIFICANT hold, and what that means for queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from stqsh.profile import Profile
from stqsh.session.accuracy import Accuracy, accuracies, rounded
from stqsh.session.catalogue import live_queries, live_streams
from stqsh.session.link import Link
from stqsh.session.memory import MemorySettings, is_significant, memory_settings
from stqsh.session.records import QueryRow, Spec
from stqsh.session.results import Rows
from stqsh.session.settings import session_settings
from stqsh.sizes import size_text

LOAD_COLUMNS = (
    *("slot", "objects", "bytes", "shadow", "budget", "target", "mode", "k", "histogram", "locked"),
    *("approximate", "least accuracy", "factor", "cache", "area"),
)
CACHE_COLUMNS = (
    *("query", "stream", "region", "area", "cache area", "overhead %", "inside", "cached", "shed"),
    *("expected accuracy", "accuracy"),
)
_BARS = 6
"""So many counts of a histogram are shown."""


def show_load(link: Link, profile: Profile) -> Iterator[Rows]:
    """SHOW LOAD: what each slot holds for significant streams, and all of them against the budget."""
    stats = link.progress().stats
    wished, memory = memory_settings(session_settings(link.db, profile)), stats.get("memory") or {}
    slots = [
        (slot["slot"], list(slot["memory"].values())) for slot in stats.get("slots", []) if slot.get("memory")
    ]
    rows = [_load_row(slot, told, (None, None), memory, wished.mode) for slot, told in slots]
    if slots:
        told = [one for _, streams in slots for one in streams]
        rows.append(_load_row("all", told, _budget(wished), memory, wished.mode, _by_query(link)))
    yield Rows("load", LOAD_COLUMNS, tuple(rows))


def _budget(wished: MemorySettings) -> tuple[Any, Any]:
    """Budget and target, as numbers of objects or as sizes."""
    if wished.budget is None or wished.target is None:
        return None, None
    if wished.in_bytes:
        return size_text(wished.budget), size_text(wished.target)
    return wished.budget, math.floor(wished.target)


def _by_query(link: Link) -> tuple[Any, Any, Any]:
    """Of the queries over all slots: how many are locked, how many approximate, and the least accuracy."""
    active = [query for query in live_queries(link.db) if query.state == "active"]
    found = accuracies(link, active, tallied=True).values()
    tallies = [one.tally for one in found if one.tally is not None]
    values = [one.value for one in found if one.value is not None]
    locked = sum(tally.locked for tally in tallies) if tallies else None
    if len(values) < len(found):
        return locked, None, None
    return locked, sum(value < 1 for value in values), rounded(min(values, default=1.0))


def _load_row(
    slot: int | str,
    told: Sequence[Spec],
    budget: tuple[Any, Any],
    memory: Spec,
    mode: str,
    queries: tuple[Any, Any, Any] | None = None,
) -> tuple[Any, ...]:
    objects, size, shadow, locked, approximate = (
        sum(int(one[name]) for one in told)
        for name in ("objects", "bytes", "shadow", "locked", "approximate")
    )
    least = rounded(min(float(one["least"]) for one in told))
    counts = [sum(column) for column in zip(*(one["histogram"] for one in told), strict=True)]
    of_queries = (locked, approximate, least) if queries is None else queries
    scales = (memory.get(name) for name in ("factor", "cache", "area"))
    ordered = (mode, memory.get("k"), histogram_text(counts))
    return (slot, objects, size, shadow, *budget, *ordered, *of_queries, *scales)


def histogram_text(counts: Sequence[int]) -> str:
    """S in short: `1: 300, 2: 120, 64+: 7`, so many queries each and the objects wanted by so many."""
    there = [(number, count) for number, count in enumerate(counts, start=1) if count]
    shown = [f"{number}{'+' if number == len(counts) else ''}: {count}" for number, count in there[:_BARS]]
    rest = sum(count for _, count in there[_BARS:])
    return ", ".join([*shown, f"more: {rest}"] if rest else shown)


def show_cache(link: Link, profile: Profile) -> Iterator[Rows]:
    """SHOW CACHE: what is kept in and around the region of each query over a significant stream."""
    del profile
    streams = {stream.id: stream for stream in live_streams(link.db) if is_significant(stream)}
    queries = [
        query
        for query in live_queries(link.db)
        if query.stream_id in streams and query.spec["region"]["type"] != "all"
    ]
    found = accuracies(link, queries, tallied=True) if queries else {}
    rows = tuple(_cache_row(query, found[query.id]) for query in queries)
    yield Rows("cache", CACHE_COLUMNS, rows)


def _cache_row(query: QueryRow, accuracy: Accuracy) -> tuple[Any, ...]:
    from stqsh.session.regions import region_text

    named = query.name, query.spec["stream"], region_text(query.spec["region"])
    tally = accuracy.tally
    if tally is None:
        return (*named, *[None] * (len(CACHE_COLUMNS) - len(named)))
    overhead = 100 * tally.cache_area / tally.area if tally.area else math.nan
    return (
        *named,
        *(rounded(tally.area), rounded(tally.cache_area), rounded(overhead)),
        *(tally.inside, tally.cached, tally.shed),
        rounded(accuracy.expected),
        # What a cache that is too small has let go is gone without a trace.
        rounded(tally.share) if tally.share < 1 or accuracy.expected >= 1 else None,
    )
