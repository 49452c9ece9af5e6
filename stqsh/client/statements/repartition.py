"""REPARTITION and REBALANCE: change the routings of streams with the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from stqsh.client.results import Message, Outcome, WaitNotice
from stqsh.client.statements.context import StatementContext
from stqsh.errors import NotPublishedError, StqshError
from stqsh.lang.ast.statements import Rebalance, Repartition
from stqsh.lang.binder.administration import RebalanceSpec, RepartitionSpec
from stqsh.lang.binder.bind import bind
from stqsh.lang.errors import NotSupportedError
from stqsh.lang.printer.printer import to_sql
from stqsh.routing.adjusters import ADJUSTERS
from stqsh.routing.packages import MOST_PACKAGES
from stqsh.routing.strategies import STRATEGIES
from stqsh.routing.table import RoutingTable
from stqsh.sources.recent_input import RecentInput, recent_input
from stqsh.sources.route_settings import RouteSettings
from stqsh.sources.routing_plans import (
    RoutePlan,
    current_layout,
    current_table,
    find_previous_rows,
    goal_table,
    in_packages,
    load_ratio,
    plan_rebalance,
    plan_repartition,
    put_in_force,
)
from stqsh.spec.log import StreamRouted
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue import live_queries, live_streams
from stqsh.storage.control_log import ControlDb
from stqsh.storage.progress import stream_statuses, unknown_until
from stqsh.storage.rows import Progress, StreamRow
from stqsh.storage.session_settings import session_settings
from stqsh.storage.stream_routes import is_in_force, stream_routes

if TYPE_CHECKING:
    import pyarrow as pa

_MOVES = {
    "shift": "moves the borders of rectangles",
    "splitmerge": "splits and merges rectangles",
    "pm": "moves leaves of a tree",
    "fm": "moves leaves of a tree",
    "fg": "splits and merges leaves",
    "greedy": "moves single leaves",
    "border": "moves leaves at borders",
}
_SUITS = {"shift": "agrid", "splitmerge": "agrid", "greedy": "grid", "border": "quadtree"}
"""The strategy to suggest if an adjuster does not fit; qttree by default."""


def repartition(context: StatementContext, statement: Repartition) -> Iterator[Outcome]:
    """Execute REPARTITION of one stream, or of all streams for which the strategy is possible."""
    spec: RepartitionSpec = bind(statement, context.view).spec
    text = f"{to_sql(statement)};"

    def change(stream: StreamRow, table: RoutingTable) -> Iterator[Message]:
        slots = table.slots if spec.slots is None else spec.slots
        by_texts = _may_split_by_texts(context, stream, spec.strategy)
        is_laid_so = table.strategy == spec.strategy and by_texts == (table.texts is not None)
        layout = _settings(context).layout(spec.strategy, by_texts=by_texts)
        is_laid_so = is_laid_so and layout == current_layout(stream_routes(context.connection.db, stream.id))
        if is_laid_so and table.slots == slots:
            yield Message(f"{stream.name}: already {table.strategy} over {_slots(slots)}")
            return
        _check_possible(context, stream, "INTO n SLOTS")
        _check_steps_known(context, stream)
        if not (stream.spec.is_event or stream.spec.needs_dealer):
            yield _finding(context, stream)
            find_previous_rows(context.connection.home, stream.spec)
        recent = _recent(context, stream, with_texts=by_texts)
        plan = plan_repartition(recent, table, spec.strategy, slots)
        yield from _put_in_force(context, stream, plan, recent, text)

    def check(stream: StreamRow) -> None:
        if spec.strategy != "object":
            _check_possible(context, stream, f"USING {spec.strategy}")

    yield from _for_streams(context, spec.stream, change, check)


def _may_split_by_texts(context: StatementContext, stream: StreamRow, strategy: str) -> bool:
    """Return whether a stream's new table may have leaves split by texts."""
    has_words = stream.spec.is_event and stream.spec.searches_text
    settings = session_settings(context.connection.db, context.profile)
    return strategy == "qttree" and has_words and settings.flag("routing.text_leaves")


