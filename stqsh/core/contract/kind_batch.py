"""Process one batch of one query kind: commands, then events, then the queries whose time is over."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.contract.query_kind import QueryKind, QueryLogic, StreamBatch
from stqsh.core.kernels.events.updates import DROPPED, ENDED
from stqsh.core.output.batch_output import BatchOutput, EndedQuery
from stqsh.core.output.sent_answers import SentAnswers
from stqsh.core.queries.query_table import ACTIVE, PAUSED, QueryCommands
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.spec.query import find_kind


class ReleasedQueries(StateTable):
    """The counters of queries that this slot has released but other slots continue; one row per release.

    The slot's past work for them still counts in EXPLAIN: `stqsh.core.snapshots.query_cost` adds up the
    counters of all tables of a stream that have these columns.
    """

    id = ArraySpec(np.int64)
    tested = ArraySpec(np.int64)
    matched = ArraySpec(np.int64)
    sent = ArraySpec(np.int64)

    @staticmethod
    def of(state: SlotState, stream: int) -> ReleasedQueries:
        """Return the released queries of a stream, by its id."""
        return ReleasedQueries(state, _prefix(stream))


def run_kind(kind: QueryKind, batch: StreamBatch, output: BatchOutput) -> None:
    """Evaluate one kind's queries in a batch, see `stqsh.core.contract.query_kind.QueryLogic`.

    Args:
        kind: The kind.
        batch: The batch, with the commands of the kind only.
        output: Receives the updates, notices and chunks of the kind's queries.
    """
    if batch.timing.last < batch.timing.first:
        return
    logic = kind.build(batch, output)
    is_elsewhere = batch.leaving is not None and not find_kind(kind.name).is_resent
    if batch.leaving and is_elsewhere:
        _leave(logic, batch.leaving)
    moved = set() if batch.older is None else _take_over(logic, batch.older)
    _drop(logic)
    _pause(logic)
    rescaled = np.empty(0, np.int64) if batch.commands.memory is None else logic.queries.id[logic.rescale()]
    # A query that is new only to this slot moves others to higher positions, so it is registered before
    # any position is remembered.
    registered = _register(logic)
    _alter(logic, PAUSED)
    resumed = np.empty(0, np.int64) if is_elsewhere else _resume(logic, moved)
    altered = _alter(logic, ACTIVE, resumed)
    rescaled = np.setdiff1d(logic.queries.positions(rescaled), altered)
    logic.begun = np.concatenate([rescaled, resumed, registered, altered])
    logic.on_events(logic.begun)
    _end(logic)
    output.chunks += logic.chunks()


def release(kind: QueryKind, batch: StreamBatch, ids: Array) -> None:
    """Remove queries that a slot no longer needs.

    Queries that are paused or have DWELL stay, because they remember what they sent. Queries with FOR stay,
    because they end by themselves.

    Args:
        kind: The kind.
        batch: A batch without steps, after the one in which the last records in their regions left the slot.
        ids: The queries, int64 (n,); ids that the slot does not have are ignored.
    """
    queries = kind.queries(batch.state, batch.spec.id)
    at = queries.positions(ids)
    is_lasting = queries.until[at] == NEVER
    at = at[(queries.mode[at] == ACTIVE) & (queries.dwell[at] == 0) & is_lasting]
    if not len(at):
        return
    counters = queries.counters(at)
    if kind.release(batch, at):
        ReleasedQueries.of(batch.state, batch.spec.id).append(**counters)


def _leave(logic: QueryLogic, ids: frozenset[int]) -> None:
    """Pause for good the queries that move to the copy by key, and forget what they sent."""
    queries = logic.queries
    at = queries.positions(ids)
    at = at[queries.mode[at] == ACTIVE]
    if len(at):
        logic.pause(at)
        queries.mode[at] = PAUSED
    SentAnswers(logic.batch.state, logic.prefix).pop_queries(ids)
    logic.forget(ids)


def _take_over(logic: QueryLogic, older: QueryCommands) -> set[int]:
    """Register queries that move to the copy by key; return the ids of those to resume here at once.

    What paused queries and queries with DWELL have sent is already stored here, or in Aggregate. The other
    queries move because they pause now, so what they have sent is found and stored.
    """
    queries, batch = logic.queries, logic.batch
    new = older.registered.those(~np.isin(older.registered.ids, queries.id))
    if not len(new):
        return set()
    at = queries.register(new, older.still, batch.timing, batch.focal.table)
    logic.register(at, new)
    at = at[(queries.mode[at] == ACTIVE) & ((queries.dwell[at] == 0) | logic.is_merged)]
    if not len(at) or find_kind(logic.kind).remembers:
        return set()
    logic.remember(at)
    queries.mode[at] = PAUSED
    return set(queries.id[at[queries.dwell[at] > 0]].tolist())


def _drop(logic: QueryLogic) -> None:
    """Retire the dropped queries, or all queries if the stream is dropped."""
    commands, queries = logic.batch.commands, logic.queries
    if commands.dropped:
        _forget_released(logic.batch.state, logic.batch.spec.id, commands.dropped)
    at = queries.positions(queries.id if commands.stream_dropped else commands.dropped)
    if len(at):
        logic.retire(at, np.full(len(at), logic.batch.timing.first), DROPPED)


def _pause(logic: QueryLogic) -> None:
    queries = logic.queries
    at = queries.positions(logic.batch.commands.paused)
    at = at[queries.mode[at] == ACTIVE]
    if len(at):
        logic.pause(at)
        queries.mode[at] = PAUSED


def _resume(logic: QueryLogic, moved: set[int]) -> Array:
    """Resume queries and return their positions; a query that ends at the first step stays paused."""
    commands = logic.batch.commands
    going_on = commands.resumed | (moved - commands.paused)
    at = logic.queries.resume(going_on, logic.batch.timing.first)
    if len(at):
        logic.resume(at)
    return at


def _register(logic: QueryLogic) -> Array:
    """Register new queries, and return the positions of those whose answers begin at once.

    If a query is new only to this slot, its answer has begun elsewhere and has no members here.
    """
    batch, new = logic.batch, logic.batch.commands.registered
    if not len(new):
        return np.empty(0, np.int64)
    at = logic.queries.register(new, batch.commands.still, batch.timing, batch.focal.table)
    logic.register(at, new)
    begun: Array = at[(logic.queries.mode[at] == ACTIVE) & new.are_new]
    return begun


def _alter(logic: QueryLogic, mode: int, resumed: Array | None = None) -> Array:
    """Alter queries in a mode, except those that end at the first step; return the queries.

    Queries in `resumed` are skipped: they were altered while they were paused.
    """
    new, queries, first = logic.batch.commands.altered, logic.queries, logic.batch.timing.first
    if not len(new):
        return np.empty(0, np.int64)
    at = queries.positions(new.ids)
    at = at[(queries.mode[at] == mode) & (queries.until[at] > first)]
    if resumed is not None:
        at = np.setdiff1d(at, resumed)
    if len(at):
        logic.alter(at, new.those(np.isin(new.ids, queries.id[at])))
    return at


def _end(logic: QueryLogic) -> None:
    """Retire the queries whose FOR ends in the batch, each at its own step."""
    queries, last = logic.queries, logic.batch.timing.last
    over = np.flatnonzero(queries.until <= last)
    if not len(over):
        return
    steps, ids = queries.until[over], queries.id[over]
    for i in np.argsort(steps, kind="stable").tolist():
        logic.output.ended.append(EndedQuery(int(ids[i]), int(steps[i])))
    logic.retire(over, steps, ENDED)


def _forget_released(state: SlotState, stream: int, ids: Iterable[int]) -> None:
    """Remove the counters of a stream's dropped queries."""
    if f"{_prefix(stream)}/id" in state:
        released = ReleasedQueries.of(state, stream)
        released.keep(~np.isin(released.id, list(ids)))


def _prefix(stream: int) -> str:
    return f"s{stream}/released"
