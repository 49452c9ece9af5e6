"""The orders of rows: each distinct combination of ORDER BY and timing once."""

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
from stqsh.core.top_n.places import RowForm, places_of
from stqsh.spec.expression import Expr, compared_with_now
from stqsh.spec.query import MOST_MEMBERS, QuerySpec, SnapshotSpec


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
        return QueryTimings(self._queries.each_step & (sync_us < 0), sync_us, windows_us, compared)

    def places(self, form: int, versions: Array, now_us: int = 0, far: Array | None = None) -> pa.BinaryArray:
        """Return the places of records, see `stqsh.core.top_n.places.places_of`."""
        return places_of(self._conditions, self._key, self.spec(form), versions, now_us, far)


def _read_by(form: RowForm) -> tuple[Expr, ...]:
    """Return the expressions on which the place of a record depends."""
    return (*(one.value for one in form.order), *form.timed)


def order_operators(query: QuerySpec | SnapshotSpec) -> tuple[str, ...]:
    """Return what EXPLAIN shows of a query's order."""
    if isinstance(query, SnapshotSpec):
        return ("sort and limit",)
    limited = () if query.result.limit is None else (f"top {query.result.limit}",)
    again = ("ordered again in each step",) if query.timing.each_step and query.timing.sync_us is None else ()
    return (*limited, *again)
