"""SHOW LOAD and SHOW CACHE: the objects kept with RETAIN SIGNIFICANT, and the effect on queries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from stqsh.client.connection import Connection
from stqsh.client.read.accuracy import BY_SLOTS, Accuracy, accuracies, rounded
from stqsh.client.read.query_tallies import QueryTally
from stqsh.client.results import Message, Rows
from stqsh.client.show.load_words import demand, load_sentence
from stqsh.profile import Profile
from stqsh.spec.region import EVERYWHERE
from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stats import MemoryStats, StreamMemory
from stqsh.storage.catalogue import live_queries, live_streams
from stqsh.storage.engine_info import is_alive, read_engine
from stqsh.storage.rows import QueryRow
from stqsh.storage.session_settings import session_settings
from stqsh.storage.shedding_orders import MemorySettings, memory_settings, standing_order
from stqsh.units import format_size

Items: TypeAlias = "dict[str, str | float | None]"
"""Items and their values, in display order."""
SLOT_COLUMNS = ("slot", "objects", "bytes", "shadow", "locked", "approximate", "least accuracy")
CACHE_COLUMNS = ("query", "area", "cache area", "+ %", "inside", "cached", "shed", "expected", "accuracy")
"""The columns fit a terminal of 80 columns; SHOW QUERIES has the regions themselves."""
_KM2 = 1e6
"""m² in a km²."""
_BUCKETS = (1, 2, 3, 4, 8, 16, 32, 63)
"""The upper bounds of a histogram's groups; the last group has no bound."""
_NOBODY = {"streams": "none is to RETAIN SIGNIFICANT: every object is kept"}


def show_load(connection: Connection, profile: Profile) -> Iterator[Rows | Message]:
    """Yield SHOW LOAD: budget, orders and accuracy, one item per row; then the load of each slot and of all.

    The last outcome is a sentence about what exact answers need, what is allowed, and what that costs.
    """
    stats = connection.progress().stats
    wished, memory = memory_settings(session_settings(connection.db, profile)), stats.memory
    slots = [(slot.slot, list(slot.memory.values())) for slot in stats.slots if slot.memory]
    reported = [one for _, streams in slots for one in streams]
    queries = _by_query(connection, memory or MemoryStats(), reported) if slots else {}
    items = _ordered(wished, memory) | (
        _coming(standing_order(connection.db), memory) if slots and memory else {}
    )
    if reported:
        items["histogram"] = _histogram(reported) or "all are locked"
    items |= queries
    if not any(stream.spec.is_significant for stream in live_streams(connection.db)):
        items = {**_NOBODY, **items}
    yield Rows("load", ("item", "value"), tuple((name, value) for name, value in items.items()))
    if slots:
        rows = [_slot_row(slot, streams) for slot, streams in slots]
        whole = _slot_row("all", reported)[: SLOT_COLUMNS.index("locked")]
        over_slots = [queries.get(name) for name in SLOT_COLUMNS[len(whole) :]]
        yield Rows("slots", SLOT_COLUMNS, (*rows, (*whole, *over_slots)))
        mean = queries.get("mean accuracy")
        yield Message(load_sentence(demand(reported), wished, mean if isinstance(mean, float) else None))


def _ordered(wished: MemorySettings, memory: MemoryStats | None) -> Items:
    """Return the requested settings and the current orders that implement them, if applicable."""
    found: Items = {"shedding": wished.mode}
    if wished.budget is not None and wished.target is not None:
        size = format_size if wished.in_bytes else math.floor
        found |= {"budget": size(wished.budget), "target": size(wished.target)}
    if memory is not None:
        found |= {name: getattr(memory, name) for name in ("k", "factor", "cache", "area")}
        if memory.part < 1:  # all objects with more references are kept, all with fewer are dropped
            found[f"dropped of count {memory.k - 1}"] = f"{100 * memory.part:.0f} %"
    return found


def _coming(standing: SheddingOrder, memory: MemoryStats) -> Items:
    """Return the orders that take effect with the next batch, if they differ from the current ones."""
    orders = {name: getattr(standing, name) for name in ("k", "part", "factor", "cache", "area")}
    new = [f"{name} {value:g}" for name, value in orders.items() if getattr(memory, name) != value]
    return {"with the next batch": ", ".join(new)} if new else {}


def _by_query(connection: Connection, memory: MemoryStats, reported: Sequence[StreamMemory]) -> Items:
    """Return how many active queries over significant streams are locked or approximate, and their accuracy.

    If the slots' state cannot be read, use the slots' last reports.

    Args:
        connection: the client's connection.
        memory: the memory statistics of the progress.
        reported: the reports of the progress's slots.
    """
    streams = {stream.id for stream in live_streams(connection.db) if stream.spec.is_significant}
    active = [query for query in live_queries(connection.db) if query.state == "active"]
    active = [query for query in active if query.stream_id in streams]
    found = accuracies(connection, active, tallied=True).values()
    tallies = [one.tally for one in found if one.tally is not None]
    if active and not tallies:
        return {"queries": len(active)} | _last_known(connection, memory, reported)
    values = [one.value for one in found if one.value is not None]
    known = bool(values) and len(values) == len(found)
    return {
        "queries": len(active),
        "locked": sum(tally.locked for tally in tallies) if tallies else None,
        "approximate": sum(value < 1 for value in values) if known else None,
        "mean accuracy": rounded(math.fsum(values) / len(values)) if known else None,
        "least accuracy": rounded(min(values)) if known else None,
    }


