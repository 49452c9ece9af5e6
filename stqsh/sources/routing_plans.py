"""Plan new routings: find the table that suits a stream's recent records and its queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace as replace_entry

from stqsh.errors import StqshError
from stqsh.routing.adjusters import ADJUSTERS
from stqsh.routing.adjusters.adjuster_choice import even_out
from stqsh.routing.cells import Cells
from stqsh.routing.choice import AskedQueries, Prediction, chosen, predict, predictions
from stqsh.routing.load import Balance, Load, balance_of, slot_loads
from stqsh.routing.packages import packages_of, table_between
from stqsh.routing.strategies import lay
from stqsh.routing.table import TEXT, RoutingTable
from stqsh.routing.table_payload import Move
from stqsh.settings import memory_bytes
from stqsh.sources.recent_input import EarlierInput, RecentInput
from stqsh.sources.replay_store.manifest import read_manifest
from stqsh.sources.replay_store.spatial_extent import initial_table
from stqsh.spec.log import StreamRouted
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import ControlDb, get_meta
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import step_taken
from stqsh.storage.rows import StreamRow
from stqsh.storage.stream_routes import (
    INITIAL,
    StreamRoute,
    append_route,
    read_goal,
    read_move,
    read_table,
    stream_routes,
)

EVEN = 1.05
"""REBALANCE accepts a routing if no slot's load exceeds this multiple of the mean."""

CLEARLY = 1.2
"""The cheapest strategy replaces a stream's first grid if it is better by this factor."""

_ROOM = 0.5
"""The share of the machine's memory up to which copies of queries do not make a strategy more expensive."""


class RoutePlan(NamedTuple):
    """A new routing.

    Attributes:
        table: its table.
        packages: the number of pairs of slots between which cells move.
        moved: the share of the queries that have to be sent to another slot, 0 to 1.
        before, after: the largest load of a slot divided by the mean, under the old table now, and as
            expected under this one.
        gain: by how much it lowers the largest load, in the time of records.
        copies: the number of queries that slots have to add, counted once for each slot.
        layout: the settings that it was laid out by, see `RouteSettings.layout`; None if it is a change of
            the old table.
        adjuster: the load adjuster that made it, or why the strategy was chosen; None for a requested layout.
        cuts, learned: the packages in which it takes effect, see `Packages`.
        looked: the last row of the log that `move` considers.
        move: which queries move, and with more packages where to; None if unknown.
        first: the table of the first package; None if there is one only.
    """

    table: RoutingTable
    packages: int
    moved: float
    before: float
    after: float
    gain: float
    copies: int
    layout: str | None = None
    adjuster: str | None = None
    cuts: tuple[int, ...] = ()
    learned: tuple[int, ...] = ()
    looked: int = 0
    move: Move | None = None
    first: RoutingTable | None = None


def find_previous_rows(home: SessionHome, stream: StreamSpec) -> None:
    """Compute the previous row of each row of a moving stream, unless that has been done."""
    from stqsh.sources.replay_store.previous_rows import keep_previous_rows  # numba: only when needed

    keep_previous_rows(home.stream(stream.id), stream.key, stream.time)


def current_table(home: SessionHome, control: ControlDb, stream: StreamRow) -> RoutingTable | None:
    """Return the newest routing table of a stream; None before the first engine or while it is read."""
    return _newest_table(home, control, stream, read_table)


def goal_table(home: SessionHome, control: ControlDb, stream: StreamRow) -> RoutingTable | None:
    """Return the table of a stream after the last package of its last change; None like `current_table`."""
    return _newest_table(home, control, stream, read_goal)


def _newest_table(
    home: SessionHome, control: ControlDb, stream: StreamRow, read: Callable[[ControlDb, int], RoutingTable]
) -> RoutingTable | None:
    if routes := stream_routes(control, stream.id):
        return read(control, routes[-1].seq)
    slots = get_meta(control, "slots")
    if slots is None:
        return None
    return initial_table(read_manifest(home.stream(stream.id)), stream.spec, int(slots))


