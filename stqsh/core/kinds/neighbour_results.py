"""What queries show of their nearest neighbours: rows, the first n of them, or groups.

Slots offer their own k nearest, whatever is shown of them: `stqsh.core.kinds.nearest` follows them step by
step, and `stqsh.core.kinds.refreshed_nearest` finds them at refreshes. A result defines what else Aggregate
needs of a candidate, and how it merges the candidates of all slots into answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.aggregates.keys import byte_slices
from stqsh.core.aggregates.states import group_payloads
from stqsh.core.contract.merging_kind import MergingLogic
from stqsh.core.groups.candidate_groups import CandidateLookups, candidate_groups
from stqsh.core.groups.group_deltas import MemberChanges
from stqsh.core.groups.group_merge import merge_groups
from stqsh.core.groups.marks import BEGIN, GroupMarks, read_marks
from stqsh.core.groups.query_forms import FormedQueries, SlotGroups
from stqsh.core.groups.refresh_schedule import QueryTimings, timings_of_groups
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.row_changes import RowChanges, ShowingQueries
from stqsh.core.nearest.candidate_changes import CandidateChanges
from stqsh.core.output.candidates import LOOKED_UP
from stqsh.core.output.merge import (
    MembersByStep,
    MergedCandidates,
    MergedMembers,
    MergedUpdates,
    MergeInput,
    first_k,
    first_k_candidates,
    first_k_members,
)
from stqsh.core.output.partials import LIMIT, PARTIAL, REGISTER
from stqsh.core.queries.query_table import QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.table import ArraySpec
from stqsh.core.top_n.merge import merge_first
from stqsh.core.top_n.orders import QueryOrders, TopNQueries, order_operators, with_distances
from stqsh.spec.chunk import Chunk
from stqsh.spec.query import BoundQuery

_LENGTH = np.dtype("<u4")
"""The type of a place's length, which ends the bytes that slots send."""


class NeighbourResult:
    """What a kind's queries show of their nearest neighbours, in one batch of a stream on a slot.

    Attributes:
        table: The table of the queries.
        holds_back: Whether Aggregate applies DWELL to the merged rows.
        is_kept: Whether what slots have offered at refreshes is kept from batch to batch. Rows that leave are
            shown, with a reason; groups only lose them, so all members are offered again in each batch.
    """

    table: ClassVar[type[QueryTable]] = ShowingQueries
    holds_back: ClassVar[bool] = True
    is_kept: ClassVar[bool] = True

    def __init__(self, logic: MergingLogic, conditions: QueryConditions) -> None:
        self.logic, self.conditions = logic, conditions

    def add(self, positions: Array, new: NewQueries) -> None:
        """Store what is shown of new queries, and announce to Aggregate what it needs."""
        raise NotImplementedError

    def keys(self, changes: CandidateChanges, now_us: int = 0) -> pa.BinaryArray | None:
        """Return what Aggregate needs of offered candidates beside their records.

        Args:
            changes: The candidates.
            now_us: The value of NOW, µs.

        Returns:
            The bytes for each, null for withdrawn candidates; None if no query needs any.
        """
        raise NotImplementedError

    def timings(self) -> QueryTimings:
        """Return when the queries are refreshed."""
        raise NotImplementedError

    def begin(self, positions: Array, step: int) -> None:
        """Note the queries whose answers begin at a step; by default, nothing."""
        del positions, step

    def end_batch(self) -> None:
        """Note what holds for the whole batch, after its candidates are offered; by default, nothing."""

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Note the queries that are removed at these steps; by default, nothing."""
        del positions, steps, why

    def chunks(self) -> list[Chunk]:
        """Return further chunks for Aggregate; by default, none."""
        return []

    @staticmethod
    def merge(batch: MergeInput, *, keep: bool) -> MergedUpdates:
        """Merge the slots' candidates into answers, and return their changes.

        Without `keep`, slots offer all candidates again in the next batch, and mark that their queries begin.
        """
        raise NotImplementedError

    @staticmethod
    def operators(spec: BoundQuery) -> tuple[str, ...]:
        """Return what EXPLAIN shows after the members; by default, nothing."""
        del spec
        return ()


class Rows(NeighbourResult):
    """All k nearest; of queries that send changes, Aggregate compares the selected values."""

    def __init__(self, logic: MergingLogic, conditions: QueryConditions) -> None:
        super().__init__(logic, conditions)
        assert isinstance(logic.queries, ShowingQueries), "the table of this result"
        self._changes = RowChanges(logic.batch.state, logic.prefix, logic.queries, conditions)

    def add(self, positions: Array, new: NewQueries) -> None:
        """Store what new queries select."""
        self._changes.add(positions, new)

    def keys(self, changes: CandidateChanges, now_us: int = 0) -> pa.BinaryArray | None:
        """Return the selected values of candidates; the queries do not read NOW."""
        del now_us
        query = np.where(changes.op > 0, changes.query, -1)
        return self._changes.keys(query, changes.show, changes.distance)

    @staticmethod
    def merge(batch: MergeInput, *, keep: bool) -> MergedUpdates:
        """Merge the slots' candidates into the k nearest of all slots."""
        assert keep, "rows that leave are shown"
        return first_k(batch)


