"""The forms of aggregate queries: each distinct combination of groups and timing once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from stqsh.arrays import Array
from stqsh.core.groups.marks import MarkWriter
from stqsh.core.queries.query_table import ACTIVE, QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.query import GroupForm

_KEPT = 1 << 14
"""The number of decoded forms that a process caches."""


class FormedQueries(QueryTable):
    """Queries that aggregate their members."""

    form = ArraySpec(np.int32)  # its form, a position in the header's list


class QueryForms:
    """The forms of a kind's queries; the header's entry "forms" lists them as JSON."""

    def __init__(self, state: SlotState, prefix: str, queries: FormedQueries) -> None:
        self._queries = queries
        self._texts: list[str] = state.entry("forms").setdefault(prefix, [])

    def add(
        self,
        positions: Array,
        new: NewQueries,
        marks: MarkWriter,
        step: int,
        specs: list[AggregateSpec] | None = None,
    ) -> None:
        """Store the forms of new queries; announce to Aggregate those that are new, not only to the slot.

        Args:
            positions: The positions of the queries in their table.
            new: The queries.
            marks: The marks to Aggregate.
            step: The step.
            specs: The spec of each pattern, if it differs from the pattern's own.
        """
        specs = specs or [pattern.aggregates or AggregateSpec() for pattern in new.patterns]
        pairs = zip(specs, new.patterns, strict=True)
        texts = [GroupForm(spec, pattern.timing.looks).text for spec, pattern in pairs]
        used = dict.fromkeys(texts[which] for which in np.unique(new.which).tolist())
        self._texts += [text for text in used if text not in self._texts]
        number = {text: i for i, text in enumerate(self._texts)}
        forms = new.spread([number.get(text, -1) for text in texts], np.int32)
        self._queries.form[positions] = forms
        ids, are_new = self._queries.id[positions], new.are_new
        marks.register(ids[are_new], step, self._texts, forms[are_new])

    def durations(self, of: Callable[[GroupForm], int | None]) -> Array:
        """Return a duration from the form of each query, int64 µs; -1 for none."""
        each = [-1 if (us := of(form)) is None else us for form in map(GroupForm.read, self._texts)]
        durations: Array = np.array([*each, -1], np.int64)[self._queries.form]
        return durations

    def time_dependent(self, among: Array) -> Array:
        """Return the active ones among queries, bool (queries,), whose rows change as time passes."""
        heeds = self.durations(_heeds_time) > 0
        return np.flatnonzero(heeds & among & (self._queries.mode == ACTIVE))

    def all(self) -> Iterator[AggregateSpec]:
        """Yield the groups of all queries, once for each form."""
        used = np.flatnonzero(np.bincount(self._queries.form, minlength=1)).tolist()
        return (self._spec(number) for number in used)

    def among(self, queries: Array) -> Iterator[tuple[AggregateSpec, Array | slice]]:
        """Group queries, given by position, by spec; yield each spec and its queries."""
        form = self._queries.form[queries]
        present = np.flatnonzero(np.bincount(form, minlength=1))
        for number in present.tolist():
            yield self._spec(number), slice(None) if len(present) == 1 else form == number

    def _spec(self, number: int) -> AggregateSpec:
        return GroupForm.read(self._texts[number]).groups


@lru_cache(_KEPT)
def _heeds_time(form: GroupForm) -> int | None:
    return 1 if form.groups.heeds_time else None
