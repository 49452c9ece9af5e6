"""The orders of rows, each distinct combination of ORDER BY and timing once, and places in these orders.

A place is bytes that compare like the rows, so that all slots order alike.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute

from stqsh.arrays import Array
from stqsh.core.aggregates.keys import canonical, encode_keys, whole
from stqsh.core.conditions.evaluation import columns_read, compute
from stqsh.core.conditions.operations import DISTANCE
from stqsh.core.groups.refresh_schedule import QueryTimings
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.row_changes import ShowingQueries
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.table import ArraySpec
from stqsh.spec.expression import Expr, NowExpr, changes_always, compared_with_now, has_node
from stqsh.spec.query import MOST_MEMBERS, OrderColumn, QuerySpec, SlotQuery, SnapshotSpec, Timing

pc: Any = pyarrow.compute  # its stubs lack bytes

_FIRST, _LAST = b"\x00", b"\x01"
_WIDTH = 8
"""The number of bytes of a distance."""


class RowForm(msgspec.Struct, frozen=True, array_like=True):
    """What is the same for all queries of a form: the order of their rows, and when they are looked at.

    Attributes:
        order: ORDER BY.
        timed: The expressions of the select list that read NOW, of a query that sends changes of its rows.
        timing: When they are looked at.
    """

    order: tuple[OrderColumn, ...]
    timed: tuple[Expr, ...] = ()
    timing: Timing = Timing()

    @staticmethod
    def of(query: SlotQuery) -> RowForm:
        """Return the form of a query."""
        compares = query.timing.changes or query.adds_up_rows
        timed = tuple(expr for expr in query.values if has_node(expr, NowExpr)) if compares else ()
        return RowForm(query.result.order, timed, query.timing.looks)

    @staticmethod
    def read(text: str) -> RowForm:
        """Read the JSON of a form; slots of earlier versions have one object for its parts."""
        if text.startswith("{"):
            older = msgspec.json.decode(text, type=_OlderForm)
            return RowForm(older.order, older.timed, msgspec.json.decode(text, type=Timing))
        return msgspec.json.decode(text, type=RowForm)


class _OlderForm(msgspec.Struct):
    order: tuple[OrderColumn, ...]
    timed: tuple[Expr, ...] = ()


def places_of(
    conditions: QueryConditions,
    key: str,
    form: RowForm,
    versions: Array,
    now_us: int = 0,
    far: Array | None = None,
) -> pa.BinaryArray:
    """Return the places of records in the order of (ORDER BY, key), by version.

    Args:
        conditions: Returns the columns of versions.
        key: The column of the stream's key.
        form: The expressions of ORDER BY, and expressions to append after the key, so that the place changes
            with them. Because keys differ, they do not affect the order.
        versions: The records, int32 (n,).
        now_us: The value of NOW, µs.
        far: The distance of each from the centre, NaN for none, float64 (n,); None if it is not needed.
    """
    resolver, exprs = conditions.resolver, (*(one.value for one in form.order), *form.timed)
    names = {name for expr in exprs for name in columns_read(expr, resolver.location)} | {key}
    columns = conditions.columns(sorted(names), versions)
    if far is not None:
        columns[DISTANCE] = pa.array(far, mask=np.isnan(far))
    pieces: list[Any] = []
    for one in form.order:
        value = canonical(whole(compute(one.value, columns, now_us, resolver)))
        pieces += [_of_nulls(value, one), _falling(_known(value)) if one.is_descending else _known(value)]
    pieces.append(encode_keys([columns[key]]))
    if form.timed:
        shown = [canonical(whole(compute(expr, columns, now_us, resolver))) for expr in form.timed]
        pieces.append(encode_keys(shown))
    places: pa.BinaryArray = pc.binary_join_element_wise(*pieces, b"")
    return places


def with_distances(places: pa.BinaryArray, far: Array, shows: Array) -> pa.BinaryArray:
    """Append the distances that are shown to places; this keeps the order, because keys differ.

    Args:
        places: The places.
        far: The distances, NaN for none, float64 (n,).
        shows: Whether each distance is shown, bool (n,).
    """
    if not shows.any():
        return places
    ends: Any = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_WIDTH), len(far), [None, pa.py_buffer(far.astype("<f8").tobytes())]
    ).cast(pa.binary())
    whole: pa.BinaryArray = pc.binary_join_element_wise(
        places, pc.if_else(pa.array(shows), ends, pa.scalar(b"", pa.binary())), b""
    )
    return whole


def distances_in(places: pa.BinaryArray) -> Array:
    """Return the distances at the ends of places, all of which must have one, NaN for none; float64 (n,)."""
    _, offsets, content = places.buffers()
    assert offsets is not None and content is not None, "each place has a distance"
    begin = places.offset
    ends = np.frombuffer(memoryview(offsets), np.int32)[begin + 1 : begin + len(places) + 1].astype(np.int64)
    data = np.frombuffer(memoryview(content), np.uint8)
    pieces = np.ascontiguousarray(data[ends[:, None] + np.arange(-_WIDTH, 0)])
    return pieces.view("<f8").reshape(-1)


def _of_nulls(value: Any, one: OrderColumn) -> Any:
    """Return a byte for each value that sorts NULLs to their end of the order."""
    null, known = (_FIRST, _LAST) if one.nulls_first else (_LAST, _FIRST)
    return pc.if_else(pc.is_null(value), pa.scalar(null, pa.binary()), pa.scalar(known, pa.binary()))


def _known(value: Any) -> Any:
    """Encode values as bytes that sort like the values; all NULLs have the same bytes."""
    return encode_keys([value])


def _falling(pieces: pa.BinaryArray) -> pa.BinaryArray:
    """Reverse the order of byte strings by inverting their bits; none may be a prefix of another."""
    whole = pc.binary_join_element_wise(pieces, pa.scalar(b"", pa.binary()), b"")
    _, offsets, content = whole.buffers()
    data = np.frombuffer(memoryview(content), np.uint8) if content is not None else np.zeros(0, np.uint8)
    falling: Any = ~data
    inverted: Any = pa.py_buffer(falling)
    made = pa.Array.from_buffers(pa.binary(), len(whole), [None, offsets, inverted])
    assert isinstance(made, pa.BinaryArray)
    return made


class TopNQueries(ShowingQueries):
    """Queries with LIMIT."""

    form = ArraySpec(np.int32)  # its order and timing: position in the header's list
    limit = ArraySpec(np.int32)
    each_step = ArraySpec(np.bool_)  # whether order or rows may change without records


class QueryOrders:
    """The orders of a kind's queries over a stream; the header's entry "forms" lists them as JSON.

    Args:
        prefix: The name of the list.
        key: The column of the stream's key.
        queries: The queries.
        conditions: Returns the columns of versions.
    """

    def __init__(self, prefix: str, key: str, queries: TopNQueries, conditions: QueryConditions) -> None:
        self._key, self._queries, self._conditions = key, queries, conditions
        self._forms: list[str] = queries.state.entry("forms").setdefault(prefix, [])

    def add(self, positions: Array, new: NewQueries) -> None:
        """Store the orders of new queries."""
        texts = [msgspec.json.encode(RowForm.of(pattern)).decode() for pattern in new.patterns]
        used = dict.fromkeys(texts[which] for which in np.unique(new.which).tolist())
        self._forms += [text for text in used if text not in self._forms]
        number = {text: i for i, text in enumerate(self._forms)}
        self._queries.form[positions] = new.spread([number.get(text, -1) for text in texts], np.int32)
        each_step = [pattern.timing.each_step for pattern in new.patterns]
        limits = [pattern.result.limit for pattern in new.patterns]
        most = [MOST_MEMBERS if limit is None else min(limit, MOST_MEMBERS) for limit in limits]
        self._queries.limit[positions] = new.spread(most, np.int32)
        self._queries.each_step[positions] = new.spread(each_step, np.bool_)

    def spec(self, form: int) -> RowForm:
        """Return a form by its number."""
        return RowForm.read(self._forms[form])

    def timings(self) -> QueryTimings:
        """Return when the queries are refreshed, and what their orders compare with NOW."""
        specs = [self.spec(form) for form in range(len(self._forms))]
        used = np.flatnonzero(np.bincount(self._queries.form, minlength=len(specs))).tolist()
        looks = [(one.timing.sync_us, one.timing.window_us) for one in specs]
        durations = [[-1 if us is None else us for us in pair] for pair in looks]
        sync_us, windows_us = np.array([*durations, [-1, -1]], np.int64).T[:, self._queries.form]
        read = [value for form in used for value in _read_by(specs[form])]
        compared = [pair for value in read for pair in compared_with_now(value)]
        always = [any(map(changes_always, _read_by(one))) for one in specs]
        change_always = np.array([*always, False])[self._queries.form]
        recomputed = self._queries.each_step & (sync_us < 0)
        return QueryTimings(recomputed, sync_us, windows_us, compared, change_always)

    def places(self, form: int, versions: Array, now_us: int = 0, far: Array | None = None) -> pa.BinaryArray:
        """Return the places of records, see `places_of`."""
        return places_of(self._conditions, self._key, self.spec(form), versions, now_us, far)


def _read_by(form: RowForm) -> tuple[Expr, ...]:
    """Return the expressions on which the place of a record depends."""
    return (*(one.value for one in form.order), *form.timed)


def order_operators(query: QuerySpec | SnapshotSpec) -> tuple[str, ...]:
    """Return what EXPLAIN shows of a query's order."""
    if isinstance(query, SnapshotSpec):
        return ("sort and limit",)
    limited = () if query.result.limit is None else (f"top {query.result.limit}",)
    again = (
        ("looked at again in each step",) if query.timing.each_step and query.timing.sync_us is None else ()
    )
    return (*limited, *again)