class FirstRows(NeighbourResult):
    """Of the k nearest, the first n by (ORDER BY, key).

    Slots offer each candidate with its place in the order. Aggregate merges the candidates into the k nearest
    of all slots. The changes of these k are the candidates of a second merge, that of a query with LIMIT.
    """

    table = TopNQueries

    def __init__(self, logic: MergingLogic, conditions: QueryConditions) -> None:
        super().__init__(logic, conditions)
        batch, prefix, queries = logic.batch, logic.prefix, logic.queries
        assert isinstance(queries, TopNQueries), "the table of this result"
        self._queries = queries
        self._orders = QueryOrders(prefix, batch.spec.key, queries, conditions)
        self._selected = RowChanges(batch.state, f"{prefix}/changes", queries, conditions)

    def add(self, positions: Array, new: NewQueries) -> None:
        """Store the orders of new queries, and send their LIMITs to Aggregate."""
        queries = self._queries
        self._orders.add(positions, new)
        self._selected.add(positions, new)
        ids, shows = queries.id[positions], queries.shows_distance[positions] > 0
        limits: Array = queries.limit[positions]
        self.logic.partials.mark(ids, self.logic.batch.timing.first, LIMIT, limits, shows)

    def timings(self) -> QueryTimings:
        """Return when the queries are refreshed."""
        return self._orders.timings()

    def keys(self, changes: CandidateChanges, now_us: int = 0) -> pa.BinaryArray:
        """Return the places of candidates, the values that queries select, and the lengths of the places."""
        count, offered = len(changes.query), np.flatnonzero(changes.op > 0)
        query, version, far = (column[offered] for column in (changes.query, changes.show, changes.distance))
        form, at = self._queries.form[query], np.empty(len(query), np.int64)
        parts: list[pa.BinaryArray] = [pa.array([], pa.binary())]
        for number in np.unique(form).tolist():
            mine = np.flatnonzero(form == number)
            at[mine] = sum(map(len, parts)) + np.arange(len(mine))
            parts.append(self._orders.places(number, version[mine].astype(np.int32), now_us, far[mine]))
        chosen: Any = pa.array(at)
        places = pa.concat_arrays(parts).take(chosen)
        selected = self._selected.keys(query, version, far, np.full(len(query), now_us))
        joined = _joined(places, pa.nulls(len(query), pa.binary()) if selected is None else selected)
        back = np.full(count, -1)
        back[offered] = np.arange(len(offered))
        taken: Any = pa.array(back, mask=back < 0)
        return joined.take(taken)

    @staticmethod
    def merge(batch: MergeInput, *, keep: bool) -> MergedUpdates:
        """Merge the slots' candidates into the k nearest, and these into the first n."""
        assert keep, "rows that leave are shown"
        nearest, first = [], []
        for marks in batch.marks:
            mark = marks.column("mark").to_numpy(zero_copy_only=False)
            nearest.append(marks.filter(pa.array(mark != LIMIT)))
            rest = marks.filter(pa.array(mark != REGISTER))
            mark = rest.column("mark").to_numpy(zero_copy_only=False)
            named: Any = pa.array(np.where(mark == LIMIT, REGISTER, mark).astype(np.int8))
            first.append(rest.set_column(rest.schema.get_field_index("mark"), "mark", named))
        found = first_k_candidates(replace(batch, kind=f"{batch.kind}/nearest", marks=nearest))
        return merge_first(
            replace(batch, kind=f"{batch.kind}/first", marks=first, partials=list(_offers(found)))
        )

    @staticmethod
    def operators(spec: BoundQuery) -> tuple[str, ...]:
        """Return the order, as EXPLAIN shows it."""
        return order_operators(spec)