def put_in_force(
    control: ControlDb,
    stream: StreamRow,
    plan: RoutePlan,
    text: str = "",
    *,
    after: int | None = None,
    is_automatic: bool = False,
) -> StreamRouted:
    """Log a routing of a stream, so that it takes effect with the next step; return what is logged.

    If the change is divided, only its first package takes effect then, see `log_next_package`.

    Args:
        control: the control log.
        stream: the stream.
        plan: its new routing.
        text: the statement that requested it.
        after: for a plan without a statement, the newest routing it is based on; a later statement overrides
            it.
        is_automatic: whether SET balance made it.

    Raises:
        StqshError: meanwhile the stream has been dropped, or another client has routed it.
    """
    table = plan.table
    with control.transaction():
        if all(one.id != stream.id for one in live_streams(control)):
            raise StqshError(f"stream {stream.name} has been dropped")
        routes = stream_routes(control, stream.id)
        if after is not None and after != (routes[-1].seq if routes else INITIAL):
            raise StqshError(f"stream {stream.name} has another routing by now")
        entry = StreamRouted(
            stream.id,
            stream.name,
            version=routes[-1].entry.version + 1 if routes else 2,
            strategy=table.strategy,
            slots=table.slots,
            why=plan.adjuster or "REPARTITION",
            is_automatic=is_automatic,
            leaves=int(np.count_nonzero(table.slot > TEXT)),
            packages=plan.packages,
            moved=plan.moved,
            before=plan.before,
            predicted=plan.after,
            layout=current_layout(routes) if plan.layout is None else plan.layout,
            cuts=plan.cuts,
            learned=plan.learned,
            looked=plan.looked,
        )
        first = table if plan.first is None else plan.first
        append_route(control, entry, first, text, plan.move)
        return entry


def in_packages(plan: RoutePlan, old: RoutingTable | None, recent: RecentInput) -> RoutePlan:
    """Return a plan divided into packages by `routing.package`; `old` is the table in force."""
    assert old is not None, "there is a table to change"
    found = packages_of(old, plan.table, recent.boxes, recent.settings.package)
    if found is None:
        return plan
    queries = [np.sort(recent.ids[some]) for some in found.queries]
    plan = plan._replace(cuts=found.cuts, learned=found.learned, looked=recent.looked, move=Move(queries))
    if not found.cuts:
        return plan
    return plan._replace(first=table_between(old, plan.table, found.cuts[0]), move=Move(queries, plan.table))


def log_next_package(control: ControlDb, stream_id: int) -> bool:
    """Log the next package of a stream's last change once the one before is in force.

    Returns:
        Whether the change is complete, so that there is nothing to do until the next one.
    """
    with control.transaction():
        routes = stream_routes(control, stream_id)
        if not routes or routes[-1].entry.is_complete:
            return True
        if all(one.id != stream_id for one in live_streams(control)):
            return True
        seq, _, entry = routes[-1]
        if step_taken(control, seq) is not None:
            package, move = entry.package + 1, read_move(control, seq)
            assert move is not None and move.goal is not None, "there are more packages"
            following = replace_entry(entry, version=entry.version + 1, package=package)
            queries, goal = move.queries[1:], move.goal
            if following.is_complete:
                append_route(control, following, goal, move=Move(queries))
            else:
                between = table_between(read_table(control, seq), goal, entry.cuts[package])
                append_route(control, following, between, move=Move(queries, goal))
        return False


def current_layout(routes: Sequence[StreamRoute]) -> str:
    """Return the settings by which the newest of a stream's routings was laid out; "" for the defaults."""
    return routes[-1].entry.layout if routes else ""


def plan_repartition(recent: RecentInput, old: RoutingTable, strategy: str, slots: int) -> RoutePlan:
    """Lay out the cells of a stream anew by a strategy, and assign them to a number of slots."""
    load = recent.load(recent.cells)
    table = lay(strategy, load, slots, recent.settings.leaves)
    layout = recent.settings.layout(strategy, by_texts=recent.texts is not None)
    return _plan(recent, old, table, load)._replace(layout=layout)


def compare_strategies(recent: RecentInput, slots: int, *, is_event: bool) -> list[tuple[float, Prediction]]:
    """Return the expected cost of a new table by each strategy, in records, the cheapest first."""
    sought = None if recent.texts is None else recent.texts.sought
    found = predictions(
        recent.load(recent.cells),
        slots,
        AskedQueries(recent.boxes, sought, is_moving=not is_event),
        recent.settings.leaves,
    )
    room = memory_bytes() * _ROOM
    return sorted(((one.cost(room), one) for one in found), key=lambda compared: compared[0])


def plan_cheapest(recent: RecentInput, old: RoutingTable, *, is_event: bool) -> RoutePlan:
    """Lay out the cells of a stream anew by the strategy with the lowest expected cost."""
    _, best = compare_strategies(recent, old.slots, is_event=is_event)[0]
    plan = _plan(recent, old, best.table, recent.load(recent.cells), f"{best.strategy} is cheapest")
    return plan._replace(layout=recent.settings.layout(best.strategy))


