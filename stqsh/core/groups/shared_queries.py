"""Equal queries: their members are found and added up once for all of them.

A dashboard that many people open registers the same SELECT many times. Queries are equal here if their
regions, conditions and specs are equal. Queries with keywords are never shared, because they have their own
index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.aggregates.states import VALUES, States
from stqsh.core.groups.query_forms import FormedQueries
from stqsh.core.kernels.groups.distinct import first_alike
from stqsh.core.kernels.jit import frozen
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.queries.query_table import REGION, QueryTable

_COLUMNS = ("form", "shape", "area", "k", "focal", "template", *REGION)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class SharedQueries:
    """Queries of a table by position, in lots of equal queries.

    Attributes:
        first: The first query of each lot, by position, ascending, int64 (lots,).
    """

    def __init__(
        self, queries: FormedQueries, conditions: QueryConditions, positions: Array, apart: Array
    ) -> None:
        """Find the lots of equal queries.

        Args:
            queries: The table.
            conditions: Their conditions.
            positions: The queries, ascending, int64 (n,).
            apart: Which queries are not shared, bool (n,).
        """
        columns = (_bits(queries.array(name)[positions]) for name in _COLUMNS)
        lot = _lots(chain(columns, _constants(queries, conditions, positions)), apart)
        self._ids = queries.id[positions]
        order = np.argsort(lot, kind="stable")
        self._members, begin = order, np.flatnonzero(np.diff(lot[order], prepend=-1))
        self._begin = np.append(begin, len(order))
        self.first: Array = positions[order[begin]]

    def spread(self, states: States, among: Array | None = None) -> States | None:
        """Copy the states of the first query of each lot to all of its queries; None if there are none.

        Args:
            states: The states, for queries of `first`.
            among: Which of the queries get them, bool (n,); all if None.
        """
        if among is None and len(self.first) == len(self._ids):
            return states
        members, begin = self._members, self._begin
        if among is not None:
            kept = among[members]
            members, begin = members[kept], np.append(0, np.cumsum(kept))[begin]
        lot = np.searchsorted(self._ids[self._members[self._begin[:-1]]], states.by["query"].to_numpy())
        rows, place = _repeated(begin[lot], begin[lot + 1])
        if not len(rows):
            return None
        taken: Any = pa.array(rows)
        ids: Any = pa.array(self._ids[members[place]])
        by = states.by.take(taken).set_column(0, "query", ids)
        row = states.values["row"].to_numpy()
        lengths = begin[lot + 1] - begin[lot]
        start = np.cumsum(lengths) - lengths
        listed, moved = _repeated(start[row], start[row] + lengths[row])
        wanted: Any = pa.array(listed)
        numbers = pa.array(moved, pa.int32())
        values = states.values.take(wanted).set_column(0, VALUES.field("row"), numbers)
        return States(by, states.totals.take(taken), values)


def taken_back(states: States, step: int) -> States:
    """Return the negation of states, as of a step."""
    by = states.by.set_column(1, "step", pa.array(np.full(states.by.num_rows, step)))
    names = states.totals.column_names
    totals = pa.table({name: pa.array(-states.totals[name].to_numpy()) for name in names})
    count = pa.array(-states.values["n"].to_numpy())
    return States(by, totals, states.values.set_column(3, VALUES.field("n"), count))


def equal_conditions(queries: QueryTable, conditions: QueryConditions, positions: Array) -> Array:
    """Number the distinct conditions of queries, given by position, from 0 on; int64 (n,)."""
    columns = chain([_bits(queries.template[positions])], _constants(queries, conditions, positions))
    return _lots(columns, np.zeros(len(positions), np.bool_))


def _lots(columns: Iterable[Array], apart: Array) -> Array:
    """Return the number of each query's lot, int64 (n,), in the order of their first queries.

    Args:
        columns: What distinguishes queries, as bits, uint64 (n,) each.
        apart: Which queries are not shared, bool (n,).
    """
    bits, mixed = [one for one in columns if (one != one[:1]).any()], np.zeros(len(apart), np.uint64)
    for column in bits:
        mixed = (mixed ^ column) * _FACTOR
        mixed ^= mixed >> np.uint64(29)
    # Hashes only propose equal queries: each is compared with the first of its hash, and stays alone if
    # they differ. So a collision costs sharing, never correctness.
    like = first_alike(frozen(mixed))
    alone = apart | apart[like]
    for column in bits:
        alone |= column != column[like]
    like[alone] = np.flatnonzero(alone)
    is_first = like == np.arange(len(like))
    lots: Array = (np.cumsum(is_first) - 1)[like]
    return lots


def _constants(queries: QueryTable, conditions: QueryConditions, positions: Array) -> Iterator[Array]:
    """Yield the constants of conditions, as bits, uint64 (n,) each; 0 where a condition has none."""
    templates = queries.template[positions]
    for t in np.unique(templates[templates >= 0]).tolist():
        mine = np.flatnonzero(templates == t)
        for j in range(len(conditions.templates[t].kinds)):
            bits = np.zeros(len(positions), np.uint64)
            bits[mine] = _bits(conditions.constant(t, j, positions[mine]).values)
            yield bits


def _bits(values: Array) -> Array:
    wide = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
    bits: Array = wide.view(np.uint64)
    return bits


def _repeated(begin: Array, end: Array) -> tuple[Array, Array]:
    """List the numbers of ranges; return the range of each number, and the numbers, both int64 (n,)."""
    lengths = end - begin
    owner = np.repeat(np.arange(len(lengths)), lengths)
    return owner, np.repeat(begin - (np.cumsum(lengths) - lengths), lengths) + np.arange(len(owner))
