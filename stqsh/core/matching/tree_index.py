"""CH-trees as the index of fixed regions and conditions (STAR section 5.1), if a session chooses them.

Queries go by their boxes, their words, the values that columns must have, and the intervals that numbers must
be in. Values are terms of the stream's vocabulary, as in the trees of terms; intervals follow from the
templates of conditions. The rest of a condition is tested afterwards. So are values and intervals, because
different values may share a term, and numbers are rounded here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.indexes.ch_trees import ChTreeIndex, IndexedRecords, SoughtPredicates, digests
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.events.versions import gather
from stqsh.core.kernels.index.static_rects import CandidatePairs
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.text.term_sets import TermSpans
from stqsh.core.matching.keyword_queries import (
    keywords_of,
    record_terms,
    terms_of_values,
    texts_of,
    value_columns,
)
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.state.columns import pick
from stqsh.core.state.index_choice import chosen_indexes
from stqsh.core.texts.access_path import clear_without_words
from stqsh.core.texts.keyword_index import KeywordIndex
from stqsh.core.texts.query_terms import offsets
from stqsh.core.texts.value_terms import ValueColumn, stored_terms

_FOLDER, _COLUMNS = "chtree", "index_columns"
_MOST_VALUES, _MOST_NUMBERS = 8, 4
"""The most columns whose values, and whose intervals, are predicates of trees."""

_SAMPLE = 512
_NUMBERS = {"INT", "BIGINT", "FLOAT", "DOUBLE", "TIMESTAMP"}
_NO_TEXTS = TermSpans(*np.zeros((3, 0), np.int32))


class _Columns(NamedTuple):
    """The columns whose values and whose intervals are predicates, in the order of their numbers."""

    values: list[ValueColumn]
    numbers: list[str]


class TreeIndex:
    """The CH-trees of a kind's static queries, for `stqsh.core.matching.static_index`.

    Arrays below `{prefix}/chtree`; the header's entry "index_columns" lists the columns whose values and
    intervals are predicates. Trees are only there while the session chooses them.
    """

    def __init__(self, batch: StreamBatch, prefix: str) -> None:
        self._batch, self._prefix = batch, prefix
        self._trees = ChTreeIndex(batch.state, f"{prefix}/{_FOLDER}")

    @property
    def is_chosen(self) -> bool:
        """Whether the next `fill` is to make trees."""
        return chosen_indexes(self._batch.state).queries == "chtree"

    @property
    def is_built(self) -> bool:
        """Whether the last `fill` has made trees."""
        return self._trees.is_built

    @property
    def is_due(self) -> bool:
        """Whether `fill` would make trees, make them better, or release them."""
        return self.is_built != self.is_chosen or (self.is_built and self._trees.is_due)

    def release(self) -> None:
        """Release the trees."""
        if self.is_built:
            self._trees.release()
            self._batch.state.entry(_COLUMNS).pop(self._prefix, None)

    def fill(self, context: QueryContext, boxes: Array, checked: Array) -> None:
        """Update the trees to the queries.

        Args:
            context: The context of the batch.
            boxes: The box of each query, NaN for one that is not indexed; float64 (queries, 4).
            checked: Whether pairs that stay are wanted, too; bool (queries,).
        """
        keywords = keywords_of(self._batch, self._prefix)
        before, columns = self._columns, self._used_columns(context, keywords)
        if before != columns:
            self.release()
            self._batch.state.entry(_COLUMNS)[self._prefix] = [[*map(list, columns.values)], columns.numbers]
        sought = self._sought(context, keywords, boxes, checked)
        sample, spans = self._sample(keywords)  # adds the terms of the sample
        none = np.empty(0, np.int64)
        seen = none if keywords is None else keywords.terms.frequencies.seen
        self._trees.fill(sought, sample, spans, seen, self._batch.spec.bounds)

    def join(self, events: Transitions) -> CandidatePairs:
        """Join events, see `stqsh.core.matching.match.RegionIndex`."""
        keywords, count = keywords_of(self._batch, self._prefix), len(events.step)
        self._trees.count(count)
        versions, texts, spans = np.concatenate([events.old, events.new]), None, _NO_TEXTS
        if keywords is not None and keywords.queries.with_words.any():
            said = record_terms(self._batch, keywords, events)
            texts, spans = np.concatenate([said.old, said.new]), said.spans
        x, y = np.concatenate([events.ox, events.nx]), np.concatenate([events.oy, events.ny])
        records = self._records(keywords, versions, x, y, texts)
        old, new = (IndexedRecords(*(one[part] for one in records)) for part in _halves(count))
        pairs = self._trees.join(old, new, spans)
        if keywords is not None and texts is not None:
            clear_without_words(keywords, pairs, said)
        return pairs

    @property
    def _columns(self) -> _Columns:
        values, numbers = self._batch.state.entry(_COLUMNS).get(self._prefix, ([], []))
        return _Columns([ValueColumn(*column) for column in values], list(numbers))

    def _used_columns(self, context: QueryContext, keywords: KeywordIndex | None) -> _Columns:
        """Return the columns of predicates: those in use before that still are, and then others."""
        types = self._batch.objects.table.columns.further_types
        used = np.unique(context.queries.template)
        bounds = [bound for t in used[used >= 0] for bound in context.conditions.templates[t].intervals]
        asked = dict.fromkeys(bound.column for bound in bounds if types.get(bound.column) in _NUMBERS)
        required = value_columns(keywords) if keywords is not None else []
        before = self._columns
        values = [one for one in before.values if one in required]
        numbers = [one for one in before.numbers if one in asked]
        values += [one for one in required if one not in values]
        numbers += [one for one in asked if one not in numbers]
        return _Columns(values[:_MOST_VALUES], numbers[:_MOST_NUMBERS])

    def _sought(
        self, context: QueryContext, keywords: KeywordIndex | None, boxes: Array, checked: Array
    ) -> SoughtPredicates:
        """Return the predicates of all queries."""
        queries, count = context.queries, len(context.queries)
        values, bounds = self._required_values(context, keywords), self._bounds(context)
        words, owner, every = np.empty(0, np.int32), np.empty(0, np.int64), np.ones(count, np.bool_)
        digest = digests(count)
        if keywords is not None:
            asked, position = keywords.asked, keywords.queries.position
            every[position] = asked.every
            owner, words = np.repeat(position, np.diff(asked.start)).astype(np.int64), asked.terms
            said = np.repeat(keywords.queries.with_words, np.diff(asked.start))
            said &= ~(words[:, None] == values[owner]).any(axis=1)
            order = np.argsort(owner[said], kind="stable")
            owner, words = owner[said][order], words[said][order]
            at, c = np.nonzero(values >= 0)
            hashes = keywords.terms.words.hashes_of
            digest = digests(count, (owner, hashes(words)), (at, hashes(values[at, c])))
        start = offsets(np.bincount(owner, minlength=count))
        return SoughtPredicates(queries.id, boxes, start, words, every, values, bounds, checked, digest)

    def _required_values(self, context: QueryContext, keywords: KeywordIndex | None) -> Array:
        """Return the terms of the values that queries require, int32 (queries, value columns)."""
        columns, conditions, template = self._columns.values, context.conditions, context.queries.template
        found = np.full((len(template), len(columns)), -1, np.int32)
        if keywords is None or not columns:
            return found
        pool = self._batch.objects.table.pool
        numbers = {column: c for c, column in enumerate(columns)}
        for t, one in enumerate(conditions.templates):
            mine = np.flatnonzero(template == t)
            for name, j in one.equalities.items() if len(mine) else ():
                for kind in ("STRING", "BIGINT", "DOUBLE"):
                    column = ValueColumn(name, kind)
                    is_text = one.kinds[j] == "STRING"
                    if column in numbers and is_text == (kind == "STRING"):
                        constants = conditions.constant(t, j, mine).values
                        if kind == "BIGINT" and one.kinds[j] != "BIGINT":
                            continue
                        terms = keywords.terms.words.find(stored_terms(column, constants, pool))
                        found[mine, numbers[column]] = terms
        return found

    def _bounds(self, context: QueryContext) -> Array:
        """Return the least and the greatest number of each query, float64 (queries, number columns, 2)."""
        columns, conditions, template = self._columns.numbers, context.conditions, context.queries.template
        bounds = np.empty((len(template), len(columns), 2))
        bounds[:] = -np.inf, np.inf
        for t, one in enumerate(conditions.templates):
            mine = np.flatnonzero(template == t)
            for name, j, is_least in one.intervals if len(mine) else ():
                if name in columns and one.kinds[j] != "STRING":
                    side = bounds[:, columns.index(name), 0 if is_least else 1]
                    constants = conditions.constant(t, j, mine).values.astype(np.float64)
                    side[mine] = (np.maximum if is_least else np.minimum)(side[mine], constants)
        return bounds

    def _records(
        self, keywords: KeywordIndex | None, versions: Array, x: Array, y: Array, texts: Array | None
    ) -> IndexedRecords:
        """Return versions at places; `texts` are rows of their terms, None if no terms are needed."""
        objects, columns = self._batch.objects, self._columns
        numbers = np.full((len(versions), len(columns.numbers)), np.nan)
        for k, name in enumerate(columns.numbers):
            found = pick(objects.table.columns[name], objects.rows.columns[name], versions)
            numbers[found.valid, k] = found.values[found.valid]
        values = np.full((len(versions), len(columns.values)), -1, np.int32)
        if keywords is not None and columns.values:
            values[:] = terms_of_values(self._batch, keywords, columns.values, versions).T
        text = np.full(len(versions), -1, np.int32) if texts is None else texts.astype(np.int32)
        return IndexedRecords(x, y, text, values, numbers)

    def _sample(self, keywords: KeywordIndex | None) -> tuple[IndexedRecords, TermSpans]:
        """Return some records, stored ones and new ones, by which costs are estimated."""
        objects = self._batch.objects
        known, new = np.flatnonzero(objects.stored.known), objects.events.new[objects.events.new >= 0]
        some = np.concatenate([one[:: max(1, len(one) // _SAMPLE)][:_SAMPLE] for one in (known, new)])
        rows, stored = objects.sources
        x, y = (
            gather(frozen(old), frozen(late), some.astype(np.int64))
            for old, late in ((stored.x, rows.x), (stored.y, rows.y))
        )
        some = some.astype(np.int32)
        if keywords is None or not keywords.queries.with_words.any():
            return self._records(keywords, some, x, y, None), _NO_TEXTS
        texts = texts_of(self._batch, some)
        keywords.terms.learn(texts)
        return self._records(keywords, some, x, y, texts), keywords.terms.spans


def _halves(count: int) -> tuple[slice, slice]:
    return slice(count), slice(count, 2 * count)
