"""SHOW ROUTING: the distribution of each stream over the slots, and its last change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stqsh.client.connection import Connection
from stqsh.client.read.snapshots import SnapshotReader
from stqsh.client.results import Rows
from stqsh.errors import NotPublishedError
from stqsh.profile import Profile
from stqsh.routing.load import slot_loads, slot_records
from stqsh.routing.table import HASHED, TEXT, RoutingTable
from stqsh.sources.recent_input import RecentInput, recent_input
from stqsh.sources.route_settings import RouteSettings
from stqsh.sources.routing_plans import compare_strategies, current_table, load_ratio
from stqsh.spec.stats import BatchStats
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import get_meta
from stqsh.storage.progress import step_taken
from stqsh.storage.rows import StreamRow
from stqsh.storage.session_settings import session_settings
from stqsh.storage.stream_routes import BALANCE_ERROR, StreamRoute, read_looks, stream_routes

_COLUMNS = (
    *("stream", "strategy", "version", "since step", "slots", "leaves", "by hash", "by texts"),
    *("max/mean", "expected", "slots a query", "cost by strategy", "unsent", "state", "last change"),
)
_SLOT_COLUMNS = (
    "stream",
    "slot",
    "leaves",
    "cells",
    "recent records",
    "queries",
    "snapshots",
    "share of load",
    "upkeep",
)


def show_routing(connection: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW ROUTING: a row for each stream, then one for each slot of streams routed by space."""
    snapshots = SnapshotReader(connection, profile)
    effective = session_settings(connection.db, profile)
    settings = RouteSettings.of(effective)
    tables = [
        (stream, current_table(connection.home, connection.db, stream))
        for stream in live_streams(connection.db)
    ]
    inputs = {}
    for stream, table in tables:
        if table is not None and not stream.spec.is_significant:
            with suppress(NotPublishedError):  # live streams have none while the engine does not run
                by_texts = table.texts is not None
                inputs[stream.id] = recent_input(
                    connection.home,
                    connection.db,
                    stream.spec,
                    settings,
                    with_texts=by_texts,
                    ask=partial(snapshots.located_table, stream=stream.spec),
                )
    yield Rows(
        "routing", _COLUMNS, tuple(_stream_row(connection, stream, table, inputs) for stream, table in tables)
    )
    slots = [
        row
        for stream, table in tables
        if table is not None and not table.is_hashed and stream.id in inputs
        for row in _slot_rows(stream.name, table, inputs[stream.id])
    ]
    if slots:
        yield Rows("slots by stream", _SLOT_COLUMNS, tuple(slots))
    looks = read_looks(connection.db) if effective.text("balance") != "off" else {}
    if looks:
        rows = tuple((stream.name, looks[stream.id]) for stream, _ in tables if stream.id in looks)
        yield Rows("what balance does", ("stream", "balance"), rows)
    if error := get_meta(connection.db, BALANCE_ERROR):
        yield Rows("balance", ("item", "value"), (("failed", error),))


def _stream_row(
    connection: Connection, stream: StreamRow, table: RoutingTable | None, inputs: dict[int, RecentInput]
) -> tuple[Any, ...]:
    if table is None:
        return (stream.name, *[None] * 12, "being read", None)
    routes = stream_routes(connection.db, stream.id)
    last = routes[-1] if routes else None
    progress = connection.progress()
    taken = 1 if last is None else step_taken(connection.db, last.seq)
    is_moving = taken is None and (progress.stats.running or progress.stats.playing)
    since = progress.step + 1 if taken is None else taken
    ratio = copies = costs = None
    if stream.id in inputs:
        recent = inputs[stream.id]
        costs = _costs(stream.spec, table, recent)
        if not table.is_hashed:
            ratio = round(load_ratio(recent, table), 2)
            copies = _copies(table, recent)
    return (
        *(stream.name, table.strategy, 1 if last is None else last.entry.version, since, table.slots),
        *(
            int(np.count_nonzero(leaves))
            for leaves in (table.slot > TEXT, table.slot == HASHED, table.slot <= TEXT)
        ),
        *(ratio, None if last is None else round(last.entry.predicted, 2), copies, costs),
        _unsent(progress.stats, stream.id),
        *(_state(last, is_taken=taken is not None, is_moving=is_moving), _change(last)),
    )


