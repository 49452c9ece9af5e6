"""NEAREST k with another order and LIMIT n: of the k nearest objects, the first n by (ORDER BY, key).

Slots offer their own k nearest, as for the query without LIMIT, each with its place in the order. Aggregate
merges these into the k nearest of all slots. The changes of these k are then the candidates of a second
merge, that of a query with LIMIT.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.aggregates.keys import byte_slices
from stqsh.core.contract.query_kind import ExplainInput, KindExplanation, StreamBatch
from stqsh.core.groups.refresh_schedule import QueryTimings
from stqsh.core.kinds.nearest import NearestKind, NearestLogic
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.row_changes import RowChanges
from stqsh.core.nearest.candidate_changes import CandidateChanges
from stqsh.core.output.candidates import LOOKED_UP
from stqsh.core.output.merge import MergedCandidates, MergedUpdates, MergeInput, first_k_candidates
from stqsh.core.output.partials import LIMIT, PARTIAL, REGISTER, Partials
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.top_n.merge import merge_first
from stqsh.core.top_n.orders import QueryOrders, TopNQueries, order_operators
from stqsh.core.top_n.places import with_distances
from stqsh.spec.query import NEAREST_TOP_N

_LENGTH = np.dtype("<u4")
"""The type of a place's length, which ends the bytes that slots send."""


class PlaceLookup:
    """The places of candidates in the orders of their queries, and the selected values."""

    def __init__(
        self, batch: StreamBatch, queries: TopNQueries, conditions: QueryConditions, partials: Partials
    ) -> None:
        self._batch, self._queries, self._partials = batch, queries, partials
        prefix = queries.prefix
        self._orders = QueryOrders(prefix, batch.spec.key, queries, conditions)
        self._selected = RowChanges(batch.state, f"{prefix}/changes", queries, conditions)

    def add(self, positions: Array, new: NewQueries) -> None:
        """Store the orders of new queries, and send their LIMITs to Aggregate."""
        queries = self._queries
        self._orders.add(positions, new)
        self._selected.add(positions, new)
        ids, shows = queries.id[positions], queries.shows_distance[positions] > 0
        limits: Array = queries.limit[positions]
        self._partials.mark(ids, self._batch.timing.first, LIMIT, limits, shows)

    def timings(self) -> QueryTimings:
        """Return when the queries are refreshed."""
        return self._orders.timings()

    def keys(self, changes: CandidateChanges, now_us: int = 0) -> pa.BinaryArray:
        """Return the places of candidates, the values that queries select, and the lengths of the places.

        `now_us` is the meaning of NOW, µs.
        """
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


class NearestTopNLogic(NearestLogic):
    """One batch of a stream's queries for the first n of the k nearest."""

    queries: TopNQueries

    @cached_property
    def lookup(self) -> PlaceLookup:
        """The places of candidates in the orders of their queries."""
        return PlaceLookup(self.batch, self.queries, self._conditions, self.partials)


class NearestTopNKind(NearestKind):
    """Of the first k present objects by distance, the first n by another order."""

    name = NEAREST_TOP_N.name
    logic = NearestTopNLogic
    table = TopNQueries

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Merge the slots' candidates into the k nearest, and these into the first n."""
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

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows: members are found as for a kNN query, and ordered."""
        found = super().explain(given)
        operators = order_operators(given.spec)
        return replace(found, operators=(*found.operators, *operators))


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
