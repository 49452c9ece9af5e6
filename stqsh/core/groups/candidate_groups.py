"""The groups of candidates at Aggregate, which has their records and the values that slots looked up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.aggregates.states import States
from stqsh.core.base.clock import BatchTiming
from stqsh.core.conditions.resolver import Resolver
from stqsh.core.groups.candidate_columns import is_looked_up, lookup_columns
from stqsh.core.groups.group_deltas import Distances, GroupDeltas, MemberChanges
from stqsh.core.groups.group_store import GroupStore
from stqsh.core.groups.marks import DROP, END, REGISTER, GroupMarks
from stqsh.core.output.candidates import CandidateRecords
from stqsh.core.output.merge import MergeInput


@dataclass(frozen=True)
class _CandidateColumns:
    """The columns of candidates, for expressions."""

    records: CandidateRecords
    resolver: Resolver

    def columns(self, names: Iterable[str], versions: Array) -> dict[str, pa.Array[Any]]:
        """Return columns of versions by name, and an unnamed one that determines the length of constants."""
        shown = self.records.show(versions)
        found = {name: shown.column(name) for name in names if not is_looked_up(name)}
        if looked_up := [name for name in names if is_looked_up(name)]:
            found |= lookup_columns(looked_up, self.records.looked_up(versions))
        return found | {"": pa.nulls(len(versions))}


def candidate_groups(
    batch: MergeInput,
    changes: MemberChanges,
    records: CandidateRecords,
    distances: Distances,
    marks: tuple[GroupMarks, list[str]],
) -> Iterator[States]:
    """Yield the group changes that members cause until their queries end, one spec of queries at a time.

    Args:
        batch: The batch, with the prefix of the groups as its kind.
        changes: The members that come and leave, with queries by id.
        records: Their records.
        distances: Returns DISTANCE.
        marks: The marks of the batch, and the texts that they refer to.
    """
    changes = _lasting(changes, marks[0])
    if not len(changes.query):
        return
    store = GroupStore(batch.state, batch.spec.id, f"s{batch.spec.id}/{batch.kind}")
    store.register(marks[0].those(REGISTER), marks[1])
    ids, position = np.unique(changes.query, return_inverse=True)
    form = store.queries.form[store.positions(ids)][position]
    timing = BatchTiming(int(changes.step.min()), int(changes.step.max()), 0, 1, -1)
    source = _CandidateColumns(records, Resolver(batch.state, batch.spec))
    deltas = GroupDeltas(source, len(records), timing, ids, distances)
    for number in np.unique(form).tolist():
        some = MemberChanges(*(column[form == number] for column in changes._replace(query=position)))
        found = deltas.of_members(store.spec(number), some)
        if found is not None:
            yield found


def _lasting(changes: MemberChanges, marks: GroupMarks) -> MemberChanges:
    """Return the changes before their queries end; at the end Aggregate retracts the groups as they are."""
    ends = np.flatnonzero(np.isin(marks.mark, (DROP, END)))
    if not len(ends):
        return changes
    ends = ends[np.argsort(marks.query[ends])]
    place = np.minimum(np.searchsorted(marks.query[ends], changes.query), len(ends) - 1)
    is_over = (marks.query[ends][place] == changes.query) & (changes.step >= marks.step[ends][place])
    return MemberChanges(*(column[~is_over] for column in changes))
