"""Plans of new routings: what a stream brought lately and asks for, and the table that suits that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Floats
from stqsh.core.state.slot_state import SlotState
from stqsh.routing.adjusters import ADJUSTERS
from stqsh.routing.adjusters.ladder import even_out
from stqsh.routing.cells import Bounds, Cells
from stqsh.routing.load import Load, balance_of, slot_loads
from stqsh.routing.query_routing import QueryRouting
from stqsh.routing.strategies import STRATEGIES
from stqsh.routing.table import RoutingTable
from stqsh.sources.replay_store.manifest import read_manifest
from stqsh.sources.replay_store.spatial_extent import SAMPLE, bounds_of, initial_table
from stqsh.sources.replay_store.store import ReplayStore, open_store
from stqsh.spec.chunk import unpack
from stqsh.spec.log import StreamRouted
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue import area_geometry
from stqsh.storage.control_log import ControlDb, get_meta
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress
from stqsh.storage.queries.living_queries import living_queries
from stqsh.storage.rows import LogRow, Progress, StreamRow
from stqsh.storage.slot_files import PublishedSlots
from stqsh.storage.stream_routes import append_route, read_table, stream_routes

SIDE = 256
"""Cells a side of a new table."""
RECENT = 200_000
"""The most records that count as recent."""
EVEN = 1.05
"""A routing is even enough for REBALANCE if no slot's load is above this multiple of the mean."""
_PATIENCE_S = 10.0
"""How long to wait for the slots' objects while a batch is under way."""
_OUTSIDE = 0.5
"""Cells are laid over where recent records are if a larger share of these is outside the stream's bounds."""


@dataclass(frozen=True, eq=False)
class RecentInput:
    """What a stream brought lately, and what its queries ask about.

    Attributes:
        bounds: the bounds of the stream.
        x, y: the places of recent records, float64 (n,) each.
        boxes: a box around the region of each continuous query, float64 (m, 4).
    """

    bounds: Bounds
    x: Floats
    y: Floats
    boxes: Floats
    _loads: dict[Cells, Load] = field(default_factory=dict, init=False, repr=False)

    def load(self, cells: Cells) -> Load:
        """Return the load of each cell."""
        if cells not in self._loads:
            self._loads[cells] = Load.of(cells, self.x, self.y, self.boxes)
        return self._loads[cells]

    @property
    def cells(self) -> Cells:
        """The cells of a new table."""
        x1, y1, x2, y2 = self.bounds
        outside = (self.x < x1) | (self.x > x2) | (self.y < y1) | (self.y > y2)
        if len(outside) and outside.mean() > _OUTSIDE:
            return Cells(bounds_of(np.column_stack([self.x, self.y])), SIDE)
        return Cells(self.bounds, SIDE)


class EarlierInput(NamedTuple):
    """What a stream brought before.

    Attributes:
        recent: what that was.
        ahead: for how long a change since then is expected to go on, as a multiple of the time since then.
    """

    recent: RecentInput
    ahead: float


class RoutePlan(NamedTuple):
    """A new routing.

    Attributes:
        table: its table.
        packages: how many pairs of slots there are of which one hands cells over to the other.
        moved: the share of the queries that some slot has to learn of, 0 to 1.
        before, after: the largest load of a slot divided by the mean, under the old table now, and under this
            one as it is expected.
        adjuster: the load adjuster that made it, None for a new layout.
    """

    table: RoutingTable
    packages: int
    moved: float
    before: float
    after: float
    adjuster: str | None = None


def recent_input(home: SessionHome, control: ControlDb, stream: StreamSpec) -> RecentInput:
    """Return what a stream brought lately, and what it is asked.

    Of a replayed stream these are its last records, or a sample before the first; of a live one the last
    records of its objects, or its last events.

    Raises:
        SourceError: its store is not readable.
        NotPublishedError: the objects of a live stream are not on this host.
    """
    progress, bounds = read_progress(control), stream.bounds
    if stream.is_live:
        x, y = _present_places(home, control, stream, progress)
    else:
        store = open_store(home.stream(stream.id))
        x, y = _stored_places(store, stream, progress.stats.rows.get(stream.id, 0))
        bounds = store.manifest.bounds or bounds
    present = ~(np.isnan(x) | np.isnan(y))
    x, y = x[present], y[present]
    bounds = bounds or bounds_of(np.column_stack([x, y]))
    geometry = QueryRouting(1, lambda _: [], lambda area: unpack(area_geometry(control, area)))
    living = living_queries(control, stream.id, 1 << 62, progress.tick_us, progress.step + 1)
    boxes = [geometry.boxes(stream, one) for one in living.queries]
    return RecentInput(bounds, x, y, np.concatenate([np.empty((0, 4)), *boxes]))


def _stored_places(store: ReplayStore, stream: StreamSpec, taken: int) -> tuple[Floats, Floats]:
    """Return the places of the last records among those taken from a store, or a sample before the first."""
    gone = store.manifest.gone_rows
    if taken:
        recent = store.read(max(gone, taken - RECENT), taken)
    else:
        count = min(store.rows - gone, SAMPLE)
        recent = store.take(np.linspace(gone, store.rows - 1, count).astype(np.int64))
    x, y = (recent.column(name).to_numpy(zero_copy_only=False) for name in (stream.x, stream.y))
    return x, y


