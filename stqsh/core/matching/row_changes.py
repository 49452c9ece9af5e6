"""Queries WITH (changes => true): updates for members that stay in an answer and whose rows change.

Such a query sends `-` with an object's old row and `+` with its new one when a new record of the object
differs in what the query selects. Old and new are versions of records, as in transitions. If Aggregate merges
the answers, slots send the selected values of each candidate as a key, and Aggregate compares the keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.aggregates.keys import canonical, encode_keys, whole
from stqsh.core.conditions.evaluation import columns_read, compute
from stqsh.core.conditions.operations import DISTANCE
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.events.updates import UpdateArrays
from stqsh.core.kernels.index.static_rects import IS, WAS, CandidatePairs
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.output.batch_output import QueryUpdates
from stqsh.core.output.renewed_rows import RenewedRows
from stqsh.core.queries.query_table import QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec
from stqsh.spec.expression import DistanceExpr, Expr, has_node

Now: TypeAlias = "int | pa.Array[Any]"
"""The value of NOW, µs: one instant, or one for each row."""
Distances = Callable[[Array, Array], Array]
"""Returns the distances of versions from the centres of queries, given by position; float64 (n,)."""


class ShowingQueries(QueryTable):
    """Queries that may send changes."""

    shown = ArraySpec(np.int32)  # select list: place in the header's list, from 1 on; 0 for none


class RangeQueries(ShowingQueries):
    """Range queries."""


class StayingMembers(NamedTuple):
    """Members with a new record that stay in answers, (n,) each: steps, positions of queries, old and new."""

    step: Array
    query: Array
    old: Array
    new: Array


def staying_members(pairs: CandidatePairs, events: Transitions, wanted: Array) -> StayingMembers:
    """Return the members with a new record that stay in the answers of `wanted` queries, bool (queries,)."""
    stay = (pairs.flags == WAS | IS) & wanted[pairs.query]
    at = np.flatnonzero(stay)
    at = at[events.old[pairs.event[at]] != events.new[pairs.event[at]]]
    event = pairs.event[at]
    return StayingMembers(events.step[event], pairs.query[at], events.old[event], events.new[event])


def together(some: StayingMembers, more: StayingMembers) -> StayingMembers:
    """Concatenate two tables of members."""
    return StayingMembers(*(np.concatenate(columns) for columns in zip(some, more, strict=True)))


class RowChanges:
    """The select lists of one kind's queries over a stream, and changes of the selected values.

    The header's entry "forms" lists the distinct select lists of queries with `changes`, as JSON.
    """

    def __init__(
        self, state: SlotState, prefix: str, queries: ShowingQueries, conditions: QueryConditions
    ) -> None:
        self._queries, self._conditions = queries, conditions
        self._forms: list[str] = state.entry("forms").setdefault(prefix, [])

    @property
    def wanted(self) -> Array:
        """Which queries send changes; bool (queries,)."""
        wanted: Array = self._queries.shown > 0
        return wanted

    def add(self, positions: Array, new: NewQueries) -> None:
        """Store the values of new queries at these positions, if members are compared or added up by them."""
        texts = [
            msgspec.json.encode(spec.values).decode()
            if spec.values and (spec.timing.changes or spec.adds_up_rows)
            else ""
            for spec in new.patterns
        ]
        used = dict.fromkeys(texts[which] for which in np.unique(new.which).tolist())
        self._forms += [text for text in used if text and text not in self._forms]
        numbers = {text: place + 1 for place, text in enumerate(self._forms)}
        self._queries.shown[positions] = new.spread([numbers.get(text, 0) for text in texts], np.int32)

    def updates(self, context: QueryContext, members: StayingMembers) -> QueryUpdates:
        """Return `-` and `+` of the members whose rows differ."""
        # DISTANCE is read only from fixed centres here, so any step will do.
        distances = partial(context.distances, step=context.batch.timing.first)
        differs, forms = np.zeros(len(members.query), np.bool_), self._queries.shown[members.query]
        for form in np.unique(forms).tolist():
            at = np.flatnonzero(forms == form)
            exprs = msgspec.json.decode(self._forms[form - 1], type=tuple[Expr, ...])
            differs[at] = self._differ(exprs, StayingMembers(*(column[at] for column in members)), distances)
        step, query, old, new = (column[differs] for column in members)
        return RenewedRows(query, step, old, new).updates()

    def keys(
        self, query: Array, versions: Array, far: Array, now_us: Array | None = None
    ) -> pa.BinaryArray | None:
        """Return the selected values of versions as keys, equal for equal values; null if none are wanted.

        Args:
            query: The positions of queries, (n,); -1 if no values are wanted.
            versions: The version for each.
            far: Their distances from the centres, float64, NaN for none.
            now_us: The value of NOW for each, int64; None if nothing reads it.

        Returns:
            The keys; None if no query sends changes.
        """
        if not self._forms:
            return None
        forms, place = np.where(query < 0, 0, self._queries.shown[query]), np.full(len(query), -1)
        parts: list[pa.BinaryArray] = [pa.array([], pa.binary())]
        for form in np.unique(forms[forms > 0]).tolist():
            at = np.flatnonzero(forms == form)
            place[at] = sum(map(len, parts)) + np.arange(len(at))
            exprs = msgspec.json.decode(self._forms[form - 1], type=tuple[Expr, ...])
            now: Now = 0 if now_us is None else pa.array(now_us[at])
            found = self._values(exprs, query[at], versions[at], lambda *_, at=at: far[at], now)
            parts.append(encode_keys(found))
        positions: Any = pa.array(place, mask=place < 0)
        keys: pa.BinaryArray = pa.concat_arrays(parts).take(positions)
        return keys

    def _differ(self, exprs: tuple[Expr, ...], members: StayingMembers, distances: Distances) -> Array:
        """Return whether an expression has different values for the old and the new version; bool (n,)."""
        found = np.zeros(len(members.query), np.bool_)
        before, after = (
            self._values(exprs, members.query, versions, distances) for versions in (members.old, members.new)
        )
        for old, new in zip(before, after, strict=True):
            differs: Any = pc.not_equal(old, new)
            other: Any = differs.fill_null(False)
            null: Any = pc.xor(pc.is_null(old), pc.is_null(new))
            found |= pc.or_(other, null).to_numpy(zero_copy_only=False)
        return found

    def _values(
        self,
        exprs: tuple[Expr, ...],
        query: Array,
        versions: Array,
        distances: Distances,
        now_us: Now = 0,
    ) -> list[pa.Array[Any]]:
        resolver = self._conditions.resolver
        names = {name for expr in exprs for name in columns_read(expr, resolver.location)}
        columns = self._conditions.columns(sorted(names), versions.astype(np.int32))
        if any(has_node(expr, DistanceExpr) for expr in exprs):
            far = distances(query, versions)
            columns[DISTANCE] = pa.array(far, mask=np.isnan(far))
        return [canonical(whole(compute(expr, columns, now_us, resolver))) for expr in exprs]


def came(updates: UpdateArrays, elsewhere: Array, wanted: Array) -> StayingMembers:
    """Return the arrivals among updates of objects that cross, as members with a new record.

    `elsewhere` has the version of each on the other slot. Only arrivals count, because only the slot to which
    an object crosses has both of its records.
    """
    at = np.flatnonzero((updates.op > 0) & wanted[updates.query])
    return StayingMembers(updates.step[at], updates.query[at], elsewhere[at], updates.show[at])
