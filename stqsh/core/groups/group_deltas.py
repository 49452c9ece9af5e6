"""The contributions of one slot's members to groups, by step, as differences that add up over slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.aggregates.keys import canonical, number_groups, whole
from stqsh.core.aggregates.states import Contribution, States, contribute
from stqsh.core.base.clock import BatchTiming
from stqsh.core.conditions.evaluation import columns_read, compute
from stqsh.core.conditions.operations import DISTANCE
from stqsh.core.conditions.resolver import Resolver
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.events.versions import number
from stqsh.core.kernels.groups.net_members import count_changes, list_changes
from stqsh.core.kernels.index.static_rects import CandidatePairs
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.expression import DistanceExpr, Expr, has_node

_SPARE = 1 << 22
"""The size up to which a dense table of all numbers is used, even if few of them occur."""


class MemberChanges(NamedTuple):
    """Members that come, sign 1, or leave, -1: positions of queries, steps, and versions of records; (n,)."""

    query: Array
    step: Array
    version: Array
    sign: Array


class RecordColumns(Protocol):
    """The records of members, by version."""

    @property
    def resolver(self) -> Resolver:
        """The tables and areas that expressions look up."""

    def columns(self, names: Iterable[str], versions: Array) -> dict[str, pa.Array[Any]]:
        """Return columns of versions by name, and an unnamed one that determines the length of constants."""


Distances = Callable[[Array, Array], Array]
"""Returns the distances of versions from the centres of queries, given by position; float64 (n,)."""


class GroupDeltas:
    """Sums the changes of members by query, step and group.

    Args:
        records: Returns the columns of versions.
        versions: The number of versions.
        timing: The batch's steps.
        ids: The ids of the queries by position.
        distances: Returns DISTANCE.
        now_us: The value of NOW, µs.
    """

    def __init__(
        self,
        records: RecordColumns,
        versions: int,
        timing: BatchTiming,
        ids: Array,
        distances: Distances,
        now_us: int = 0,
    ) -> None:
        self._records, self._versions, self._timing, self._ids = records, versions, timing, ids
        self._distances, self._now_us = distances, now_us

    def of_pairs(self, spec: AggregateSpec, pairs: CandidatePairs, events: Transitions) -> States | None:
        """Return the differences by pairs of events and queries, all of one spec; None if there are none."""
        if is_count(spec):
            return self._counted(pairs, events)
        return self.of_members(spec, MemberChanges(*list_changes(pairs, events)))

    def of_members(
        self, spec: AggregateSpec, changes: MemberChanges, *, lasting: bool = True
    ) -> States | None:
        """Return the differences by member changes of queries, all of one spec; None if there are none.

        Without `lasting`, all members come now and leave only together later, so MIN and MAX need no other
        values than the extreme.
        """
        if not len(changes.query):
            return None
        position, first = self._distinct(spec, changes)
        wanted = [*dict.fromkeys(_expressions(spec))]
        columns = self.columns(wanted, changes.version[first].astype(np.int32), changes.query[first])
        groups = number_groups([columns[group.value] for group in spec.groups], len(first))
        rows, by = self._rows(changes, groups.ids[position], groups.keys)
        taken: Any = pa.array(position)
        arguments = [
            None if one.argument is None else columns[one.argument].take(taken) for one in spec.measures
        ]
        records = Contribution(rows, changes.sign)
        found = contribute(spec.measures, arguments, by, records, lasting=lasting, error=spec.error)
        return _without_zeros(found)

    def _counted(self, pairs: CandidatePairs, events: Transitions) -> States | None:
        """Return the differences if only the number of members is needed."""
        first, last = self._timing.first, self._timing.last
        span = last - first + 1
        if span * len(self._ids) > max(_SPARE, 4 * len(pairs.event)):
            return self.of_members(AggregateSpec(), MemberChanges(*list_changes(pairs, events)))
        counts = count_changes(pairs, events.step, first, np.zeros(span * len(self._ids), np.int32), span)
        at = np.flatnonzero(counts)
        if not len(at):
            return None
        only: Any = pa.array([b""], pa.binary())
        by = identified(self._ids[at // span], first + at % span, np.zeros(len(at), np.int32), only)
        nobody = Contribution(np.empty(0, np.int32), np.empty(0, np.int8))
        number: Any = pa.array(counts[at], pa.int64())
        return contribute((), (), by, nobody)._replace(totals=pa.table({"n": number}))

    def _rows(self, changes: MemberChanges, group: Array, keys: pa.BinaryArray) -> tuple[Array, pa.Table]:
        """Number the combinations of query, step and group; return each change's number, and them all."""
        timing = self._timing
        span = timing.last - timing.first + 1
        codes = (changes.query.astype(np.int64) * span + (changes.step - timing.first)) * len(keys) + group
        if len(self._ids) * span * len(keys) <= max(_SPARE, 4 * len(codes)):
            rows, distinct = number(codes, np.full(len(self._ids) * span * len(keys), -1, np.int32))
        else:
            coded: Any = pa.array(codes).dictionary_encode()
            rows, distinct = coded.indices.to_numpy(), coded.dictionary.to_numpy()
        rest, groups = distinct // len(keys), distinct % len(keys)
        step = timing.first + rest % span
        return rows, identified(self._ids[rest // span], step, groups.astype(np.int32), keys)

    def _distinct(self, spec: AggregateSpec, changes: MemberChanges) -> tuple[Array, Array]:
        """Number the distinct records; return each change's number, and the first change with each record.

        If DISTANCE is read, a record is distinct for each query.
        """
        codes = changes.version.astype(np.int64)
        if any(has_node(expr, DistanceExpr) for expr in _expressions(spec)):
            coded: Any = pa.array(changes.query.astype(np.int64) * self._versions + codes).dictionary_encode()
            position, count = coded.indices.to_numpy(), len(coded.dictionary)
        else:
            position, versions = number(codes, self._scratch())
            count = len(versions)
        first = np.empty(count, np.int64)
        first[position[::-1]] = np.arange(len(codes))[::-1]
        return position, first

    def columns(
        self, wanted: Sequence[Expr], versions: Array, query: Array | None = None
    ) -> dict[Expr, pa.Array[Any]]:
        """Return the value of each expression that reads a record, for versions.

        `query` has the position of a query for each version, which DISTANCE needs.
        """
        resolver = self._records.resolver
        names = {name for expr in wanted for name in columns_read(expr, resolver.location)}
        columns = self._records.columns(sorted(names), versions)
        if query is not None and any(has_node(expr, DistanceExpr) for expr in wanted):
            far = self._distances(query, versions)
            columns[DISTANCE] = pa.array(far, mask=np.isnan(far))
        return {expr: canonical(whole(compute(expr, columns, self._now_us, resolver))) for expr in wanted}

    def _scratch(self) -> Array:
        return np.full(self._versions, -1, np.int32)


def is_count(spec: AggregateSpec) -> bool:
    """Return whether a query needs only the number of its members."""
    return not spec.groups and all(measure.argument is None for measure in spec.measures)


def identified(query: Array, step: Array, group: Array, keys: pa.BinaryArray) -> pa.Table:
    """Return the identifying columns of groups: query id, step, and key by its number in `keys`, int32."""
    key = pa.DictionaryArray.from_arrays(group, keys)
    columns: list[Any] = [pa.array(query), pa.array(step), key]
    return pa.Table.from_arrays(columns, names=["query", "step", "key"])


def _expressions(spec: AggregateSpec) -> Iterator[Expr]:
    yield from (group.value for group in spec.groups)
    yield from (measure.argument for measure in spec.measures if measure.argument is not None)


def _without_zeros(states: States) -> States | None:
    """Drop the rows of states that change nothing; return None if no row is left."""
    some = np.zeros(states.by.num_rows, np.bool_)
    for column in states.totals.columns:
        some |= column.to_numpy() != 0
    some[states.values["row"].to_numpy()] = True
    if some.all():
        return states
    if not some.any():
        return None
    chosen: Any = pa.array(some)
    place = np.cumsum(some, dtype=np.int32) - np.int32(1)
    rows = pa.array(place[states.values["row"].to_numpy()], pa.int32())
    values = states.values.set_column(0, states.values.schema.field("row"), rows)
    return States(states.by.filter(chosen), states.totals.filter(chosen), values)