def _state(last: StreamRoute | None, *, is_taken: bool, is_moving: bool) -> str:
    """Return whether the last change is in force; for one in packages, how many queries have moved.

    Args:
        last: the newest routing.
        is_taken: whether it has taken effect.
        is_moving: whether it has not, and streams run.
    """
    if last is None or not last.entry.cuts:
        return "moving" if is_moving else "in force"
    if is_taken and last.entry.is_complete:
        return "in force"
    learned = (0, *last.entry.learned)
    return f"moved {learned[last.entry.package + is_taken]:,} of {learned[-1]:,} queries"


def _unsent(stats: BatchStats, stream_id: int) -> str | None:
    """Return the share of a stream's records in the last batch that no slot needed, and so were not sent."""
    sent, unsent = stats.sifted.get(stream_id, (0, 0))
    return f"{unsent / (sent + unsent):.0%}" if sent + unsent else None


def _copies(table: RoutingTable, recent: RecentInput) -> float | None:
    """Return the mean number of slots per query; None without queries."""
    if not len(recent.boxes):
        return None
    return round(float(_touched(table, recent).sum(axis=1).mean()), 2)


def _costs(stream: StreamSpec, table: RoutingTable, recent: RecentInput) -> str | None:
    """Return the cost of a new table of each strategy, relative to the cheapest; None without queries."""
    if not len(recent.boxes):
        return None
    found = compare_strategies(recent, table.slots, is_event=stream.is_event)
    least = found[0][0]
    return ", ".join(f"{one.strategy} {cost / least:.2f}" for cost, one in found)


def _touched(table: RoutingTable, recent: RecentInput) -> NDArray[np.bool_]:
    """Return which queries are on which slots, bool (queries, slots)."""
    return table.slots_touching(recent.boxes, None if recent.texts is None else recent.texts.sought)


def _change(last: StreamRoute | None) -> str | None:
    """Return the effect of and the reason for the last change."""
    if last is None:
        return None
    entry = last.entry
    balance = f"max/mean {entry.before:.2f} before, {entry.predicted:.2f} expected"
    by = f"balance, {entry.why}" if entry.is_automatic else entry.why
    if entry.layout:
        by += f" with {entry.layout}"
    packages = "1 package" if entry.packages == 1 else f"{entry.packages} packages"
    return f"{by}: {balance}; {packages}, {entry.moved:.0%} of the queries move"


def _slot_rows(stream: str, table: RoutingTable, recent: RecentInput) -> Iterator[tuple[Any, ...]]:
    """Yield each slot's share of a stream; every slot has its part of the leaves dealt by hash.

    Leaves split by texts count as their children, which have no cells of their own.
    """
    load, table = recent.load(table.cells), recent.measured(table)
    loads, total = slot_loads(table, load.cost), float(load.cost.sum())
    records, queries = slot_records(table, load.records), _touched(table, recent).sum(axis=0)
    snapshots = table.slots_touching(recent.asked_boxes(table.cells, load.records)).sum(axis=0)
    upkeep = slot_loads(table, load.upkeep)
    cells = np.bincount(table.leaf.ravel(), minlength=len(table.slot))
    for slot in range(table.slots):
        mine = table.slot == slot
        yield (
            *(stream, slot, int(np.count_nonzero(mine)), int(cells[mine].sum())),
            *(round(float(records[slot])), int(queries[slot]), int(snapshots[slot])),
            f"{loads[slot] / total:.1%}" if total else None,
            f"{upkeep[slot] / total:.1%}" if total and load.weights.upkeep else None,
        )