def rebalance(context: StatementContext, statement: Rebalance) -> Iterator[Outcome]:
    """Execute REBALANCE of one stream, or of all streams that have something to balance."""
    spec: RebalanceSpec = bind(statement, context.view).spec
    text = f"{to_sql(statement)};"

    def change(stream: StreamRow, table: RoutingTable) -> Iterator[Message]:
        if table.is_hashed:
            yield Message(f"{stream.name}: dealt by hash: nothing to move")
            return
        if spec.adjuster is not None and table.strategy not in ADJUSTERS[spec.adjuster].fits:
            *others, last = (name for name in STRATEGIES if name in ADJUSTERS[spec.adjuster].fits)
            needed = f"{', '.join(others)} or {last}" if others else last
            raise StqshError(
                f"{spec.adjuster} needs {needed}: it {_MOVES[spec.adjuster]},"
                f" and {stream.name} is routed by {table.strategy}",
                hint=f"REPARTITION {stream.name} USING {_SUITS.get(spec.adjuster, 'qttree')};",
            )
        recent = _recent(context, stream, with_texts=table.texts is not None)
        plan = plan_rebalance(recent, table, spec.adjuster)
        if plan is None:
            yield Message(f"{stream.name}: nothing to gain (max/mean {load_ratio(recent, table):.2f})")
            return
        _check_steps_known(context, stream)
        yield from _put_in_force(context, stream, plan, recent, text)

    yield from _for_streams(context, spec.stream, change)


def _for_streams(
    context: StatementContext,
    name: str | None,
    change: Callable[[StreamRow, RoutingTable], Iterator[Message]],
    check: Callable[[StreamRow], None] = lambda stream: None,
) -> Iterator[Outcome]:
    """Change the routing of one stream, or of all; report streams that cannot be changed, with the reason.

    Args:
        context: the client.
        name: the stream, None for all.
        change: changes the routing of a stream that has been read, and yields messages about it.
        check: raises `StqshError` for a stream whose routing cannot be changed, before it is read.

    Raises:
        StqshError: it cannot be changed, or none of them can.
    """
    streams = [stream for stream in live_streams(context.connection.db) if name in (None, stream.name)]
    if not streams:
        raise StqshError("there is no stream yet", hint="make one with CREATE MOVING STREAM")
    context.connection.wake()
    refused: list[StqshError] = []
    for stream in streams:
        try:
            check(stream)
            if not _is_read(context, stream):
                yield _reading(context, stream)
                _wait(context, stream)
            table = goal_table(context.connection.home, context.connection.db, stream)
            assert table is not None, "the stream is read"
            yield from change(stream, table)
        except StqshError as error:
            if name is not None or len(streams) == 1:
                raise
            refused.append(error)
            yield Message(f"{stream.name}: {error}")
    if len(refused) == len(streams):
        raise refused[0]


def _reading(context: StatementContext, stream: StreamRow) -> WaitNotice:
    """Return the notice shown until a stream has been read."""
    text = f"waiting for {stream.name} to be read … (Ctrl-C leaves)"
    return WaitNotice(text, lambda tell: _wait(context, stream, tell))


def _finding(context: StatementContext, stream: StreamRow) -> WaitNotice:
    """Return the notice shown while each record's predecessor is found, once per stream."""
    text = f"finding where the objects of {stream.name} come from … (Ctrl-C leaves)"
    return WaitNotice(text, lambda _: find_previous_rows(context.connection.home, stream.spec))


def _check_possible(context: StatementContext, stream: StreamRow, change: str) -> None:
    """Raise `NotSupportedError` if a stream's routing cannot change; `change` names the change."""
    if stream.spec.is_significant:
        raise NotSupportedError(f"{change} on a stream that RETAINs SIGNIFICANT objects")


