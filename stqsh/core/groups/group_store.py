"""The state of aggregate queries at Aggregate: their forms and the states of their groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.aggregates.limbs import normalised
from stqsh.core.groups.marks import GroupMarks
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.string_dictionary import pool_of
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.query import GroupForm


class _StoredQueries(StateTable):
    """Queries, by id."""

    id = ArraySpec(np.int64)
    form = ArraySpec(np.int32)  # its form, a position in the header's list
    begun = ArraySpec(np.bool_)  # whether its answer has begun
    seen = ArraySpec(np.int64)  # NOW of the shown rows, µs, if rows change as time passes


class _StoredTotals(StateTable):
    """Groups with members, by query and key; further columns are those of `States.totals`."""

    query = ArraySpec(np.int64)
    key = ArraySpec(np.int32, "strings")
    n = ArraySpec(np.int64)


class _StoredValues(StateTable):
    """The number of occurrences of each value, for measures that depend on single values."""

    query = ArraySpec(np.int64)
    key = ArraySpec(np.int32, "strings")
    measure = ArraySpec(np.int16)
    value = ArraySpec(np.int32, "strings")
    count = ArraySpec(np.int64)


class GroupTotals:
    """Rows of groups, (n,): the query's id, the number of the key, and the totals by name, int64 each."""

    def __init__(self, query: Array, key: Array, totals: dict[str, Array]) -> None:
        self.query, self.key, self.totals = query, key, totals

    def where(self, chosen: Array) -> GroupTotals:
        """Return some of the rows, by a mask or by positions; a mask of all rows copies nothing."""
        if chosen.dtype == np.bool_ and chosen.all():
            return self
        totals = {name: column[chosen] for name, column in self.totals.items()}
        return GroupTotals(self.query[chosen], self.key[chosen], totals)


class GroupValues:
    """Occurrences, (n,): how often a value, as a number, occurs in a group for a measure."""

    def __init__(self, query: Array, key: Array, measure: Array, value: Array, count: Array) -> None:
        self.query, self.key, self.measure, self.value, self.count = query, key, measure, value, count

    def where(self, chosen: Array) -> GroupValues:
        """Return some of the rows."""
        columns = (self.query, self.key, self.measure, self.value, self.count)
        return GroupValues(*(column[chosen] for column in columns))


class KeyNumbers:
    """The keys and values of groups as numbers in a stream's dictionary of strings."""

    def __init__(self, pool: Interner) -> None:
        self._pool = pool

    def __len__(self) -> int:
        """Return the size of the dictionary."""
        return len(self._pool)

    @property
    def empty_key(self) -> int:
        """The number of the empty key, that of the only row of a query without GROUP BY."""
        return int(self.numbers(pa.array([b""], pa.binary()))[0])

    def numbers(self, texts: Any) -> Array:
        """Return the numbers of keys or values, given as bytes, plain or dictionary-encoded; int32 (n,)."""
        numbers = [np.empty(0, np.int32)]
        for chunk in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
            coded: Any = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
            known = self._pool.intern(coded.dictionary.view(pa.string()))
            numbers.append(known[coded.indices.to_numpy()])
        return np.concatenate(numbers)

    def texts(self, numbers: Array) -> pa.BinaryArray:
        """Return the bytes of keys or values."""
        chosen: Any = pa.array(numbers)
        texts: Any = self._pool.strings().take(chosen)
        found: pa.BinaryArray = texts.view(pa.binary())
        return found