def _present_places(
    home: SessionHome, control: ControlDb, stream: StreamSpec, progress: Progress
) -> tuple[Floats, Floats]:
    """Return the places of the objects that the slots have, or of many of them; of events, of the last."""
    slots = get_meta(control, "slots")
    if not progress.step or slots is None:
        return np.empty(0), np.empty(0)

    def places(states: list[SlotState]) -> tuple[Floats, Floats]:
        own = f"s{stream.id}/objects"
        mine = [state for state in states if f"{own}/known" in state]
        known = [np.flatnonzero(state.array(f"{own}/known")) for state in mine]
        if stream.is_event:
            times = [state.array(f"{own}/ts") for state in mine]
            newest = np.sort(np.concatenate([np.empty(0, np.int64), *times]))[-RECENT:]
            known = [np.flatnonzero(some >= newest[0]) if len(newest) else some for some in times]
        every = 1 + sum(map(len, known)) // RECENT
        found = [
            [state.array(f"{own}/{axis}")[some[::every]] for axis in "xy"]
            for state, some in zip(mine, known, strict=True)
        ]
        x, y = np.concatenate([np.empty((2, 0)), *found], axis=1)
        return x, y

    return PublishedSlots(home.arena.folders, int(slots)).read(places, progress.step, lambda: _PATIENCE_S)


def find_previous_rows(home: SessionHome, stream: StreamSpec) -> None:
    """Find the row before each row of a moving stream, if that has not been done; see `previous_rows`."""
    from stqsh.sources.replay_store.previous_rows import previous_rows  # numba: only when needed

    directory = home.stream(stream.id)
    previous_rows(open_store(directory), directory, stream.key, stream.time)


def current_table(home: SessionHome, control: ControlDb, stream: StreamRow) -> RoutingTable | None:
    """Return the newest routing table of a stream; None before an engine has started, or while it is read."""
    if routes := stream_routes(control, stream.id):
        return read_table(control, routes[-1].seq)
    slots = get_meta(control, "slots")
    if slots is None:
        return None
    return initial_table(read_manifest(home.stream(stream.id)), stream.spec, int(slots))


def put_in_force(
    control: ControlDb, stream: StreamRow, plan: RoutePlan, text: str = "", *, is_automatic: bool = False
) -> LogRow:
    """Log a routing of a stream, so that it takes effect with the next step; return its row.

    `text` is the statement that asked for it.
    """
    table = plan.table
    with control.transaction():
        entry = StreamRouted(
            stream.id,
            stream.name,
            version=len(stream_routes(control, stream.id)) + 2,
            strategy=table.strategy,
            slots=table.slots,
            why=plan.adjuster or "REPARTITION",
            is_automatic=is_automatic,
            leaves=len(table.slot),
            packages=plan.packages,
            moved=plan.moved,
            before=plan.before,
            predicted=plan.after,
        )
        return append_route(control, entry, table, text)


def plan_repartition(recent: RecentInput, old: RoutingTable, strategy: str, slots: int) -> RoutePlan:
    """Lay out the cells of a stream again by a strategy, and deal them to a number of slots."""
    load = recent.load(recent.cells)
    return _plan(recent, old, STRATEGIES[strategy](load, slots), load)


def plan_rebalance(
    recent: RecentInput,
    old: RoutingTable,
    adjuster: str | None,
    limit: float = EVEN,
    earlier: EarlierInput | None = None,
) -> RoutePlan | None:
    """Even out the loads of slots; None if nothing is gained.

    Args:
        recent: what the stream brought lately.
        old: the table in force.
        adjuster: the load adjuster, one that fits the table; None tries those that fit, the one that moves
            least first.
        limit: how many times the mean the largest load of a slot may be.
        earlier: what the stream brought before, for a load that moves; None if it is to stay as it is.
    """
    load = recent.load(old.cells)
    if earlier is not None:
        load = load.ahead(earlier.recent.load(old.cells), earlier.ahead)
    if adjuster is None:
        table, used = even_out(old, load, limit)
        return _plan(recent, old, table, load, ", ".join(used)) if used else None
    proposed = ADJUSTERS[adjuster].propose(old, load, limit)
    return None if proposed is None else _plan(recent, old, proposed, load, adjuster)


def load_ratio(recent: RecentInput, table: RoutingTable) -> float:
    """Return the largest load of a slot under a table divided by the mean."""
    if table.is_hashed:
        return 1.0
    return balance_of(slot_loads(table, recent.load(table.cells).cost)).ratio


def _plan(
    recent: RecentInput, old: RoutingTable, new: RoutingTable, load: Load, adjuster: str | None = None
) -> RoutePlan:
    moved, after = _newly_touched(old, new, recent.boxes), balance_of(slot_loads(new, load.cost)).ratio
    return RoutePlan(new, old.packages_to(new), moved, load_ratio(recent, old), after, adjuster)


def _newly_touched(old: RoutingTable, new: RoutingTable, boxes: Floats) -> float:
    """Return the share of boxes that touch a slot under a table which they do not touch under another."""
    boxes = boxes[~np.isinf(boxes).all(axis=1)]
    if not len(boxes):
        return 0.0
    touched = new.slots_touching(boxes)
    known = old.slots_touching(boxes)
    shared = min(touched.shape[1], known.shape[1])
    touched[:, :shared] &= ~known[:, :shared]
    return float(touched.any(axis=1).mean())
