"""The slots that a snapshot queries: those that may hold records in its region.

A slot is skipped if none of its cells touches the region under any routing by which kept records were dealt
(SSTD section 5.2). For nearest neighbours, the slots whose cells hold the centre are queried first: their
results bound the circle in which other slots may contribute (SSTD section 6.2, CheetahGIS section VI).
For an object with a given key, only the slot that the hash of the key selects is queried, if all records are
dealt by key, and otherwise the slots that know the key (CheetahGIS section VI-A looks it up in one table).
Slots also count their objects by cell; slots without objects in the cells of the region are skipped too
(CheetahGIS section V-C), however the stream is routed.
If leaves are split by texts, slots whose lists lack the words of `CONTAINS` are skipped too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.client.connection import Connection
from stqsh.core.kernels.geometry.circles import circle_box
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.matching.keyword_queries import words_needed
from stqsh.core.objects.presence import may_hold
from stqsh.core.snapshots.select import RANK, KeptShares, empty_share, part
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.routing.query_routing import EVERYWHERE, MemberBoxes, QueryRouting
from stqsh.routing.slot_terms import sought_words
from stqsh.routing.table import RoutingTable, slots_of
from stqsh.routing.text_leaves import SoughtTerms
from stqsh.sources.replay_store.manifest import read_manifest
from stqsh.sources.replay_store.spatial_extent import initial_table
from stqsh.spec.query import BoundQuery, SnapshotSpec
from stqsh.spec.region import Key, NearestSpec, Place, Region
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue import area_boxes
from stqsh.storage.control_log import ControlDb, get_meta
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import step_after_dealt
from stqsh.storage.stream_routes import INITIAL, read_table, routes_kept, stream_routes


class KeptTables:
    """Finds the routing tables of a session's streams; reads each only once.

    Args:
        home: the session's home.
        control: its control log.
    """

    def __init__(self, home: SessionHome, control: ControlDb) -> None:
        self._home, self._control = home, control
        self._read: dict[tuple[int, int], RoutingTable] = {}

    def of(self, stream: StreamSpec, step: int, tick_us: int | None) -> list[RoutingTable]:
        """Return the tables by which the records kept after a step were dealt, newest last.

        The list is empty while the routing is unknown: before an engine has started, and while the stream is
        being read.
        """
        rows = (INITIAL, *(route.seq for route in stream_routes(self._control, stream.id)))
        taken = partial(step_after_dealt, self._control, stream.id)
        kept = routes_kept(stream, rows, taken, step, tick_us)
        tables = [self._table(stream, row) for row in kept]
        found = [table for table in tables if table is not None]
        return found if len(found) == len(tables) else []

    def _table(self, stream: StreamSpec, row: int) -> RoutingTable | None:
        key = stream.id, row
        if key not in self._read:
            table = read_table(self._control, row) if row != INITIAL else self._initial(stream)
            if table is None:
                return None
            self._read[key] = table
        return self._read[key]

    def _initial(self, stream: StreamSpec) -> RoutingTable | None:
        slots = get_meta(self._control, "slots")
        manifest = read_manifest(self._home.stream(stream.id))
        return None if slots is None else initial_table(manifest, stream, int(slots))


Slots = NDArray[np.bool_]
Box = tuple[float, float, float, float]


class AskedCount(NamedTuple):
    """How many slots a snapshot queries.

    Attributes:
        asked: the number of slots that are queried.
        touched: the number of slots whose cells its region touches; for nearest neighbours, all.
        slots: the number of all slots.
    """

    asked: int
    touched: int
    slots: int


Others = Callable[[list[pa.RecordBatch]], Slots]
"""Maps the shares of the first slots to the slots to query next."""


class Tables(Protocol):
    """Provides the routings of streams."""

    def of(self, stream: StreamSpec, step: int, tick_us: int | None) -> list[RoutingTable]:
        """Return the tables by which the records kept after a step were dealt, newest last."""


class ChosenSlots(NamedTuple):
    """The slots to query first, how many slots the routing leaves, and the function for the next slots."""

    first: Slots
    touched: int
    others: Others | None = None


class SlotChoice:
    """Chooses the slots that a snapshot queries.

    Args:
        tables: provides the routings.
        areas: returns the boxes of an area's members by its id.
    """

    def __init__(self, tables: Tables, areas: Callable[[int], MemberBoxes]) -> None:
        self._tables, self._areas = tables, areas

    def chosen(
        self, states: list[SlotState], spec: SnapshotSpec, stream: StreamSpec, place: Place | None
    ) -> ChosenSlots:
        """Return the slots to query; the arguments are those of `AskedSlots.shares`."""
        clock, count, region = states[0].clock, len(states), spec.region
        everyone, centre = np.ones(count, np.bool_), None
        is_list = spec.aggregate is None and spec.aggregates is None and stream.extent is None
        if isinstance(region, NearestSpec) and is_list:
            centre = region.place or place
        is_bounded = centre is not None or not region.is_nearest
        # Events of the past may have been dealt by routings that are no longer known.
        if spec.past or (spec.lookup is None and not is_bounded):
            return ChosenSlots(everyone, count)
        # Read the states before the log: then the log has every routing that they know.
        tables = self._tables.of(stream, clock.step, clock.tick_us)
        if spec.lookup is not None:
            return ChosenSlots(slots_of_key(states, stream, spec.lookup, tables), count)
        is_hashed = _are_hashed(tables)
        routing = self._routing(count, [table.over(count) for table in tables])
        sought = None if is_hashed else _sought(routing, spec, stream)

        def touched(box: Box) -> Slots:
            if is_hashed:
                return everyone
            found: Slots = routing.slots_touching(stream.id, np.array([box]), sought)[0]
            return found

        if centre is None or not isinstance(region, NearestSpec):
            box = routing.box(region, stream.planar)
            among = touched(box)
            return ChosenSlots(slots_holding(states, stream.id, box, among), int(among.sum()))
        k, (x, y) = region.k, centre
        first = touched((x, y, x, y))

        def others(shares: list[pa.RecordBatch]) -> Slots:
            # If the first slots found k objects, the k nearest are no farther than the k-th of these.
            # Then only slots that touch that circle can contribute. With fewer than k objects, all slots can.
            far = np.sort(np.concatenate([np.empty(0), *(share.column(RANK).to_numpy() for share in shares)]))
            box = circle_box(x, y, far[k - 1], stream.planar) if len(far) >= k else EVERYWHERE
            return slots_holding(states, stream.id, box, touched(box) & ~first)

        return ChosenSlots(first, count, others)

    def box(self, spec: SnapshotSpec, stream: StreamSpec) -> Box:
        """Return a box around the region of a snapshot; infinite if it may be anywhere."""
        return self._routing(1, []).box(spec.region, stream.planar)

    def _routing(self, slots: int, tables: list[RoutingTable]) -> QueryRouting:
        return QueryRouting(slots, lambda _: tables, self._areas)


class AskedSlots(SlotChoice):
    """Finds the slots that a client's snapshots query, and queries them."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(
            KeptTables(connection.home, connection.db), lambda area: area_boxes(connection.db, area)
        )
        self._connection = connection

    def shares(
        self,
        states: list[SlotState],
        spec: SnapshotSpec,
        stream: StreamSpec,
        place: Place | None,
        kept: KeptShares | None = None,
    ) -> list[pa.RecordBatch]:
        """Return the shares of a snapshot's answer, of all slots that may have one.

        Args:
            states: the states of all slots, in order.
            spec: the snapshot.
            stream: its stream.
            place: the place of its region's focal object, if it has one.
            kept: the cache of earlier snapshots.
        """

        def ask(chosen: Slots) -> list[pa.RecordBatch]:
            asked = (state for state, wanted in zip(states, chosen.tolist(), strict=True) if wanted)
            shares = (part(state, spec, place, kept=kept) for state in asked)
            return [share for share in shares if share is not None]

        chosen = self.chosen(states, spec, stream, place)
        shares = ask(chosen.first)
        if chosen.others is not None:
            shares += ask(chosen.others(shares))
        if shares:
            return shares
        empty = empty_share(states[0], spec)
        return [] if empty is None else [empty]

    def count(
        self, states: list[SlotState], spec: SnapshotSpec, stream: StreamSpec, place: Place | None
    ) -> AskedCount:
        """Return how many slots `shares` queries; for nearest neighbours, query the first ones."""
        first, touched, others = self.chosen(states, spec, stream, place)
        asked = int(first.sum())
        if others is not None:
            shares = (part(states[slot], spec, place) for slot in np.flatnonzero(first).tolist())
            asked += int(others([share for share in shares if share is not None]).sum())
        return AskedCount(asked, touched, len(states))

    def text(self, stream: StreamSpec, spec: BoundQuery, otherwise: str) -> str:
        """Return on how many of a stream's slots a query runs, and why, for EXPLAIN.

        `otherwise` is the text if all records are dealt by hash.
        """
        progress = self._connection.progress()
        tables = self._tables.of(stream, progress.step, progress.tick_us)
        if _are_hashed(tables):
            return otherwise
        count = max(table.slots for table in tables)
        routing = self._routing(count, tables)
        box = routing.box(spec.region, stream.planar)
        if box == EVERYWHERE:
            return f"{count} of {count}: {_everywhere(spec.region)}"
        sought = _sought(routing, spec, stream)
        touched = int(routing.slots_touching(stream.id, np.array([box]), sought).sum())
        words = " and whose lists have its words" if sought is not None and len(sought.term) else ""
        older = f", under {len(tables)} routings whose records are kept" if len(tables) > 1 else ""
        return f"{touched} of {count}: those whose cells the region touches{words}{older}"