def plan_first(recent: RecentInput, initial: RoutingTable, rows: int) -> RoutePlan | None:
    """Lay out the cells of a new event stream by the strategy with the lowest expected cost.

    Args:
        recent: a sample of its records, and its queries.
        initial: the grid that it would begin with otherwise.
        rows: the number of its records.

    Returns:
        None if the grid is hardly more expensive.
    """
    asked, room = AskedQueries(recent.boxes), memory_bytes() * _ROOM

    def load(cells: Cells) -> Load:
        """Return the load of a whole batch."""
        sampled = recent.load(cells)
        return replace(
            sampled, records=sampled.records * (min(rows, recent.settings.recent) / max(len(recent.x), 1))
        )

    leaves = recent.settings.leaves
    best = chosen(predictions(load(recent.cells), initial.slots, asked, leaves), room)
    if predict(initial, load(initial.cells), asked).cost(room) < CLEARLY * best.cost(room):
        return None
    reason = f"chosen as it begins, {best.strategy} is cheapest"
    plan = _plan(recent, initial, best.table, recent.load(recent.cells), reason)
    layout = recent.settings.layout(best.strategy)
    return plan._replace(packages=0, moved=0.0, layout=layout)  # there is nothing to move yet


def plan_rebalance(
    recent: RecentInput,
    old: RoutingTable,
    adjuster: str | None,
    limit: float = EVEN,
    earlier: EarlierInput | None = None,
    transfer: float = 0.0,
) -> RoutePlan | None:
    """Even out the loads of slots; None if there is no gain.

    Args:
        recent: the stream's recent records and its queries.
        old: the table in force.
        adjuster: a load adjuster that suits the table; None tries all suitable ones, beginning with the one
            that moves least.
        limit: the maximum load of a slot, as a multiple of the mean.
        earlier: the stream's earlier input, to extrapolate a load that moves; None to assume that it stays.
        transfer: the cost to add a query to a slot, in the time of records, for adjusters that weigh moves.
    """
    load, old = recent.load(old.cells), recent.measured(old)
    if earlier is not None:
        load = load.ahead(earlier.recent.load(old.cells), earlier.ahead)
    transfer *= load.weights.a_record
    if adjuster is None:
        table, used = even_out(old, load, limit, transfer)
        return _plan(recent, old, table, load, ", ".join(used)) if used else None
    proposed = ADJUSTERS[adjuster].propose(old, load, limit, transfer)
    return None if proposed is None else _plan(recent, old, proposed, load, adjuster)


def load_balance(recent: RecentInput, table: RoutingTable) -> Balance:
    """Return how evenly a table spreads the load over slots."""
    if table.is_hashed:
        return Balance(1.0, 1.0, 0.0)
    return balance_of(slot_loads(recent.measured(table), recent.load(table.cells).cost))


def load_ratio(recent: RecentInput, table: RoutingTable) -> float:
    """Return the largest load of a slot under a table divided by the mean."""
    return load_balance(recent, table).ratio


def _plan(
    recent: RecentInput, old: RoutingTable, new: RoutingTable, load: Load, adjuster: str | None = None
) -> RoutePlan:
    moved, copies = _newly_touched(old, new, recent)
    before, loads = load_ratio(recent, old), slot_loads(new, load.cost)
    dearest = before * float(loads.mean())
    if old.cells == load.cells:
        dearest = float(slot_loads(recent.measured(old), load.cost).max())
    return RoutePlan(
        new,
        old.packages_to(new),
        moved,
        before,
        balance_of(loads).ratio,
        (dearest - float(loads.max())) / load.weights.a_record,
        copies,
        adjuster=adjuster,
    )


def _newly_touched(old: RoutingTable, new: RoutingTable, recent: RecentInput) -> tuple[float, int]:
    """Count the queries that concern a slot under the new table but not under the old one.

    Queries that may concern every slot are ignored.

    Returns:
        Their share, 0 to 1, and how many such slots they have in all.
    """
    chosen = np.flatnonzero(~np.isinf(recent.boxes).all(axis=1))
    if not len(chosen):
        return 0.0, 0
    boxes, sought = recent.boxes[chosen], None if recent.texts is None else recent.texts.sought.those(chosen)
    touched, known = new.slots_touching(boxes, sought), old.slots_touching(boxes, sought)
    shared = min(touched.shape[1], known.shape[1])
    touched[:, :shared] &= ~known[:, :shared]
    return float(touched.any(axis=1).mean()), int(touched.sum())
