"""The contract of a query kind: what a kind implements, and what it works on.

A kind is one module with two classes. `QueryKind` is stateless: it builds the logic of a batch, and says how
a snapshot of the same question is answered and what EXPLAIN shows. `QueryLogic` is one batch of all queries
of the kind over one stream on one slot. `stqsh.core.contract.kind_batch.run_kind` drives it: first commands,
then events, then the queries whose FOR is over. An entry in the table `stqsh.core.kinds.KINDS` makes a kind
available as `REGISTER QUERY name WITH (kind => '...') AS SELECT ...`. No other module names a kind.

One law holds for every kind: after each step, the folded updates are the query's answer, however a run is cut
into batches and however objects are spread over slots. Two rules follow from it:

* State is kept in named arrays beneath `QueryLogic.prefix`, never in the objects here, which live for one
  batch. A `stqsh.core.state.table.StateTable` declares them, and which of them refer to objects, strings or
  terms, so that these stay right when tables are compacted.
* Everything else is a function of that state and of the batch: no clock, no order of hashes, no threads.

A kind whose answers are made of each object by itself emits updates (`QueryLogic.emit`). A kind whose
answers need the objects of all slots derives from the classes in `stqsh.core.contract.merging_kind` instead:
each slot offers candidates, and Aggregate merges them. `tests/core/test_plugin_kind.py` plugs in one of
each, and compares them with brute force.

Over event streams a query is on the slots that its region's box touches. Its answer may therefore depend on
events within the region only; regions without an end, such as that of NEAREST, are on all slots.

Example:
    The objects within the diamond that fills a rectangle. `SentAnswers` keeps what each query has sent, so
    that pauses and drops need no further care.

    >>> import numpy as np
    >>> from stqsh.core.contract.query_kind import QueryKind, QueryLogic
    >>> from stqsh.core.output.batch_output import arrivals
    >>> from stqsh.core.output.sent_answers import SentAnswers
    >>> from stqsh.core.queries.query_table import ACTIVE
    >>> def in_diamond(box, x, y):
    ...     x1, y1, x2, y2 = box
    ...     return abs(2 * x - x1 - x2) / (x2 - x1) + abs(2 * y - y1 - y2) / (y2 - y1) <= 1
    >>> class DiamondKind(QueryKind):
    ...     name = "diamond"
    ...     def build(self, batch, output):
    ...         return DiamondLogic(self, batch, output)
    ...     def select_members(self, selection):
    ...         objects = selection.in_region()
    ...         held = in_diamond(selection.reach.box, *selection.present.places(objects))
    ...         return selection.satisfying(objects[held])
    >>> class DiamondLogic(QueryLogic):
    ...     def on_events(self, begun):
    ...         steps = {self.batch.timing.first, *self.batch.objects.events.step.tolist()}
    ...         for step in sorted(steps):
    ...             living = (self.queries.mode == ACTIVE) & (self.queries.until > step)
    ...             for position in np.flatnonzero(living):
    ...                 self.update(position, step)
    ...     def update(self, position, step):
    ...         sent, id_ = SentAnswers(self.batch.state, self.prefix), self.queries.id[position]
    ...         _, before = sent.pop_queries([id_])
    ...         versions, x, y = self.batch.objects.at(step)
    ...         box = [self.queries.array(name)[position] for name in ("x1", "y1", "x2", "y2")]
    ...         now = np.flatnonzero(in_diamond(box, x, y)).astype(np.int32)
    ...         sent.add(np.full(len(now), id_), now)
    ...         come, gone = np.setdiff1d(now, before), np.setdiff1d(before, now)
    ...         self.emit(arrivals(step, np.full(len(come), position), versions[come]))
    ...         steps = np.full(len(gone), step)
    ...         why, shown = self.batch.objects.reasons(versions[gone], gone, steps)
    ...         self.emit_removals(step, position, shown, why)
    ...     def retire(self, positions, steps, why):
    ...         sent = SentAnswers(self.batch.state, self.prefix)
    ...         for position, step in zip(positions, steps):
    ...             _, objects = sent.pop_queries([self.queries.id[position]])
    ...             shown = self.batch.objects.shown(objects, step - 1)
    ...             self.emit_removals(step, position, shown, np.full(len(shown), why, np.int8))
    ...         super().retire(positions, steps, why)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from stqsh.core.base.clock import BatchTiming
from stqsh.core.contract.snapshot_selection import SnapshotSelection
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.core.output.batch_output import BatchOutput, QueryUpdates
from stqsh.core.queries.query_table import QueryCommands, QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.chunk import Chunk
from stqsh.spec.measure import QueryMeasure
from stqsh.spec.query import BoundQuery
from stqsh.spec.stream import StreamSpec

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class StreamBatch:
    """One batch of one stream on one slot.

    objects: this slot's objects; focal: the focal objects of all slots. Their tables still hold the state
    before the batch. commands: those that concern the kind.
    """

    state: SlotState
    spec: StreamSpec
    timing: BatchTiming
    objects: BatchObjects
    focal: BatchObjects
    commands: QueryCommands


@dataclass(frozen=True)
class KindExplanation:
    """What EXPLAIN shows of a query or snapshot, as its kind sees it.

    index: the name of the index in which a registered query is kept, as in `query_cost.INDEX_NAMES`.
    access: how a snapshot finds its candidates. chance: that a record is a candidate of the registered query,
    0 to 1. operators: in the order in which they are evaluated. terms: how many terms of the condition a text
    must have to be a candidate, "all" or "any"; None where texts play no part. reason: why the operators are
    in this order, None for the usual one.
    """

    index: str
    access: str
    chance: float
    operators: tuple[str, ...]
    terms: str | None = None
    reason: str | None = None


class ExplainInput(NamedTuple):
    """What an explanation starts from.

    spec: of the query or snapshot; stream: the StreamSpec; measure: the figures of all slots;
    operators: those that every kind shares, in order: region, join and condition.
    """

    spec: BoundQuery
    stream: StreamSpec
    measure: QueryMeasure
    operators: tuple[str, ...]


class MemberCircles(NamedTuple):
    """The circles of queries for k objects, as they are before a batch.

    Attributes:
        id: Of the queries, int64 (n,), ascending.
        radius: The distance of the k-th member on this slot, float64 (n,); infinite while there are fewer.
        owner: The id of the query of each member, int64 (m,).
        neighbour: The members, objects int32 (m,).
    """

    id: Array
    radius: Array
    owner: Array
    neighbour: Array


class QueryKind(ABC):
    """A query kind. Stateless; `name` is what `WITH (kind => ...)` and a query's spec call it."""

    name: ClassVar[str]

    @abstractmethod
    def build(self, batch: StreamBatch, output: BatchOutput) -> QueryLogic:
        """Load the kind's queries from the slot's state, for one batch.

        Args:
            batch: what happens to the slot's objects, and the commands for the kind.
            output: where the logic puts the updates of its queries.
        """

    def queries(self, state: SlotState, stream: int) -> QueryTable:
        """Return the kind's queries over a stream, by the stream's id."""
        return QueryTable(state, self.prefix(stream))

    def prefix(self, stream: int) -> str:
        """Return the prefix of the names of the kind's arrays for a stream."""
        return f"s{stream}/{self.name}"

    def needs_each_step(self, queries: QueryTable) -> bool:
        """Return whether answers depend on the step in which an object without interest is dropped.

        Asked where a stream retains significant objects only. Where no kind says yes, several steps are
        evaluated as one. The default is the careful answer: yes while there are queries.
        """
        return len(queries) > 0

    def member_circles(self, batch: StreamBatch) -> MemberCircles | None:
        """Return the circles of active queries that look for members within the k-th distance.

        Asked where a stream retains significant objects only. A query for k objects that is not among them
        needs all objects, which is the default.
        """
        del batch
        return None

    def select_members(self, selection: SnapshotSelection) -> Array:
        """Return the objects of one slot that can be in the answer of a snapshot. int32 (n,), ascending.

        The default are those within the region that satisfy the condition.
        """
        return selection.satisfying(selection.in_region())

    def count_members(self, selection: SnapshotSelection) -> int:
        """Return how many objects of one slot can be in the answer, for COUNT(*)."""
        return len(self.select_members(selection))

    def rank(self, selection: SnapshotSelection, objects: Array) -> Array | None:
        """Return by what the first k of all slots are chosen, the smallest first: float64 (n,).

        None, the default: all members of all slots are in the answer.
        """
        del selection, objects
        return None

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows of a query of this kind. The default: it looks at every record."""
        present = given.measure.objects
        return KindExplanation(
            "none: every record is looked at", f"scan of {present} objects", 1.0, given.operators
        )


class QueryLogic(ABC):
    """One batch of a kind's queries over one stream on one slot.

    The methods are called in this order: `retire`, `pause`, `rescale`, `resume`, `register`, `on_events`,
    `retire` again, `chunks`. Those before `on_events` take effect at the batch's first step, before its
    records. Queries are given by their positions in `queries`, ascending, int64 (n,).
    """

    def __init__(self, kind: QueryKind, batch: StreamBatch, output: BatchOutput) -> None:
        self.batch, self.output = batch, output
        self.prefix = kind.prefix(batch.spec.id)
        self.queries = QueryTable(batch.state, self.prefix)

    @abstractmethod
    def on_events(self, begun: Array) -> None:
        """Report what the batch's events change about the answers; called once, with queries or without.

        `self.batch.objects` has the events: objects that come, move and go, with the versions of their
        records before and after. Paused queries report nothing, others nothing from their step "until" on.

        Args:
            begun: the positions of queries whose answers begin at the first step: those that are new,
                resumed or rescaled. What a resumed query sent before it paused still counts as its answer.
        """

    @abstractmethod
    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Take back all that queries have sent, and remove them from `queries`.

        Args:
            positions: of the queries; steps: at which each goes, int64 (n,). Members are shown as they were
                before that step.
            why: a position in `stqsh.spec.chunk.WHY`, DROPPED or ENDED.
        """
        del steps, why
        self.queries.remove(positions)

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store what the kind keeps of new queries beside their rows in `queries`; the default: nothing.

        Args:
            positions: of the queries, in the order of `new`.
            new: the queries, with the specs that they share.
        """
        del positions, new

    def pause(self, positions: Array) -> None:
        """Store what is needed to resume queries that pause now, and are still active here.

        The default does nothing: it suits a kind that keeps what it has sent.
        """
        del positions

    def resume(self, positions: Array) -> None:
        """Prepare queries that are active again; `on_events` then has them in `begun`."""
        del positions

    def rescale(self) -> Array:
        """Change regions as load shedding asks now; return the active queries whose answers begin again."""
        return np.empty(0, np.int64)

    def chunks(self) -> list[Chunk]:
        """Return what goes to Aggregate, see `stqsh.core.contract.merging_kind`."""
        return []

    def emit(self, updates: QueryUpdates) -> None:
        """Report updates whose queries are given by position."""
        self.output.add(updates, self.queries)

    def emit_removals(self, step: int, position: int, shown: Array, why: Array) -> None:
        """Report that one query loses members in a step; shown, int64 (n,), and why, int8 (n,), of each."""
        count = len(shown)
        query, op = np.full(count, position), np.full(count, -1, np.int8)
        self.emit(QueryUpdates(np.full(count, step), query, op, why, shown))