class GroupedQueries(FormedQueries):
    """Queries for groups of the k nearest."""

    looks = ArraySpec(np.int32)  # its lookups: place in the header's list, from 1 on; 0 for none
    heeds_time = ArraySpec(
        np.bool_
    )  # whether rows change with time, of a query that has no form: an older one


class Groups(NeighbourResult):
    """One row for each group of the k nearest (language.md section 7).

    Aggregate merges the candidates into the k nearest of all slots. After each step in which the k may have
    changed, it subtracts the contributions of the earlier k from the groups and adds those of the new k.
    Slots look up what it cannot: regions, rows of tables, and comparisons with NOW.
    """

    table = GroupedQueries
    holds_back = False
    is_kept = False

    def __init__(self, logic: MergingLogic, conditions: QueryConditions) -> None:
        super().__init__(logic, conditions)
        batch, queries = logic.batch, logic.queries
        assert isinstance(queries, GroupedQueries), "the table of this result"
        self._queries = queries
        self._groups = SlotGroups(batch, logic.kind, queries, "groups")
        self._lookups = CandidateLookups(batch.state, logic.prefix)

    def add(self, positions: Array, new: NewQueries) -> None:
        """Store what new queries look up, and send the rest of their groups to Aggregate."""
        specs, self._queries.looks[positions] = self._lookups.separate(new)
        self._groups.add(positions, new, specs)

    def keys(self, changes: CandidateChanges, now_us: int = 0) -> pa.BinaryArray:
        """Return the looked-up values of offered candidates."""
        looks = np.where(changes.op > 0, self._queries.looks[changes.query], 0)
        return self._lookups.keys(looks, changes.show, self.conditions, now_us)

    def timings(self) -> QueryTimings:
        """Return when the queries are refreshed."""
        always = self._lookups.change_always(self._queries.looks)
        return timings_of_groups(self._groups.forms, self._lookups.compared(), always)

    def begin(self, positions: Array, step: int) -> None:
        """Mark the queries whose answers begin."""
        self._groups.begin(positions, step)

    def end_batch(self) -> None:
        """Mark the queries whose rows change as time passes."""
        self._groups.wake(self._queries.heeds_time)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Mark the queries that are removed; forget all lookups with the last query."""
        self._groups.retire(positions, steps, why)
        if len(positions) == len(self._queries):
            self._lookups.clear()

    def chunks(self) -> list[Chunk]:
        """Return the marks of groups."""
        return self._groups.chunks()

    @staticmethod
    def merge(batch: MergeInput, *, keep: bool) -> MergedUpdates:
        """Merge the slots' candidates, and return the changes of the groups of the first k."""
        members = first_k_members(replace(batch, kind=f"{batch.kind}/members"), keep=keep)
        groups = replace(batch, kind=f"{batch.kind}/groups", marks=batch.groups, partials=[])
        marks, ranks = read_marks(batch.groups), members.ranks
        changes = _changes(members, marks[0].those(BEGIN))
        found = candidate_groups(groups, changes, members.records, lambda _, versions: ranks[versions], marks)
        partials = list(group_payloads(found))
        return merge_groups(replace(groups, partials=partials))

    @staticmethod
    def operators(spec: BoundQuery) -> tuple[str, ...]:
        """Return that groups are added up, as EXPLAIN shows it."""
        del spec
        return ("hash aggregate",)


