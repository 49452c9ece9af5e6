"""Aggregates of merged answers with DWELL: the rows that readers would hold are the members that count.

Idea: slots offer members as for the query without aggregates, with the values that are added up. Aggregate
merges them and holds changes back until they have lasted; only then are they added up, here. So members of
any kind can dwell, and SYNC, NEAREST and NOW need no code here. Invariant: the stored groups are those of the
rows that readers would hold; a row that leaves takes back what it last added. Cost: that of the changed rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.aggregates.states import group_payloads
from stqsh.core.groups.candidate_groups import candidate_groups, of_values
from stqsh.core.groups.group_deltas import MemberChanges
from stqsh.core.groups.group_merge import merge_groups
from stqsh.core.groups.group_store import GroupStore
from stqsh.core.groups.marks import BEGIN, MarkWriter, read_marks
from stqsh.core.kernels.events.updates import DROPPED, ENDED
from stqsh.core.output.held_answers import DueUpdates
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.output.partials import DROP, END, GROUPS, all_marks
from stqsh.spec.query import GroupForm


def add_up(batch: MergeInput, due: DueUpdates | None) -> list[MergedUpdates]:
    """Return the changes of rows that are due, and those of groups for queries with aggregates.

    Args:
        batch: The batch of the rows.
        due: The changes of rows of queries with DWELL; None if there are no such queries.
    """
    prefix = f"s{batch.spec.id}/{batch.kind}-groups"
    if not batch.groups and f"{prefix}/queries/id" not in batch.state:
        return [] if due is None else [MergedUpdates(due.updates, due.records)]
    store, marks = GroupStore(batch.state, batch.spec.id, prefix), MarkWriter()
    _register(batch, store, marks)
    _retire(batch, store, marks)
    if due is None:
        return [merge_groups(_marked(batch, marks))]
    _begin(due, store, marks)
    groups, updates = _marked(batch, marks), due.updates
    mine = np.isin(updates.query, store.queries.id)
    members = MemberChanges(updates.query, updates.step, due.held, updates.op)
    changes = MemberChanges(*(column[mine] for column in members))
    found = candidate_groups(groups, changes, due.records, _no_distances, read_marks(groups.marks))
    merged = merge_groups(replace(groups, partials=list(group_payloads(found))))
    return [MergedUpdates(updates.where(~mine), due.records), merged]


def _marked(batch: MergeInput, marks: MarkWriter) -> MergeInput:
    """Return the batch of the groups, with marks and without differences."""
    written = marks.batch()
    given = [] if written is None else [written]
    return replace(batch, kind=f"{batch.kind}-groups", marks=given, partials=[])


def _register(batch: MergeInput, store: GroupStore, marks: MarkWriter) -> None:
    """Store the new queries, whose aggregates read values that slots sent."""
    table = pa.Table.from_batches(batch.groups, GROUPS).unify_dictionaries().combine_chunks()
    if not table.num_rows:
        return
    ids, first = np.unique(table.column(0).to_numpy(), return_index=True)
    spec: Any = table.column(1).chunk(0)
    forms = [GroupForm.read(text) if text else None for text in spec.dictionary.to_pylist()]
    texts = ["" if one is None else GroupForm(of_values(one.groups), one.timing).text for one in forms]
    marks.register(ids, batch.first, texts, spec.indices.to_numpy()[first])
    store.register(*read_marks(_marked(batch, marks).marks))


def _retire(batch: MergeInput, store: GroupStore, marks: MarkWriter) -> None:
    """Mark the queries that end; their groups are retracted as they are."""
    ends = all_marks(batch.marks)
    for mark, why in ((DROP, DROPPED), (END, ENDED)):
        at = np.flatnonzero((ends.mark == mark) & np.isin(ends.query, store.queries.id))
        marks.retire(ends.query[at], ends.step[at], why)


def _begin(due: DueUpdates, store: GroupStore, marks: MarkWriter) -> None:
    """Mark the queries that are looked at for the first time, and those whose rows change with time."""
    waiting = store.queries.id[~store.queries.begun]
    begins = np.isin(due.looked, waiting)
    for step in np.unique(due.steps[begins]).tolist():
        marks.add(due.looked[begins & (due.steps == step)], step, BEGIN)
    heeding = store.those(lambda spec: spec.heeds_time)
    marks.wake(due.looked[np.isin(due.looked, heeding)], due.clock)


def _no_distances(query: Array, versions: Array) -> Array:
    """Return NaN, because distances are among the values that slots send."""
    return np.full(len(versions), np.nan)
