"""The contract of a query kind: what a kind implements, and its input.

A kind is one module with two classes. `QueryKind` is stateless: it builds the logic of a batch, answers
snapshots, and defines what EXPLAIN shows. `QueryLogic` is one batch of all queries of the kind over one
stream on one slot. `stqsh.core.contract.kind_batch.run_kind` drives it: first commands, then events, then the
queries whose FOR has ended. An entry in the table `stqsh.core.kinds.KINDS` makes a kind available as
`REGISTER QUERY name WITH (kind => '...') AS SELECT ...`. No other module refers to a kind by name.

Every kind must ensure that after each step the folded updates equal the query's answer, for any division of
a run into batches and any distribution of objects over slots. Two rules follow:

* State is kept in named arrays below `QueryLogic.prefix`, never in the objects here, which live for one
  batch. A `stqsh.core.state.table.StateTable` declares them, and which of them refer to objects, strings or
  terms, so that they remain correct when tables are compacted.
* Everything else is a function of that state and of the batch: it uses no clock, hash order or threads.

A kind that decides on each object separately emits updates (`QueryLogic.emit`). A kind whose answers need the
objects of all slots derives from the classes in `stqsh.core.contract.merging_kind` instead: each slot offers
candidates, and Aggregate merges them. `tests/core/test_plugin_kind.py` adds one kind of each sort and
compares both with brute force.

Over event streams a query is on the slots that its region's box touches, so its answer may depend only on
events inside the region. Queries with unbounded regions, such as NEAREST, are on all slots.

Example:
    The objects in the diamond that fills a rectangle. `SentAnswers` keeps what each query has sent, so that
    pauses and drops need no further code.

    >>> import numpy as np
    >>> from stqsh.core.contract.query_kind import QueryKind, QueryLogic
    >>> from stqsh.core.output.batch_output import arrivals
    >>> from stqsh.core.output.sent_answers import SentAnswers
    >>> from stqsh.core.queries.query_table import ACTIVE
    >>> def in_diamond(box, x, y):
    ...     x1, y1, x2, y2 = box
    ...     return abs(2 * x - x1 - x2) / (x2 - x1) + abs(2 * y - y1 - y2) / (y2 - y1) <= 1
    >>> class DiamondLogic(QueryLogic):
    ...     def on_events(self, begun):
    ...         steps = {self.batch.timing.first, *self.batch.objects.events.step.tolist()}
    ...         for step in sorted(steps):
    ...             living = (self.queries.mode == ACTIVE) & (self.queries.until > step)
    ...             for position in np.flatnonzero(living):
    ...                 self.update(position, step)
    ...     def box(self, position):
    ...         return [self.queries.array(name)[position] for name in ("x1", "y1", "x2", "y2")]
    ...     def update(self, position, step):
    ...         sent, id_ = SentAnswers(self.batch.state, self.prefix), self.queries.id[position]
    ...         _, before = sent.pop_queries([id_])
    ...         versions, x, y = self.batch.objects.at(step)
    ...         now = np.flatnonzero(in_diamond(self.box(position), x, y)).astype(np.int32)
    ...         sent.add(np.full(len(now), id_), now)
    ...         come, gone = np.setdiff1d(now, before), np.setdiff1d(before, now)
    ...         self.emit(arrivals(step, np.full(len(come), position), versions[come]))
    ...         steps = np.full(len(gone), step)
    ...         why, shown = self.batch.objects.reasons(versions[gone], gone, steps)
    ...         self.emit_removals(step, position, shown, why)
    ...     def holds(self, position, versions, x, y):
    ...         return in_diamond(self.box(position), x, y)
    ...     def retire(self, positions, steps, why):
    ...         sent = SentAnswers(self.batch.state, self.prefix)
    ...         for position, step in zip(positions, steps):
    ...             _, objects = sent.pop_queries([self.queries.id[position]])
    ...             shown = self.batch.objects.shown(objects, step - 1)
    ...             self.emit_removals(step, position, shown, np.full(len(shown), why, np.int8))
    ...         super().retire(positions, steps, why)
    >>> class DiamondKind(QueryKind):
    ...     name, logic = "diamond", DiamondLogic
    ...     def select_members(self, selection):
    ...         objects = selection.in_region()
    ...         held = in_diamond(selection.reach.box, *selection.present.places(objects))
    ...         return selection.satisfying(objects[held])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import BatchTiming
from stqsh.core.contract.snapshot_selection import SnapshotSelection
from stqsh.core.kernels.events.transitions import places_after
from stqsh.core.kernels.events.updates import DROPPED, ENDED
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.core.output.batch_output import BatchOutput, QueryUpdates
from stqsh.core.queries.query_table import QueryCommands, QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.chunk import Chunk
from stqsh.spec.clock import BatchClock
from stqsh.spec.indexes import IndexChoice
from stqsh.spec.measure import QueryMeasure
from stqsh.spec.query import BoundQuery
from stqsh.spec.stream import StreamSpec

NO_STEPS = BatchClock(1, 0, None, None)
"""The clock of a batch without steps."""


@dataclass(frozen=True)
class StreamBatch:
    """One batch of one stream on one slot.

    Attributes:
        state: The slot's state.
        spec: The stream's spec.
        timing: The batch's steps.
        objects: This slot's objects; their table holds the state before the batch.
        focal: The focal objects of all slots, likewise.
        commands: The commands for the kind.
        clock: The clock of the whole batch, of which this may be a piece; `NO_STEPS` if it is not needed.
        older: The queries that move here, if this is the copy by key of a stream; else None.
        leaving: The ids of queries that move to the copy by key; None without a copy.
    """

    state: SlotState
    spec: StreamSpec
    timing: BatchTiming
    objects: BatchObjects
    focal: BatchObjects
    commands: QueryCommands
    clock: BatchClock = NO_STEPS
    older: QueryCommands | None = None
    leaving: frozenset[int] | None = None


@dataclass(frozen=True)
class KindExplanation:
    """What EXPLAIN shows of a query or snapshot of a kind.

    Attributes:
        index: The index that holds a registered query, as in `query_cost.INDEX_NAMES`.
        access: How a snapshot finds its candidates.
        chance: The probability that a record is a candidate of the registered query, 0 to 1.
        operators: The operators, in the order of evaluation.
        terms: Whether a candidate's text must have "all" terms of the condition or "any"; None if the access
            does not use texts.
        reason: Why the operators are in this order; None for the usual one.
        refreshes: How a refresh computes aggregates of members; None for queries without refreshes.
        may_be_in: The index that holds it instead if the slots expect it to be faster; None if there is none.
    """

    index: str
    access: str
    chance: float
    operators: tuple[str, ...]
    terms: str | None = None
    reason: str | None = None
    refreshes: str | None = None
    may_be_in: str | None = None


class ExplainInput(NamedTuple):
    """The input of an explanation.

    Attributes:
        spec: The query or snapshot.
        stream: The spec of its stream.
        measure: The measurements of all slots.
        operators: The operators that every kind shares, in order: region, join and condition.
        indexes: The indexes that the session chooses.
    """

    spec: BoundQuery
    stream: StreamSpec
    measure: QueryMeasure
    operators: tuple[str, ...]
    indexes: IndexChoice = IndexChoice()


class MemberCircles(NamedTuple):
    """The circles of kNN queries before a batch.

    Attributes:
        id: The queries' ids, int64 (n,), ascending.
        radius: The distance of the k-th member on this slot, float64 (n,); infinite while there are fewer.
        owner: The id of each member's query, int64 (m,).
        neighbour: The members, objects int32 (m,).
    """

    id: Array
    radius: Array
    owner: Array
    neighbour: Array


class QueryKind:
    """A stateless query kind.

    Attributes:
        name: Its name in `WITH (kind => ...)` and in a query's spec.
        logic: Its logic.
        table: The table of its queries.
    """

    name: str
    logic: ClassVar[type[QueryLogic]]
    table: type[QueryTable] = QueryTable

    def build(self, batch: StreamBatch, output: BatchOutput) -> QueryLogic:
        """Load the kind's queries from the slot's state, for one batch.

        Args:
            batch: The changes of the slot's objects, and the commands for the kind.
            output: Receives the updates of the kind's queries.
        """
        return self.logic(self, batch, output)

    def queries(self, state: SlotState, stream: int) -> QueryTable:
        """Return the kind's queries over a stream, by the stream's id."""
        return self.table(state, self.prefix(stream))

    def is_used(self, state: SlotState, stream: int) -> bool:
        """Return whether the kind ever had a query over a stream on this slot; else it has no arrays."""
        return f"{self.prefix(stream)}/id" in state

    def count(self, state: SlotState, stream: int) -> int:
        """Return the number of the kind's queries over a stream."""
        return len(self.queries(state, stream)) if self.is_used(state, stream) else 0

    def prefix(self, stream: int) -> str:
        """Return the prefix of the names of the kind's arrays for a stream."""
        return f"s{stream}/{self.name}"

    def release(self, batch: StreamBatch, positions: Array) -> bool:
        """Remove queries in whose regions this slot has no records any more; return whether that was done.

        Other slots continue the queries, so nothing is sent. The queries are active and have neither FOR nor
        DWELL, and the batch is over. The default keeps them, which is always correct.
        """
        del batch, positions
        return False

    def needs_each_step(self, queries: QueryTable) -> bool:
        """Return whether answers depend on the step in which an object that is not significant is dropped.

        This is called for streams that retain significant objects only. If no kind returns True, several
        steps are evaluated as one. The default is the safe answer: True while there are queries.
        """
        return len(queries) > 0

    def member_circles(self, batch: StreamBatch) -> MemberCircles | None:
        """Return the circles of active queries that search for members within the k-th distance.

        This is called for streams that retain significant objects only. A query for k objects whose circle
        is not returned needs all objects; by default, no circle is returned.
        """
        del batch
        return None

    def select_members(self, selection: SnapshotSelection) -> Array:
        """Return the objects of one slot that can be in a snapshot's answer, int32 (n,), ascending.

        The default returns the objects in the region that satisfy the condition.
        """
        return selection.satisfying(selection.in_region())

    def count_members(self, selection: SnapshotSelection) -> int:
        """Return the number of objects of one slot that can be in the answer, for COUNT(*)."""
        return len(self.select_members(selection))

    def rank(self, selection: SnapshotSelection, objects: Array) -> Array | None:
        """Return the ranks by which the first k of all slots are chosen, smallest first: float64 (n,).

        With None, the default, the answer has all members of all slots.
        """
        del selection, objects
        return None

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows of a query of this kind; by default, that it tests every record."""
        present = given.measure.objects
        return KindExplanation(
            "none: every record is looked at", f"scan of {present} objects", 1.0, given.operators
        )


class QueryLogic(ABC):
    """One batch of a kind's queries over one stream on one slot.

    `begun` has the positions of the queries whose answers begin at the first step. Methods are called in
    this order: `retire`, `pause`, `rescale`, `alter` (paused queries), `resume`, `register`, `alter` (active
    ones), `on_events`, `retire` again, `chunks`. Those before `on_events` take effect at the batch's first
    step, before its records. Queries are given by their positions in `queries`, ascending, int64 (n,).
    """

    finds_crossings: ClassVar[bool] = False
    """Whether the kind itself skips the updates of objects that cross between slots and stay members."""
    is_merged: ClassVar[bool] = False
    """Whether Aggregate stores what the kind's queries have sent, and applies DWELL."""

    def __init__(self, kind: QueryKind, batch: StreamBatch, output: BatchOutput) -> None:
        self.batch, self.output, self.kind = batch, output, kind.name
        self.begun = np.empty(0, np.int64)
        self.prefix = kind.prefix(batch.spec.id)
        self.queries = kind.queries(batch.state, batch.spec.id)

    @abstractmethod
    def on_events(self, begun: Array) -> None:
        """Report how the batch's events change the answers; called once, even if all queries are gone.

        `self.batch.objects` has the events: objects that arrive, move and leave, with the versions of their
        records before and after. Paused queries report nothing; a query also reports nothing from its step
        `until` on. The method is not called for a kind that never had a query over the stream on this slot.

        Args:
            begun: The positions of queries whose answers begin at the first step: those that are new,
                resumed, rescaled or altered. What a query sent before counts as its answer until now.
        """

    @abstractmethod
    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Retract all that queries have sent, and remove the queries from `queries`.

        Args:
            positions: The queries.
            steps: The step at which each is removed, int64 (n,); members are shown as they were before it.
            why: DROPPED or ENDED, a position in `stqsh.spec.chunk.WHY`.
        """
        del steps, why
        self.queries.remove(positions)

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store what the kind keeps of new queries beside their rows in `queries`; by default, nothing.

        Args:
            positions: The queries, in the order of `new`.
            new: The queries, with the specs that they share.
        """
        del positions, new

    def pause(self, positions: Array) -> None:
        """Store what is needed to resume queries that pause now; their mode is still active.

        The default does nothing, which suits a kind that always stores what it has sent.
        """
        del positions

    def remember(self, positions: Array) -> None:
        """Store what queries have sent that pause now and were evaluated elsewhere; by default as `pause`.

        The queries have just been registered here. Their objects are the same as before, but are distributed
        over the slots in another way.
        """
        self.pause(positions)

    def forget(self, ids: Iterable[int]) -> None:
        """Forget what `pause` stored, except members, for queries that are now evaluated elsewhere."""
        del ids

    def resume(self, positions: Array) -> None:
        """Prepare queries that are active again; `begun` of `on_events` then includes them."""
        del positions

    def alter(self, positions: Array, new: NewQueries) -> None:
        """Replace the regions, k and conditions of queries (SOLE section 5.3).

        `begun` of `on_events` includes the active ones. What they have sent still counts as their answer, so
        only the difference is sent.

        Args:
            positions: The queries, all of them active or all paused.
            new: The same queries in their new form, in the same order.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no method `alter`: its queries stay as they are"
        )

    def rescale(self) -> Array:
        """Scale regions as load shedding requires; return the active ones among the changed queries."""
        return np.empty(0, np.int64)

    def chunks(self) -> list[Chunk]:
        """Return the chunks for Aggregate, see `stqsh.core.contract.merging_kind`."""
        return []

    def holds(self, position: int, versions: Array, x: Array, y: Array) -> Array:
        """Return whether objects with these versions at these places are in a query's answer, bool (n,).

        `emit` calls this for objects that cross from one slot to another under a routing by space. Neither
        slot sends updates of an object that is in the answer both before and after.

        Args:
            position: The query.
            versions: The versions of the objects on the other slot, int32 (n,).
            x, y: Their places, float64 (n,); NaN for none.
        """
        del position, versions, x, y
        raise NotImplementedError(
            f"{type(self).__name__} has no method `holds`: its queries cannot stay where a stream of moving"
            " objects is repartitioned"
        )

    def emit(self, updates: QueryUpdates) -> None:
        """Report updates, whose queries are given by position."""
        if not self.finds_crossings and len(self.batch.objects.rows.roles):
            updates = updates.where(~self._cross(updates))
        self.output.add(updates, self.queries)

    def _cross(self, updates: QueryUpdates) -> Array:
        """Return which updates are of objects that cross while they stay in the answer, bool (n,)."""
        objects, crossing = self.batch.objects, np.zeros(len(updates.step), np.bool_)
        elsewhere = objects.versions_elsewhere(updates.show, updates.op, updates.step)
        elsewhere[np.isin(updates.why, (DROPPED, ENDED)) & (updates.op < 0)] = -1
        # The answer of a query that begins in a step had no member before it.
        elsewhere[np.isin(updates.query, self.begun) & (updates.step == self.batch.timing.first)] = -1
        # The old slot tests at the end of the step, the new one at the end of the step before.
        steps = updates.step - (updates.op > 0)
        found = np.flatnonzero(elsewhere >= 0)
        for position, step in sorted(
            {*zip(updates.query[found].tolist(), steps[found].tolist(), strict=True)}
        ):
            at = found[(updates.query[found] == position) & (steps[found] == step)]
            versions, each = elsewhere[at].astype(np.int32), np.full(len(at), step, np.int64)
            places = places_after(versions, each, *objects.sources, objects.timing)
            crossing[at] = self.holds(position, versions, *places)
        return crossing

    def emit_removals(self, step: int, position: int, shown: Array, why: Array) -> None:
        """Report that one query loses members in a step.

        Args:
            step: The step.
            position: The query.
            shown: The row to show of each member, int64 (n,).
            why: The reason for each, int8 (n,).
        """
        count = len(shown)
        query, op = np.full(count, position), np.full(count, -1, np.int8)
        self.emit(QueryUpdates(np.full(count, step), query, op, why, shown))
