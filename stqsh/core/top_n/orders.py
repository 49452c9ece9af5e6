"""The orders of queries with LIMIT: each distinct ORDER BY and LIMIT once."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.groups.refresh_schedule import QueryTimings
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.row_changes import ShowingQueries
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.table import ArraySpec
from stqsh.core.top_n.places import places_of
from stqsh.spec.expression import Expr, compared_with_now
from stqsh.spec.query import MOST_MEMBERS, TopNSpec


class TopNQueries(ShowingQueries):
    """Queries with LIMIT."""

    form = ArraySpec(np.int32)  # its ORDER BY and LIMIT: position in the header's list
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
        specs = [pattern.top_n or TopNSpec((), 0) for pattern in new.patterns]  # for patterns of other kinds
        texts = [msgspec.json.encode(spec).decode() for spec in specs]
        used = dict.fromkeys(texts[which] for which in np.unique(new.which).tolist())
        self._forms += [text for text in used if text not in self._forms]
        number = {text: i for i, text in enumerate(self._forms)}
        self._queries.form[positions] = new.spread([number.get(text, -1) for text in texts], np.int32)
        self._queries.limit[positions] = new.spread([spec.limit for spec in specs], np.int32)
        self._queries.each_step[positions] = new.spread([spec.each_step for spec in specs], np.bool_)

    def spec(self, form: int) -> TopNSpec:
        """Return an order by its number."""
        return msgspec.json.decode(self._forms[form], type=TopNSpec)

    def timings(self) -> QueryTimings:
        """Return when the queries are refreshed, and what their orders compare with NOW."""
        specs = [self.spec(form) for form in range(len(self._forms))]
        used = np.flatnonzero(np.bincount(self._queries.form, minlength=len(specs))).tolist()
        durations = [
            (-1 if one.sync_us is None else one.sync_us, -1 if one.window_us is None else one.window_us)
            for one in specs
        ]
        sync_us, windows_us = np.array([*durations, (-1, -1)], np.int64).T[:, self._queries.form]
        read = [value for form in used for value in _read_by(specs[form])]
        compared = [pair for value in read for pair in compared_with_now(value)]
        return QueryTimings(self._queries.each_step & (sync_us < 0), sync_us, windows_us, compared)

    def places(self, form: int, versions: Array, now_us: int = 0, far: Array | None = None) -> pa.BinaryArray:
        """Return the places of records, see `stqsh.core.top_n.places.places_of`."""
        return places_of(self._conditions, self._key, self.spec(form), versions, now_us, far)


def _read_by(top_n: TopNSpec) -> tuple[Expr, ...]:
    """Return the expressions on which the place of a record depends."""
    return (*(one.value for one in top_n.order), *top_n.timed)


def order_operators(top_n: TopNSpec | None) -> tuple[str, ...]:
    """Return what EXPLAIN shows of an order; None for that of a snapshot."""
    if top_n is None:
        return ("sort and limit",)
    limited = () if top_n.limit == MOST_MEMBERS else (f"top {top_n.limit}",)
    again = ("ordered again in each step",) if top_n.each_step and top_n.sync_us is None else ()
    return (*limited, *again)