def _recent(context: StatementContext, stream: StreamRow, *, with_texts: bool) -> RecentInput:
    """Return a stream's recent input; raise `StqshError` if it is unknown."""
    try:
        ask = partial(_ask, context, stream.spec)
        connection, settings = context.connection, _settings(context)
        return recent_input(
            connection.home, connection.db, stream.spec, settings, with_texts=with_texts, ask=ask
        )
    except NotPublishedError as error:
        raise StqshError(
            f"the places of {stream.name}'s objects are not known: {error}",
            hint="the engine knows after its next batch",
        ) from error


def _settings(context: StatementContext) -> RouteSettings:
    return RouteSettings.of(session_settings(context.connection.db, context.profile))


def _ask(context: StatementContext, stream: StreamSpec, spec: SnapshotSpec) -> pa.Table:
    return context.snapshots.ask(spec, stream).table


def _check_steps_known(context: StatementContext, stream: StreamRow) -> None:
    """Raise `StqshError` if a query's first step is unknown and its answer depends on it."""
    unknown = unknown_until(context.connection.db)
    for query in live_queries(context.connection.db) if unknown else ():
        timed = query.spec.timing.for_us is not None or query.spec.members.since_now
        if query.stream_id == stream.id and query.id <= unknown and timed:
            raise StqshError(
                f"query {query.name} was registered by an older version, which did not record its step",
                hint=f"DROP QUERY {query.name}; and register it again",
            )


def _put_in_force(
    context: StatementContext, stream: StreamRow, plan: RoutePlan, recent: RecentInput, text: str
) -> Iterator[Message]:
    """Log a routing, report the change and its predicted effect; in a script, wait until it is in force."""
    control = context.connection.db
    plan = in_packages(plan, current_table(context.connection.home, control, stream), recent)
    entry = put_in_force(control, stream, plan, text)
    context.connection.wake()
    packages = "1 package" if entry.packages == 1 else f"{entry.packages} packages"
    routing = f"{entry.strategy} over {_slots(entry.slots)}, version {entry.version}, {packages}, moving"
    by = f" by {plan.adjuster}" if plan.adjuster else ""
    yield Message(f"{stream.name}: {routing}")
    yield Message(f"{stream.name}: max/mean {plan.before:.2f} before, {plan.after:.2f} expected{by}")
    if entry.cuts:
        yield Message(f"{stream.name}: {_divided(entry, recent.settings.package)}")
    for progress in context.connection.watch() if context.is_script else ():
        if not (progress.stats.running or progress.stats.playing) or _is_in_force(control, stream.id, entry):
            return


def _divided(entry: StreamRouted, size: int) -> str:
    """Return into how many packages a change is divided, and how large they are."""
    queries, count = entry.learned[-1], len(entry.cuts)
    most = f" is {size:,}, but a change has at most {MOST_PACKAGES} packages"
    reason = "routing.package" + (most if -(-queries // size) > MOST_PACKAGES else "")
    return f"{queries:,} queries move in {count} batches, about {round(queries / count):,} in each ({reason})"


def _is_in_force(control: ControlDb, stream: int, entry: StreamRouted) -> bool:
    """Return whether a change of a stream's routing is in force with all of its packages, or replaced."""
    last = stream_routes(control, stream)[-1:]
    return not last or last[0].entry.change != entry.change or is_in_force(control, last[0])


def _is_read(context: StatementContext, stream: StreamRow) -> bool:
    """Return whether a stream has a routing: its records are known, and the session's engine has started."""
    status = stream_statuses(context.connection.db).get(stream.id)
    is_known = stream.spec.is_live or (status is not None and status.state not in ("new", "reading"))
    return is_known and goal_table(context.connection.home, context.connection.db, stream) is not None


def _wait(
    context: StatementContext, stream: StreamRow, tell: Callable[[Progress], None] | None = None
) -> None:
    for progress in context.connection.watch():
        if _is_read(context, stream):
            return
        if tell is not None:
            tell(progress)


def _slots(count: int) -> str:
    return "1 slot" if count == 1 else f"{count} slots"
