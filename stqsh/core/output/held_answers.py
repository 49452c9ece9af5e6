"""DWELL of merged answers: a row counts as in or out only after it has stayed so for DWELL.

Idea: Aggregate has the answer of each query row by row, for any kind. This stage follows the merge and sends
a change after it has lasted, so kinds need no code for DWELL. Invariant: readers hold the rows with `sent`;
every difference from the answer waits. Cost: a sort of the changes and of the rows in the answers of queries
with DWELL; updates of other queries pass through.

A query with SYNC is only looked at when it is refreshed, so its changes wait from the instant of one refresh
until the first one that is at least DWELL later.

A row in the answer shows its current record. A row that has left keeps the record and the reason with which
it left, until it returns or its leaving has lasted. A leaving does not wait if the object became absent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.kernels.events.dwell_changes import DwellChanges, find_lasting
from stqsh.core.kernels.events.updates import DROPPED, ENDED, LEFT
from stqsh.core.kernels.knn.candidate_merge import OVERTAKEN
from stqsh.core.output.batch_output import QueryUpdates
from stqsh.core.output.candidates import CandidateRecords
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.output.partials import DROP, END, Holds, all_holds, all_marks
from stqsh.core.output.renewed_rows import CHANGED, KeyedChanges, renewed_rows
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.spec.clock import BatchClock

_UNKNOWN = np.iinfo(np.int64).min
"""The time of an event if only its key is known."""


class _HeldQueries(StateTable):
    """The queries with DWELL, by id."""

    id = ArraySpec(np.int64)
    paused = ArraySpec(np.bool_)


class _HeldRows(StateTable):
    """The rows of answers, in the order of their records.

    A row with op 1 is in the answer, or was in it before it left. A row with op -1 has the record and reason
    with which a sent row left, while the leaving waits.
    """

    query = ArraySpec(np.int64)
    op = ArraySpec(np.int8)
    sent = ArraySpec(np.bool_)
    since = ArraySpec(np.int64)  # the step of the change that waits
    why = ArraySpec(np.int8)
    distance = ArraySpec(np.float64)


class _Terms(NamedTuple):
    """What holds for each query in a batch, (queries,) each.

    Attributes:
        awake: Whether changes may become due in the batch, bool; False for a paused query.
        resumed: Whether it is awake again, bool.
        bye: The step at which it is removed, NEVER if it stays.
        why: The reason, int8.
        dwell, sync: µs; SYNC is 0 for a query that follows every step.
        timing: The steps of the batch.
        closing: The closing step, 0 if it is not in the batch.
    """

    awake: Array
    resumed: Array
    bye: Array
    why: Array
    dwell: Array
    sync: Array
    timing: BatchTiming
    closing: int

    def first_looks(self) -> Array:
        """Return the first step in which each query is looked at."""
        first = np.full(len(self.sync), self.timing.first)
        return self._looks(self.timing.at(first), self.sync)

    def due(self, query: Array, steps: Array) -> Array:
        """Return the step in which changes of queries at steps have lasted, unless they are undone."""
        timing, sync = self.timing, self.sync[query]
        begun, last = timing.at(steps), timing.at(steps + 1) - 1
        since = np.where(sync > 0, np.maximum(begun, last // np.maximum(sync, 1) * sync), begun)
        return self._looks(since + self.dwell[query], sync)

    def _looks(self, instants: Array, sync: Array) -> Array:
        """Return the step of the first look at or after instants, in or after the batch.

        In the closing step the look is at its start, also between two multiples of SYNC.
        """
        timing, closing = self.timing, self.closing
        every = np.where(sync > 0, sync, timing.tick)
        instants = np.maximum(instants, timing.at(timing.first))

        def steps_of(instants: Array) -> Array:
            steps: Array = -(-instants // every) * every // timing.tick - timing.base + 1
            return steps

        steps = steps_of(instants)
        if closing:
            late = (steps == closing) & (instants > timing.at(closing))
            steps[late] = steps_of(np.maximum(instants, timing.at(closing + 1)))[late]
            steps[(instants <= timing.at(closing)) & (steps > closing)] = closing
        return steps


class _Rows(NamedTuple):
    """Rows by version, (n,) each: the stored ones, then those of the batch.

    Attributes:
        query: The position of the query.
        code: The query and the row's object as one number.
        step: The step at which it came, left or changed; for a stored row that waits, when it began to wait.
        op, why, distance: As in updates.
        sent: Whether readers held it before the batch, bool.
        stored: Whether it is from before the batch, bool.
    """

    query: Array
    code: Array
    step: Array
    op: Array
    why: Array
    distance: Array
    sent: Array
    stored: Array

    def as_changes(self, versions: Array, steps: Array) -> KeyedChanges:
        """Return rows as changes at these steps; the keys are codes, which are distinct across queries."""
        query, code, op = (column[versions] for column in (self.query, self.code, self.op))
        return KeyedChanges(query, code, steps, op, versions)


class DueUpdates(NamedTuple):
    """The changes of answers that are due.

    Attributes:
        updates: The changes, by query id; `updates.show` names rows of the records.
        records: The records.
        held: For each `-`, the row that readers held until then; for each `+`, the row itself; int64 (n,).
        looked: The queries that are looked at in the batch, by id, ascending.
        steps: The first step in which each is looked at.
        clock: The clock of the batch.
    """

    updates: QueryUpdates
    records: CandidateRecords
    held: Array
    looked: Array
    steps: Array
    clock: BatchClock


class HeldAnswers:
    """The queries with DWELL of one kind over a stream, in one batch on a slot of Aggregate."""

    def __init__(self, batch: MergeInput) -> None:
        # A separate prefix, because a merge releases everything below its own when its last query ends.
        self._batch, self._prefix = batch, f"s{batch.spec.id}/{batch.kind}-held"
        self._marks, self._holds = all_marks(batch.marks), all_holds(batch.holds)
        self._is_used = bool(len(self._holds.query)) or f"{self._prefix}/queries/id" in batch.state
        if len(self._holds.query):
            self._register()

    @property
    def ids(self) -> Array:
        """The ids of the queries, ascending, int64."""
        return self._queries.id.copy() if self._is_used else np.empty(0, np.int64)

    def hold_back(self, merged: MergedUpdates) -> tuple[MergedUpdates, DueUpdates | None]:
        """Return all changes of queries without DWELL, and the changes of the others that are due.

        Args:
            merged: The changes. Those of queries with DWELL include each new record of a member that stays.
        """
        if not self._is_used:
            return merged, None
        assert isinstance(merged.records, CandidateRecords), "they are rows of the stream"
        mine = np.isin(merged.updates.query, self._queries.id)
        due = self._due(merged.updates.where(mine), merged.records)
        return merged._replace(updates=merged.updates.where(~mine)), due

    @property
    def _queries(self) -> _HeldQueries:
        return _HeldQueries(self._batch.state, f"{self._prefix}/queries")

    def _register(self) -> None:
        """Add the queries that are active for the first time, by id."""
        queries = self._queries
        new = np.setdiff1d(self._holds.query, queries.id)
        ids = np.concatenate([queries.id, new])
        paused = np.concatenate([queries.paused, np.zeros(len(new), np.bool_)])
        order = np.argsort(ids)
        queries.store(id=ids[order], paused=paused[order])

    def _due(self, news: QueryUpdates, shown: CandidateRecords) -> DueUpdates:
        """Add the changes of answers, and return the changes that have lasted by the end of the batch."""
        queries, stored = self._queries, _HeldRows(self._batch.state, f"{self._prefix}/rows")
        records = CandidateRecords(self._batch.state, f"{self._prefix}/records", self._batch.spec)
        records.take([*shown.show(news.show).columns, shown.looked_up(news.show).view(pa.string())])
        terms = self._terms(queries)
        rows = _rows(queries.id, stored, news, terms, (records.keys(), self._times(records)))
        turns, waiting = _lasting(rows, terms)
        sent = _sent_after(rows, turns)
        turned, retracted = _turned(rows, turns), _retracted(rows, terms, sent, waiting)
        updates = _together(turned, _changed(rows, turns, records, terms.timing.first), retracted)
        far, ids = rows.distance[updates.show], queries.id[updates.query]
        updates = updates._replace(query=ids, distance=None if np.isnan(far).all() else far)
        held = updates.show.copy()
        held[: len(turns.op)] = _held_before(rows, turns, terms.timing.first)
        first, last, base, tick = terms.timing[:4]
        clock, steps = BatchClock(first, last, base, tick, closing=terms.closing), terms.first_looks()
        is_looked = terms.awake & (steps <= last) & (steps < terms.bye)
        looked = queries.id[is_looked]
        self._store(rows, _kept(rows, terms, sent, waiting), records, terms)
        return DueUpdates(updates, records, held, looked, steps[is_looked], clock)

    def _times(self, records: CandidateRecords) -> Array | None:
        """Return the time of each version of events, `_UNKNOWN` where only the key is known; else None."""
        spec = self._batch.spec
        if not spec.is_event:
            return None
        shown: Any = records.show(np.arange(len(records), dtype=np.int32)).column(spec.time)
        times: Array = shown.cast(pa.int64()).fill_null(_UNKNOWN).to_numpy()
        return times

    def _terms(self, queries: _HeldQueries) -> _Terms:
        """Return the terms by query; a query that is paused and resumed in one step continues."""
        marks, holds, count = self._marks, self._holds, len(queries)
        mine = np.isin(marks.query, queries.id)
        at, mark, step = np.searchsorted(queries.id, marks.query[mine]), marks.mark[mine], marks.step[mine]
        bye, why = np.full(count, NEVER), np.zeros(count, np.int8)
        for ending, reason in ((END, ENDED), (DROP, DROPPED)):
            bye[at[mark == ending]], why[at[mark == ending]] = step[mark == ending], reason
        awake = np.isin(queries.id, holds.query)
        dwell, sync = np.zeros(count, np.int64), np.zeros(count, np.int64)
        dwell[awake], sync[awake] = holds.dwell, holds.sync
        timing, closing = _clock(holds, self._batch.first)
        return _Terms(awake, awake & queries.paused, bye, why, dwell, sync, timing, closing)

    def _store(
        self, rows: _Rows, kept: tuple[Array, Array, Array], records: CandidateRecords, terms: _Terms
    ) -> None:
        """Store the rows after the batch, and forget the queries that end."""
        queries, stays = self._queries, terms.bye == NEVER
        if not stays.any():
            self._batch.state.release(f"{self._prefix}/")
            return
        version, sent, since = kept
        _HeldRows(self._batch.state, f"{self._prefix}/rows").store(
            query=queries.id[rows.query[version]],
            op=rows.op[version],
            sent=sent,
            since=since,
            why=rows.why[version],
            distance=rows.distance[version],
        )
        records.keep(version)
        queries.store(paused=~terms.awake)
        queries.keep(stays)


def _clock(holds: Holds, first: int) -> tuple[BatchTiming, int]:
    """Return the steps of a batch and the closing step, 0 for none; all active queries have the same."""
    if not len(holds.query):
        return BatchTiming(first, first, 1, 1, -1), 0
    base, tick, closing = (int(column[0]) for column in (holds.base, holds.tick, holds.closing))
    return BatchTiming(first, int(holds.last.max()), base, tick, -1), closing


def _rows(
    ids: Array, stored: _HeldRows, news: QueryUpdates, terms: _Terms, records: tuple[Array, Array | None]
) -> _Rows:
    """Return the stored rows and those of the batch; waiting changes of resumed queries begin to wait anew.

    `records` has the keys of all versions, and the times of events.
    """
    known, new = len(stored), len(news.step)
    query = np.searchsorted(ids, np.concatenate([stored.query, news.query]))
    since = np.where(terms.resumed[query[:known]], terms.first_looks()[query[:known]], stored.since)
    step, far = np.concatenate([since, news.step]), news.distance
    keys, times = np.unique(records[0], return_inverse=True)[1], records[1]
    code = query * (known + new + 1) + keys
    if times is not None:
        code = _told_apart(code, step, np.append(stored.op, news.op), times)
    return _Rows(
        query,
        code,
        step,
        np.concatenate([stored.op, news.op]).astype(np.int8),
        np.concatenate([stored.why, news.why]).astype(np.int8),
        np.concatenate([stored.distance, np.full(new, np.nan) if far is None else far]),
        np.concatenate([stored.sent, np.zeros(new, np.bool_)]),
        np.arange(known + new) < known,
    )


def _told_apart(code: Array, step: Array, op: Array, times: Array) -> Array:
    """Return codes that distinguish events with one key by their times, in the order of the given codes.

    A later event may have the key of an expired one. A row of which only the key is known belongs to the last
    event with the key before it.
    """
    order = np.lexsort((op, step, code))
    known = np.maximum.accumulate(np.where(times[order] == _UNKNOWN, 0, np.arange(len(order))))
    filled = np.empty_like(times)
    filled[order] = times[order][known]
    numbers = np.unique(filled, return_inverse=True)[1]
    told_apart: Array = code * (len(code) + 1) + numbers
    return told_apart


def _turning(rows: _Rows) -> Array:
    """Return which rows enter or leave an answer, and wait or begin to wait; bool (n,).

    Not those that only change, end with their query, or are stored and steadily in the answer.
    """
    is_changed = (rows.op < 0) & (rows.why == CHANGED) & ~rows.stored
    span = int(rows.step.max(initial=0)) + 1
    when = rows.code * span + rows.step
    again = (rows.op > 0) & ~rows.stored & np.isin(when, when[is_changed])
    ends = np.isin(rows.why, (DROPPED, ENDED)) & (rows.op < 0)
    is_steady = rows.stored & rows.sent & (rows.op > 0)
    turning: Array = ~(is_changed | again | ends | is_steady)
    return turning


def _lasting(rows: _Rows, terms: _Terms) -> tuple[KeyedChanges, Array]:
    """Return the changes that are due, by step, and the versions of those that wait."""
    turning = _turning(rows)
    at = np.flatnonzero(turning & terms.awake[rows.query])
    asleep = np.flatnonzero(turning & ~terms.awake[rows.query])
    at = at[np.lexsort((rows.op[at], ~rows.stored[at], rows.step[at], rows.code[at]))]
    query, step, op = rows.query[at], rows.step[at], rows.op[at]
    # Codes are distinct across queries, so their order is that of queries and keys.
    number = np.unique(rows.code[at], return_inverse=True)[1]
    toggles = DwellChanges(query.astype(np.int32), number.astype(np.int32), step, op)
    # Comings wait, and so do leavings of objects that are still present; other leavings are due at once.
    is_patient = (op > 0) | np.isin(rows.why[at], (LEFT, OVERTAKEN))
    # SYNC decides when they are due, so the kernel gets these steps instead of DWELL.
    due = np.where(is_patient, terms.due(query, step), step)
    unending = np.full(len(terms.dwell), NEVER)
    lasted, due, waiting = find_lasting(
        toggles, due, unending, terms.bye, terms.timing._replace(base=1, tick=1)
    )
    order = np.argsort(due, kind="stable")
    turns = rows.as_changes(at[lasted[order]], due[order])
    version = np.where(turns.op > 0, _shown(rows, turns.key, turns.step, terms.timing.first), turns.version)
    return turns._replace(version=version), np.concatenate([at[waiting], asleep])


def _in_answer(rows: _Rows, first: int) -> tuple[Array, Array]:
    """Return the rows in answers by code and step: versions, and steps from 1 on, 0 if from before."""
    version = np.flatnonzero(rows.op > 0)
    step = np.where(rows.stored[version], 0, rows.step[version] - first + 1)
    order = np.lexsort((step, rows.code[version]))
    return version[order], step[order]


def _shown(rows: _Rows, code: Array, step: Array, first: int) -> Array:
    """Return the last version with each code in the answer, at or before a step."""
    version, when = _in_answer(rows, first)
    span = int(max(when.max(initial=0), (step - first + 1).max(initial=0))) + 1
    at = np.searchsorted(rows.code[version] * span + when, code * span + (step - first + 1), side="right")
    return version[at - 1] if len(version) else np.zeros(len(code), np.int64)


def _held_before(rows: _Rows, turns: KeyedChanges, first: int) -> Array:
    """Return the row that readers hold until each row leaves, and each row itself that enters."""
    left = np.flatnonzero(turns.op < 0)
    at = rows.step[turns.version[left]]  # what was in the answer until the row left it, not until it is sent
    held = turns.version.astype(np.int64)
    held[left] = _shown(rows, turns.key[left], np.maximum(at - 1, first - 1), first)
    return held


def _sent_after(rows: _Rows, turns: KeyedChanges) -> Array:
    """Return the codes of the rows that readers hold after the batch, ascending."""
    codes = np.concatenate([rows.code[rows.sent], turns.key])
    op = np.concatenate([np.ones(rows.sent.sum(), np.int8), turns.op])
    found, last = np.unique(codes[::-1], return_index=True)
    return found[op[::-1][last] > 0]


def _turned(rows: _Rows, turns: KeyedChanges) -> QueryUpdates:
    """Return the updates of rows that enter or leave and are due."""
    why = np.where(turns.op > 0, 0, rows.why[turns.version]).astype(np.int8)
    return QueryUpdates(turns.step, turns.query, turns.op, why, turns.version)


def _changed(rows: _Rows, turns: KeyedChanges, records: CandidateRecords, first: int) -> QueryUpdates:
    """Return the updates of rows that readers hold throughout and whose selected values change."""
    version, step = _in_answer(rows, first)
    candidates = rows.as_changes(version, step + first - 1)
    found = renewed_rows(candidates, rows.sent[version], turns, crossing=False)
    return found.changed(records.numbers_looked_up()).updates()


def _retracted(rows: _Rows, terms: _Terms, sent: Array, waiting: Array) -> QueryUpdates:
    """Return the updates that retract what readers hold for queries that end."""
    ends = (rows.op < 0) & ~rows.stored & np.isin(rows.why, (DROPPED, ENDED)) & np.isin(rows.code, sent)
    parted = waiting[(rows.op[waiting] < 0) & (terms.bye[rows.query[waiting]] < NEVER)]
    version = np.concatenate([np.flatnonzero(ends), parted])
    query, op = rows.query[version], np.full(len(version), -1, np.int8)
    return QueryUpdates(terms.bye[query], query, op, terms.why[query], version)


def _kept(rows: _Rows, terms: _Terms, sent: Array, waiting: Array) -> tuple[Array, Array, Array]:
    """Return the versions to store, whether readers hold each, and the step since which each waits."""
    version, _ = _in_answer(rows, terms.timing.first)
    is_last = np.append(
        rows.code[version][1:] != rows.code[version][:-1], np.ones(min(len(version), 1), np.bool_)
    )
    latest = version[is_last]
    coming, parted = waiting[rows.op[waiting] > 0], waiting[rows.op[waiting] < 0]
    coming = coming[np.argsort(rows.code[coming])]
    holds, comes = np.isin(rows.code[latest], sent), np.isin(rows.code[latest], rows.code[coming])
    since = np.zeros(len(latest), np.int64)
    since[comes] = rows.step[coming]  # both are in the order of codes
    there, never = holds | comes, np.zeros(len(parted), np.bool_)
    versions = np.concatenate([latest[there], parted])
    is_sent = np.concatenate([holds[there], never])
    waits = np.concatenate([since[there], rows.step[parted]])
    stays = terms.bye[rows.query[versions]] == NEVER
    return versions[stays], is_sent[stays], waits[stays]


def _together(*parts: QueryUpdates) -> QueryUpdates:
    """Concatenate updates, without distances."""
    step, query, op, why, show = (
        np.concatenate(column) for column in zip(*(p[:5] for p in parts), strict=True)
    )
    return QueryUpdates(step, query, op, why, show.astype(np.int64))