class GroupStore:
    """The queries and groups of one kind over a stream on a slot of Aggregate.

    Keys of groups and values are bytes in the stream's dictionary of strings. The header's entry "forms"
    lists the specs of queries as JSON, and its entry "sums" the names of the totals.
    """

    def __init__(self, state: SlotState, stream: int, prefix: str) -> None:
        self._state, self._prefix = state, prefix
        self.keys = KeyNumbers(pool_of(state, stream))
        self.queries = _StoredQueries(state, f"{prefix}/queries")
        self._forms: list[str] = state.entry("forms").setdefault(prefix, [])
        self._sums: list[str] = state.entry("sums").setdefault(prefix, [])

    def register(self, new: GroupMarks, specs: list[str]) -> None:
        """Add new queries, whose ids are greater than all others and ascend."""
        texts = [specs[place] for place in dict.fromkeys(new.spec.tolist())]
        self._forms += [text for text in dict.fromkeys(texts) if text not in self._forms]
        number = {text: i for i, text in enumerate(self._forms)}
        form = np.array([number.get(text, -1) for text in specs], np.int32)
        fresh = ~np.isin(new.query, self.queries.id)
        self.queries.append(id=new.query[fresh], form=form[new.spec[fresh]])

    def spec(self, form: int) -> AggregateSpec:
        """Return the groups of a form."""
        return GroupForm.read(self._forms[form]).groups

    def sync_us(self, form: int) -> int:
        """Return the SYNC of a form, µs; -1 for none."""
        return GroupForm.read(self._forms[form]).timing.sync_us or -1

    def those(self, test: Callable[[AggregateSpec], bool]) -> Array:
        """Return the ids of the queries whose specs pass a test, ascending."""
        found: Array = self.queries.id[self._pass(self.queries.form, test)]
        return found

    def which(self, ids: Array, test: Callable[[AggregateSpec], bool]) -> Array:
        """Return which queries, given by id, have specs that pass a test; bool (n,)."""
        return self._pass(self.queries.form[self.positions(ids)], test)

    def positions(self, ids: Array) -> Array:
        """Return the positions of stored queries, given by id."""
        return (
            np.arange(len(ids))
            if np.array_equal(ids, self.queries.id)
            else np.searchsorted(self.queries.id, ids)
        )

    def _pass(self, forms: Array, test: Callable[[AggregateSpec], bool]) -> Array:
        """Return which forms have specs that pass a test, bool (n,)."""
        passes = np.zeros(int(forms.max(initial=-1)) + 1, np.bool_)
        for form in np.flatnonzero(np.bincount(forms)).tolist():
            passes[form] = test(self.spec(form))
        return passes[forms]

    def have_one_row(self, ids: Array) -> Array:
        """Return which queries, given by id, always have exactly one row (no GROUP BY); bool (n,)."""
        return self.which(ids, lambda spec: not spec.groups)

    def totals(self) -> GroupTotals:
        """Return the stored groups, by query and key."""
        table = self._totals([])
        names = ["n", *self._sums]
        columns = {name: table.array(name).copy() for name in names}
        return GroupTotals(table.query.copy(), table.key.copy(), columns)

    def values(self) -> GroupValues:
        """Return the stored occurrences."""
        table = _StoredValues(self._state, f"{self._prefix}/values")
        columns = (table.query, table.key, table.measure, table.value, table.count)
        return GroupValues(*(column.copy() for column in columns))

    def keep(self, totals: list[GroupTotals], values: list[GroupValues], gone: Array) -> None:
        """Store all groups and occurrences after a batch, and forget the queries with the ids in `gone`."""
        self.queries.keep(~np.isin(self.queries.id, gone))
        if not len(self.queries):
            self._state.release(f"{self._prefix}/")
            self._forms.clear()
            self._sums.clear()
            return
        names = dict.fromkeys(["n", *self._sums, *(name for some in totals for name in some.totals)])
        parts = [some for some in totals if len(some.query)] or totals[:1]
        query, key = _joined([some.query for some in parts]), _joined([some.key for some in parts])
        columns = {"query": query, "key": key}
        for name in names:
            columns[name] = _joined(
                [some.totals.get(name, np.zeros(len(some.query), np.int64)) for some in parts]
            )
        if not _in_order(query, key):
            order = np.lexsort((key, query))
            columns = {name: column[order] for name, column in columns.items()}
        columns = normalised(columns)
        # Normalising adds columns for limbs between sums of different sizes, such as 1 and 1e300.
        known = ["query", "key", "n", *self._sums]
        self._totals([name for name in columns if name not in known]).store(**columns)
        fields = ["query", "key", "measure", "value", "count"]
        columns = {name: np.concatenate([getattr(some, name) for some in values]) for name in fields}
        _StoredValues(self._state, f"{self._prefix}/values").store(**columns)

    def _totals(self, more: list[str]) -> _StoredTotals:
        """Open the table of totals, and add columns to it."""
        self._sums += more
        specs = {name: ArraySpec(np.int64) for name in self._sums}
        return _StoredTotals(self._state, f"{self._prefix}/totals", specs)


def _joined(parts: list[Array]) -> Array:
    """Concatenate arrays; a single array is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _in_order(query: Array, key: Array) -> bool:
    """Return whether groups are in the order of queries, then keys."""
    before, after = query[:-1], query[1:]
    ordered = (before < after) | ((before == after) & (key[:-1] < key[1:]))
    return bool(ordered.all())
