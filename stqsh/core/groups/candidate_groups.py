"""The groups of candidates: slots look values up, and Aggregate adds up the merged candidates.

Only Aggregate has the members of all slots, but it has neither tables nor regions nor the time of each step.
A slot that offers a candidate therefore looks these values up and sends them as one key of
`stqsh.core.aggregates.keys`, and Aggregate reads the key as further columns of the candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from stqsh.arrays import Array
from stqsh.core.aggregates.keys import canonical, decode_keys, encode_keys, whole
from stqsh.core.aggregates.states import States
from stqsh.core.base.clock import BatchTiming
from stqsh.core.conditions.evaluation import columns_read, compute
from stqsh.core.conditions.resolver import Resolver
from stqsh.core.groups.group_deltas import Distances, GroupDeltas, MemberChanges, RecordColumns
from stqsh.core.groups.group_store import GroupStore
from stqsh.core.groups.marks import DROP, END, REGISTER, GroupMarks
from stqsh.core.output.candidates import CandidateRecords
from stqsh.core.output.merge import MergeInput
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.joined_tables import JoinedTables
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.expression import (
    CallExpr,
    ColumnExpr,
    CompareExpr,
    Expr,
    InsideExpr,
    JoinExpr,
    NowExpr,
    RegionOfExpr,
    changes_always,
    compared_with_now,
    has_node,
    rewrite,
)

_LookedUp = CallExpr | RegionOfExpr | InsideExpr | JoinExpr | CompareExpr | NowExpr
"""What Aggregate cannot compute from records; of comparisons only those with NOW."""

_MARK = "\0"
"""The first character of names of looked-up columns; no declared column begins with it."""


class SeparatedSpec(NamedTuple):
    """A query's spec with a column in place of each lookup, and the lookups in order."""

    spec: AggregateSpec
    lookups: tuple[Expr, ...]


def separated(spec: AggregateSpec, tables: JoinedTables) -> SeparatedSpec:
    """Separate the lookups of a query from its spec; `tables` has the types of joined columns."""
    found: dict[Expr, ColumnExpr] = {}

    def column_for(node: Expr) -> Expr | None:
        if not isinstance(node, _LookedUp):
            return None
        if isinstance(node, CompareExpr) and not has_node(node, NowExpr):
            return None
        name = f"{_MARK}{len(found)}:{_type(node, tables)}"
        return found.setdefault(node, ColumnExpr(name))

    changed = _over_records(spec, lambda expr, _: rewrite(expr, column_for))
    return SeparatedSpec(changed, tuple(found))


def of_values(spec: AggregateSpec) -> AggregateSpec:
    """Return a spec that reads `spec.values`, looked up in this order, instead of records.

    Single records are added up and taken back here, so TOPK is exact.
    """
    number = {expr: place for place, expr in enumerate(spec.values)}
    columns = _over_records(spec, lambda expr, kind: ColumnExpr(f"{_MARK}{number[expr]}:{kind}"))
    return replace(columns, error=0.0)


def _over_records(spec: AggregateSpec, changed: Callable[[Expr, str], Expr]) -> AggregateSpec:
    """Return a spec with the expressions over records changed, given with their types."""
    return replace(
        spec,
        groups=tuple(replace(one, value=changed(one.value, one.type)) for one in spec.groups),
        measures=tuple(
            one if one.argument is None else replace(one, argument=changed(one.argument, one.argument_type))
            for one in spec.measures
        ),
    )


def lookup_keys(
    lookups: tuple[Expr, ...], records: RecordColumns, versions: Array, now_us: int = 0
) -> pa.BinaryArray:
    """Return the looked-up values of versions as of an instant, as one key per version."""
    resolver = records.resolver
    names = {name for expr in lookups for name in columns_read(expr, resolver.location)}
    columns = records.columns(sorted(names), versions)
    return encode_keys([canonical(whole(compute(expr, columns, now_us, resolver))) for expr in lookups])


def is_looked_up(name: str) -> bool:
    """Return whether a column is looked up."""
    return name.startswith(_MARK)


def lookup_columns(names: Iterable[str], keys: Any) -> dict[str, pa.Array[Any]]:
    """Decode the looked-up columns from keys, a binary array; `names` must include all of them."""
    ordered = sorted(filter(is_looked_up, names), key=lambda name: int(name[1:].partition(":")[0]))
    types = [name.partition(":")[2] for name in ordered]
    return dict(zip(ordered, decode_keys(keys, types), strict=True)) if ordered else {}


class CandidateLookups:
    """The lookups of a kind's queries; the header's entry "lookups" lists them as JSON."""

    def __init__(self, state: SlotState, prefix: str) -> None:
        self._state = state
        self._texts: list[str] = state.entry("lookups").setdefault(prefix, [])

    def separate(self, new: NewQueries) -> tuple[list[AggregateSpec], Array]:
        """Return the spec of each pattern of new queries without lookups, and the lookups of each query.

        The lookups are places in the header's list, from 1 on; 0 for none; int32 (queries,).
        """
        tables = JoinedTables(self._state)
        patterns = [pattern.aggregates or AggregateSpec() for pattern in new.patterns]  # other kinds: none
        found = [separated(spec, tables) for spec in patterns]
        looks = new.spread([self._number(one.lookups) for one in found], np.int32)
        return [one.spec for one in found], looks

    def compared(self) -> list[tuple[Expr, int]]:
        """Return the looked-up expressions that are compared with NOW, and the durations added to NOW, µs."""
        return [pair for exprs in self._all() for expr in exprs for pair in compared_with_now(expr)]

    def change_always(self, looks: Array) -> Array:
        """Return whether NOW changes lookups, given by place, 0 for none, at other instants; bool (n,)."""
        always = [any(map(changes_always, exprs)) for exprs in self._all()]
        found: Array = np.array([False, *always])[looks]
        return found

    def _all(self) -> list[tuple[Expr, ...]]:
        return [msgspec.json.decode(text, type=tuple[Expr, ...]) for text in self._texts]

    def keys(self, looks: Array, versions: Array, records: RecordColumns, now_us: int = 0) -> pa.BinaryArray:
        """Return the keys of the looked-up values of versions, null where `looks` is 0."""
        if not looks.any():
            return pa.nulls(len(looks), pa.binary())
        place = np.full(len(looks), -1, np.int64)
        parts: list[pa.BinaryArray] = []
        at = 0
        for number in np.unique(looks[looks > 0]).tolist():
            mine = np.flatnonzero(looks == number)
            lookups = msgspec.json.decode(self._texts[number - 1], type=tuple[Expr, ...])
            distinct, position = np.unique(versions[mine], return_inverse=True)
            parts.append(lookup_keys(lookups, records, distinct.astype(np.int32), now_us))
            place[mine] = at + position
            at += len(distinct)
        positions: Any = pa.array(place, mask=place < 0)
        keys: pa.BinaryArray = pa.concat_arrays(parts).take(positions)
        return keys

    def clear(self) -> None:
        """Forget all lookups, because no query is left."""
        self._texts.clear()

    def _number(self, lookups: tuple[Expr, ...]) -> int:
        if not lookups:
            return 0
        text = msgspec.json.encode(lookups).decode()
        if text not in self._texts:
            self._texts.append(text)
        return self._texts.index(text) + 1


def _type(node: _LookedUp, tables: JoinedTables) -> str:
    match node:
        case CallExpr(type=kind):
            return kind
        case JoinExpr(table, _, wanted):
            return tables.type(table, wanted)
        case RegionOfExpr():
            return "STRING"
        case NowExpr():
            return "TIMESTAMP"
    return "BOOLEAN"


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