def slots_holding(states: list[SlotState], stream: int, box: Box, among: Slots) -> Slots:
    """Return those of the slots `among` that may have objects of a stream in a box, by their counts."""
    corners, found = np.array(box), np.zeros(len(states), np.bool_)
    for slot in np.flatnonzero(among).tolist():
        found[slot] = may_hold(states[slot], stream, corners)
    return found


def slots_of_key(states: list[SlotState], stream: StreamSpec, key: Key, tables: list[RoutingTable]) -> Slots:
    """Return the slots that may have the object with a key.

    Args:
        states: the states of all slots, in order.
        stream: the stream.
        key: the key.
        tables: the routings by which kept records were dealt; empty while they are unknown.
    """
    keys: pa.Array[Any] = pa.array([key], pa.string() if isinstance(key, str) else pa.int64())
    hashes, count = hash_keys(keys), len(states)
    if tables and _are_hashed(tables):
        chosen = np.zeros(count, np.bool_)
        for table in tables:
            chosen[slots_of(hashes, min(table.slots, count))] = True
        return chosen
    if stream.is_event:  # the keys of events are in another index
        return np.ones(count, np.bool_)
    known = f"s{stream.id}/objects/keys"
    found = (f"{known}/table" in one and Interner(one, known).find(keys, hashes)[0] >= 0 for one in states)
    return np.fromiter(found, np.bool_, count)


def _sought(routing: QueryRouting, spec: BoundQuery, stream: StreamSpec) -> SoughtTerms | None:
    """Return the terms that a query needs; None if no table of its stream has leaves split by texts."""
    return sought_words(words_needed(spec, stream)) if routing.looks_at_terms(stream.id) else None


def _are_hashed(tables: list[RoutingTable]) -> bool:
    """Return whether records may be on any slot, independent of their places."""
    return all(table.is_hashed for table in tables)


def _everywhere(region: Region) -> str:
    if isinstance(region, NearestSpec):
        return "the nearest may be on any"
    return "the region moves" if region.focal_key is not None else "there is no region"