def _joined(places: pa.BinaryArray, selected: pa.BinaryArray) -> pa.BinaryArray:
    """Return places, selected values, and the lengths of the places as one array of bytes."""
    lengths = pc.binary_length(places).to_numpy(zero_copy_only=False).astype(_LENGTH)
    ends: Any = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_LENGTH.itemsize), len(places), [None, pa.py_buffer(lengths.tobytes())]
    )
    known: Any = selected.fill_null(b"")
    joined: Any = pc.binary_join_element_wise(places, known, ends.cast(pa.binary()), b"")
    return joined  # type: ignore[no-any-return]


def _separated(joined: pa.BinaryArray) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Split bytes from `_joined` into places and selected values, null for none."""
    if not len(joined):
        return joined, joined
    _, offsets, content = joined.buffers()
    assert offsets is not None and content is not None, "each has the length of its place"
    places = np.frombuffer(memoryview(offsets), np.int32)[joined.offset :][: len(joined) + 1].astype(np.int64)
    data = np.frombuffer(memoryview(content), np.uint8)
    begin, end = places[:-1], places[1:] - _LENGTH.itemsize
    lengths = np.ascontiguousarray(data[end[:, None] + np.arange(_LENGTH.itemsize)]).view(_LENGTH)
    middle = begin + lengths.reshape(-1).astype(np.int64)
    nothing: Any = pa.array(middle == end)
    selected: Any = pc.if_else(nothing, pa.scalar(None, pa.binary()), byte_slices(data, middle, end))
    return byte_slices(data, begin, middle), selected


def _offers(found: MergedCandidates) -> Iterator[pa.RecordBatch]:
    """Yield the changes of the k nearest as candidates for the first n of them."""
    changes, records = found.changes, found.records
    if not len(changes.step):
        return
    versions = changes.show.astype(np.int32)
    come = np.flatnonzero(changes.op > 0)
    places, selected = _separated(records.looked_up(versions[come]))
    at = np.full(len(versions), len(come))
    at[come] = np.arange(len(come))
    taken: Any = pa.array(at)
    nothing: pa.BinaryArray = pa.array([b""], pa.binary())
    place = pa.concat_arrays([places, nothing]).take(taken)
    key = pa.concat_arrays([selected, pa.nulls(1, pa.binary())]).take(taken)
    place = with_distances(place, found.distances, found.shows)
    shown = records.show(versions)
    fixed: list[Any] = [changes.query, changes.step, changes.op, changes.why]
    columns = [pa.array(column, kind) for column, kind in zip(fixed, PARTIAL.types, strict=False)]
    names = [*PARTIAL.names, *shown.schema.names, LOOKED_UP]
    yield pa.RecordBatch.from_arrays([*columns, place, *shown.columns, key.view(pa.string())], names=names)


def _changes(members: MergedMembers, begins: GroupMarks) -> MemberChanges:
    """Return the members as changes: at each step all previous members leave, and all current ones come.

    When an answer begins, Aggregate resets its groups, so its members from before the batch come again.
    """
    before, after = members.before, members.after
    at = np.searchsorted(begins.query, before.query)
    begun = np.isin(before.query, begins.query)
    coming = MembersByStep(before.query[begun], begins.step[at[begun]], before.version[begun])
    leaving = _until(before, members), _until(after, members)
    parts = [(coming, 1), (after, 1), *((part, -1) for part in leaving)]
    signs = [np.full(len(part.query), sign, np.int8) for part, sign in parts]
    query, step, version = (
        np.concatenate(column) for column in zip(*(part for part, _ in parts), strict=True)
    )
    return MemberChanges(query, step, version, np.concatenate(signs))


def _until(some: MembersByStep, members: MergedMembers) -> MembersByStep:
    """Return members at the next step for which their query's members are listed; drop those that stay."""
    span = int(members.step.max(initial=0)) + 1
    listed = members.query * span + members.step
    place = np.searchsorted(listed, some.query * span + some.step, side="right")
    inside = np.minimum(place, max(len(listed) - 1, 0))
    again = (place < len(listed)) & (members.query[inside] == some.query) if len(listed) else place < 0
    return MembersByStep(some.query[again], members.step[inside[again]], some.version[again])