def _last_known(connection: Connection, memory: MemoryStats, reported: Sequence[StreamMemory]) -> Items:
    """Return the slots' reports of the last batch; the number of locked queries is a lower bound."""
    return {
        "locked": max(one.locked for one in reported),
        "approximate": memory.approximate,
        "least accuracy": rounded(memory.least),
        "as of": f"step {connection.progress().step}: {_unseen(connection)}",
    }


def _unseen(connection: Connection) -> str:
    """Return why the slots' own figures are missing."""
    engine = read_engine(connection.home)
    state = "has not started" if engine is None else f"is {engine.state}" if is_alive(engine) else "has ended"
    if state == "is ready" and connection.progress().step == 0:
        return "nothing has come yet"
    return f"the slots cannot be looked at, the engine {state}"


def _slot_row(slot: int | str, reported: Sequence[StreamMemory]) -> tuple[Any, ...]:
    """Return the row of one slot, or of all slots."""
    names = ("objects", "bytes", "shadow", "locked", "approximate")
    least = min(one.least for one in reported)
    return (slot, *(sum(getattr(one, name) for one in reported) for name in names), rounded(least))


def _histogram(reported: Iterable[StreamMemory]) -> str:
    return histogram_text([sum(column) for column in zip(*(one.histogram for one in reported), strict=True)])


def histogram_text(counts: Sequence[int]) -> str:
    """Return S, objects by number of their queries, as short text: `1: 300, 2: 120, 5-8: 31, 64+: 7`."""
    shown, first = [], 1
    for last in (*_BUCKETS, len(counts)):
        count = sum(counts[first - 1 : last])
        name = f"{first}+" if last == len(counts) else str(first) if first == last else f"{first}-{last}"
        shown += [f"{name}: {count}"] if count else []
        first = last + 1
    return ", ".join(shown)


def show_cache(connection: Connection, profile: Profile) -> Iterator[Rows | Message]:
    """Yield SHOW CACHE: the objects kept in and around each query's region on significant streams, and notes.

    The last outcome is a sentence about all of them.
    """
    del profile
    streams = {stream.id: stream for stream in live_streams(connection.db) if stream.spec.is_significant}
    queries = [
        query
        for query in live_queries(connection.db)
        if query.stream_id in streams and query.spec.region != EVERYWHERE
    ]
    found = accuracies(connection, queries, tallied=True) if queries else {}
    units = {stream.id: 1.0 if stream.spec.planar else _KM2 for stream in streams.values()}
    rows = tuple(_cache_row(query, found[query.id], units[query.stream_id]) for query in queries)
    yield Rows("cache", CACHE_COLUMNS, rows)
    notes = tuple((query.name, BY_SLOTS) for query in queries if found[query.id].by_slots)
    if queries and all(found[query.id].tally is None for query in queries):
        notes = (("all", _unseen(connection)), *notes)
    if notes:
        yield Rows("notes", ("query", "note"), notes)
    tallies = [one.tally for one in found.values() if one.tally is not None]
    if tallies:
        yield Message(_cache_sentence(tallies))


def _cache_sentence(tallies: Sequence[QueryTally]) -> str:
    """Summarize the objects in the regions of all queries, those kept around them, and those dropped."""
    inside, cached, shed = (
        sum(getattr(one, name) for one in tallies) for name in ("inside", "cached", "shed")
    )
    area, beyond = (
        math.fsum(value for one in tallies if math.isfinite(value := getattr(one, name)))
        for name in ("area", "cache_area")
    )
    wider = f", which make {100 * beyond / area:.3g} % more area" if area else ""
    queries = f"{len(tallies):,} {'query' if len(tallies) == 1 else 'queries'}"
    dropped = f"{shed:,} that they need are dropped" if shed else "nothing that they need is dropped"
    return (
        f"the regions of {queries} hold {inside:,} objects, and the caches around them{wider} hold {cached:,}"
        f" that may come in before they report again; {dropped}"
    )


def _cache_row(query: QueryRow, accuracy: Accuracy, unit: float) -> tuple[Any, ...]:
    tally = accuracy.tally
    if tally is None:
        return (query.name, *[None] * (len(CACHE_COLUMNS) - 1))
    overhead = 100 * tally.cache_area / tally.area if tally.area else math.nan
    return (
        query.name,
        *(rounded(tally.area / unit), rounded(tally.cache_area / unit), rounded(overhead)),
        *(tally.inside, tally.cached, tally.shed),
        rounded(accuracy.expected),
        # The objects that a reduced cache has dropped can no longer be counted.
        rounded(tally.share) if tally.share < 1 or accuracy.expected >= 1 else None,
    )
