"""The groups of a slot's queries: each form of groups and timing once, and what Aggregate is sent of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.aggregates.states import States, group_payloads
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.groups.group_deltas import GroupDeltas, MemberChanges
from stqsh.core.groups.marks import BEGIN, MarkWriter
from stqsh.core.queries.query_table import ACTIVE, QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.chunk import Chunk, ChunkOrder, Phase, pack
from stqsh.spec.query import GroupForm

_KEPT = 1 << 14
"""The number of decoded forms that a process caches."""


class FormedQueries(QueryTable):
    """Queries that aggregate their members."""

    form = ArraySpec(np.int32)  # its form, a position in the header's list


class QueryForms:
    """The forms of a kind's queries; the header's entry "forms" lists them as JSON."""

    def __init__(self, state: SlotState, prefix: str, queries: FormedQueries) -> None:
        self._queries = queries
        self._texts: list[str] = state.entry("forms").setdefault(prefix, [])

    def add(
        self,
        positions: Array,
        new: NewQueries,
        marks: MarkWriter,
        step: int,
        specs: list[AggregateSpec] | None = None,
    ) -> None:
        """Store the forms of new queries; announce to Aggregate those that are new, not only to the slot.

        Args:
            positions: The positions of the queries in their table.
            new: The queries.
            marks: The marks to Aggregate.
            step: The step.
            specs: The spec of each pattern, if it differs from the pattern's own.
        """
        specs = specs or [pattern.aggregates or AggregateSpec() for pattern in new.patterns]
        pairs = zip(specs, new.patterns, strict=True)
        texts = [GroupForm(spec, pattern.timing.looks).text for spec, pattern in pairs]
        used = dict.fromkeys(texts[which] for which in np.unique(new.which).tolist())
        self._texts += [text for text in used if text not in self._texts]
        number = {text: i for i, text in enumerate(self._texts)}
        forms = new.spread([number.get(text, -1) for text in texts], np.int32)
        self._queries.form[positions] = forms
        ids, are_new = self._queries.id[positions], new.are_new
        marks.register(ids[are_new], step, self._texts, forms[are_new])

    def durations(self, of: Callable[[GroupForm], int | None]) -> Array:
        """Return a duration from the form of each query, int64 µs; -1 for none."""
        each = [-1 if (us := of(form)) is None else us for form in map(GroupForm.read, self._texts)]
        durations: Array = np.array([*each, -1], np.int64)[self._queries.form]
        return durations

    def time_dependent(self, among: Array, further: Array | bool = False) -> Array:
        """Return the active ones among queries whose rows change as time passes; all bool (queries,)."""
        heeds = (self.durations(_heeds_time) > 0) | further
        return np.flatnonzero(heeds & among & (self._queries.mode == ACTIVE))

    def all(self) -> Iterator[AggregateSpec]:
        """Yield the groups of all queries, once for each form."""
        used = np.flatnonzero(np.bincount(self._queries.form, minlength=1)).tolist()
        return (self._spec(number) for number in used)

    def among(self, queries: Array) -> Iterator[tuple[AggregateSpec, Array | slice]]:
        """Group queries, given by position, by spec; yield each spec and its queries."""
        form = self._queries.form[queries]
        present = np.flatnonzero(np.bincount(form, minlength=1))
        for number in present.tolist():
            yield self._spec(number), slice(None) if len(present) == 1 else form == number

    def _spec(self, number: int) -> AggregateSpec:
        return GroupForm.read(self._texts[number]).groups


@lru_cache(_KEPT)
def _heeds_time(form: GroupForm) -> int | None:
    return 1 if form.groups.heeds_time else None


class SlotGroups:
    """The groups of a kind's queries on a slot in one batch: their forms, and what Aggregate is sent.

    All kinds with groups send the same: a mark when a query is registered, begins, depends on time or ends,
    and, if slots themselves add up the members, by how much each group changes.

    Args:
        batch: The batch.
        kind: The name of the kind.
        queries: Its queries.
        marks: What precedes the kind's name in the names of the chunks of marks.
    """

    def __init__(self, batch: StreamBatch, kind: str, queries: FormedQueries, marks: str = "marks") -> None:
        self._batch, self._kind, self._queries, self._name = batch, kind, queries, marks
        self.forms = QueryForms(batch.state, queries.prefix, queries)
        self._marks = MarkWriter()
        self._found: list[States] = []

    def add(self, positions: Array, new: NewQueries, specs: list[AggregateSpec] | None = None) -> None:
        """Store the forms of new queries, and announce them to Aggregate; `specs` as for `QueryForms`."""
        self.forms.add(positions, new, self._marks, self._batch.timing.first, specs)

    def begin(self, positions: Array, step: int) -> None:
        """Mark the queries whose answers begin at a step, unless they end in it."""
        living = positions[self._queries.until[positions] > step]
        self._marks.add(self._queries.id[living], step, BEGIN)

    def wake(self, further: Array | bool = False) -> None:
        """Mark the active queries whose rows change as time passes.

        Args:
            further: Which queries do so whatever their forms, bool (queries,).
        """
        among = self._queries.until > self._batch.timing.first
        awake = self.forms.time_dependent(among, further)
        self._marks.wake(self._queries.id[awake], self._batch.clock)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Mark the queries that are removed at these steps, so that Aggregate retracts their rows."""
        self._marks.retire(self._queries.id[positions], steps, why)

    def found(self, some: Iterable[States]) -> None:
        """Add differences of groups."""
        self._found += some

    def chunks(self) -> list[Chunk]:
        """Return the marks and the differences of groups."""
        marks = self._marks.batch()
        payloads: list[tuple[str, int, pa.RecordBatch]] = [] if marks is None else [(self._name, 0, marks)]
        payloads += [("partial", number, rows) for number, rows in enumerate(group_payloads(self._found))]
        slot, stream, timing = self._batch.state.slot, self._batch.spec.id, self._batch.timing
        return [
            Chunk(
                slot,
                stream,
                f"{what}/{self._kind}",
                ChunkOrder(Phase.EVALUATED, number=number),
                timing.first,
                timing.last,
                rows.num_rows,
                pack(rows),
            )
            for what, number, rows in payloads
        ]


def changed_groups(forms: QueryForms, deltas: GroupDeltas, changes: MemberChanges) -> Iterator[States]:
    """Yield by how much members that come and leave change groups, one spec of queries at a time."""
    for spec, mine in forms.among(changes.query):
        found = deltas.of_members(spec, MemberChanges(*(column[mine] for column in changes)))
        if found is not None:
            yield found
