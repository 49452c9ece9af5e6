"""CH-trees as the index of fixed regions and conditions (STAR section 5.1).

A session chooses them for all queries (`chtree`), for none (`forest`), or for those that they suit (`auto`,
see `stqsh.core.matching.tree_choice`).

Queries go by their boxes, their words, the values that columns must have, and the intervals that numbers must
be in. Values are terms of the stream's vocabulary, as in the trees of terms; intervals follow from the
templates of conditions. The rest of a condition is tested afterwards. So are values and intervals, because
different values may share a term, and numbers are rounded here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
    terms_of_values,
    texts_of,
    value_columns,
)
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.matching.tree_choice import (
    RecordLooks,
    SampledRecords,
    may_pay_off,
    shares_of_terms,
    suited_queries,
)
from stqsh.core.state.columns import pick
from stqsh.core.state.index_choice import chosen_indexes
from stqsh.core.texts.access_path import clear_without_words
from stqsh.core.texts.keyword_index import KeywordIndex
from stqsh.core.texts.query_terms import offsets
from stqsh.core.texts.term_table import EventTerms
from stqsh.core.texts.value_terms import ValueColumn, stored_terms

_FOLDER, _COLUMNS, _MADE = "chtree", "index_columns", "index_made"
_MOST_VALUES, _MOST_NUMBERS = 8, 4
"""The most columns whose values, and whose intervals, are predicates of trees."""

_SAMPLE = 512
NUMBERS = frozenset({"INT", "BIGINT", "FLOAT", "DOUBLE", "TIMESTAMP"})
"""The types of columns whose intervals are predicates."""

_NO_TEXTS = TermSpans(*np.zeros((3, 0), np.int32))


class _Columns(NamedTuple):
    """The columns whose values and whose intervals are predicates, in the order of their numbers."""

    values: list[ValueColumn]
    numbers: list[str]


class TreeIndex:
    """The CH-trees of a kind's static queries, for `stqsh.core.matching.static_index`.

    Arrays below `{prefix}/chtree`; the header's entry "index_columns" lists the columns whose values and
    intervals are predicates, and "index_made" the choice that the last `fill` followed, and the limit of its
    trees; it has no choice if that was `auto` and no query is in a tree.
    """

    def __init__(self, batch: StreamBatch, prefix: str) -> None:
        self._batch, self._prefix, self._choice = batch, prefix, chosen_indexes(batch.state)
        self._trees = ChTreeIndex(batch.state, f"{prefix}/{_FOLDER}", self._choice.tree_queries)
        self._looks = RecordLooks(batch.state, prefix)

    @property
    def is_built(self) -> bool:
        """Whether the last `fill` has made trees."""
        return self._trees.is_built

    @property
    def is_due(self) -> bool:
        """Whether `fill` would make trees, make them better, or release them."""
        made, choice = self._made, self._choice
        if made[0] != choice.queries or (self.is_built and made[1] != choice.tree_queries):
            return True
        if self._looks.exist and self._looks.is_due(len(self._batch.objects.events.step)):
            return True
        return self.is_built and self._trees.is_due

    def choose(self, context: QueryContext, keywords: KeywordIndex | None, boxes: Array) -> Array | None:
        """Return which queries the trees are to have, bool (queries,), None for none; call `fill` with them.

        Call it before the keyword index is refreshed. `boxes` are the box of each query, NaN for one that is
        not indexed, float64 (queries, 4).
        """
        choice, made = self._choice, self._made
        if choice.queries == "auto":
            chosen = self._suited(context, keywords, boxes)
        else:
            self._looks.release()
            chosen = np.ones(len(boxes), np.bool_) if choice.queries == "chtree" else None
        if self.is_built and (chosen is None or made[1] != choice.tree_queries):
            self._trees.release()
            self._batch.state.entry(_COLUMNS).pop(self._prefix, None)
        if chosen is not None or choice.queries != "auto":
            self._batch.state.entry(_MADE)[self._prefix] = [choice.queries, choice.tree_queries]
        elif _MADE in self._batch.state.header:
            self._batch.state.entry(_MADE).pop(self._prefix, None)
        return chosen

    def _suited(self, context: QueryContext, keywords: KeywordIndex | None, boxes: Array) -> Array | None:
        """Return which queries suit trees better than other indexes, bool (queries,), None for none."""
        columns = self._asked_numbers(context)[:_MOST_NUMBERS]
        bounds = self._bounds(context, columns)
        if not (columns and may_pay_off(bounds)):
            self._looks.release()
            return None
        ids = context.queries.id
        held = np.zeros(len(ids), np.bool_)
        if self.is_built and self._made[0] == "auto" and not self._is_look_due:
            held = np.isin(ids, self._trees.held)
        some, x, y = self._sample()
        records = SampledRecords(x, y, self._numbers(some, columns))
        shares = shares_of_terms(keywords, ids)
        found = suited_queries(boxes, bounds, shares, records, self._batch.spec.bounds, held)
        if not held.any() or not self._looks.exist or self._is_look_due:
            is_counted = keywords is None or keywords.terms.frequencies.total
            self._looks.note(len(some) if is_counted else 0)
        return found if found.any() else None

    @property
    def _is_look_due(self) -> bool:
        return self._looks.exist and self._looks.is_due(len(self._batch.objects.events.step))

    @property
    def _made(self) -> list[Any]:
        """The choice that the last `fill` followed, and the limit of its trees."""
        usual = ["older", 0] if self.is_built else ["auto", 0]
        found: list[Any] = self._batch.state.header.get(_MADE, {}).get(self._prefix, usual)
        return found

    def fill(self, context: QueryContext, boxes: Array, checked: Array) -> None:
        """Update the trees to the queries.

        Args:
            context: The context of the batch.
            boxes: The box of each query, NaN for one that the trees do not have; float64 (queries, 4).
            checked: Whether pairs that stay are wanted, too; bool (queries,).
        """
        keywords = keywords_of(self._batch, self._prefix)
        before, columns = self._columns, self._used_columns(context, keywords)
        if before != columns:
            self._trees.release()
            self._batch.state.entry(_COLUMNS)[self._prefix] = [[*map(list, columns.values)], columns.numbers]
        sought = self._sought(context, keywords, boxes, checked)
        sample, spans = self._sampled(keywords)  # adds the terms of the sample
        none = np.empty(0, np.int64)
        seen = none if keywords is None else keywords.terms.frequencies.seen
        self._trees.fill(sought, sample, spans, seen, self._batch.spec.bounds)

    def count(self, records: int) -> None:
        """Count records that came, so that the choice of queries and the order of levels follow them."""
        self._looks.count(records)
        if self.is_built:
            self._trees.count(records)

    def join(self, events: Transitions, said: EventTerms | None) -> CandidatePairs:
        """Join events, see `stqsh.core.matching.match.RegionIndex`; `said` are their terms if any are used.

        WAS and IS include the test of the words that queries require.
        """
        keywords, count = keywords_of(self._batch, self._prefix), len(events.step)
        versions, texts, spans = np.concatenate([events.old, events.new]), None, _NO_TEXTS
        if said is not None:
            texts, spans = np.concatenate([said.old, said.new]), said.spans
        x, y = np.concatenate([events.ox, events.nx]), np.concatenate([events.oy, events.ny])
        records = self._records(keywords, versions, x, y, texts)
        old, new = (IndexedRecords(*(one[part] for one in records)) for part in _halves(count))
        pairs = self._trees.join(old, new, spans)
        if keywords is not None and said is not None:
            clear_without_words(keywords, pairs, said)
        return pairs

    @property
    def _columns(self) -> _Columns:
        values, numbers = self._batch.state.entry(_COLUMNS).get(self._prefix, ([], []))
        return _Columns([ValueColumn(*column) for column in values], list(numbers))

    def _used_columns(self, context: QueryContext, keywords: KeywordIndex | None) -> _Columns:
        """Return the columns of predicates: those in use before that still are, and then others."""
        asked = self._asked_numbers(context)
        required = value_columns(keywords) if keywords is not None else []
        before = self._columns
        values = [one for one in before.values if one in required]
        numbers = [one for one in before.numbers if one in asked]
        values += [one for one in required if one not in values]
        numbers += [one for one in asked if one not in numbers]
        return _Columns(values[:_MOST_VALUES], numbers[:_MOST_NUMBERS])

    def _asked_numbers(self, context: QueryContext) -> list[str]:
        """Return the columns of numbers that queries ask for intervals of."""
        templates = context.conditions.templates
        if not any(one.intervals for one in templates):
            return []
        types, used = self._batch.objects.table.columns.further_types, np.zeros(len(templates) + 1, np.bool_)
        used[context.queries.template] = True
        some = [one for one, is_used in zip(templates, used.tolist(), strict=False) if is_used]
        names = [bound.column for one in some for bound in one.intervals]
        return [name for name in dict.fromkeys(names) if types.get(name) in NUMBERS]

    def _sought(
        self, context: QueryContext, keywords: KeywordIndex | None, boxes: Array, checked: Array
    ) -> SoughtPredicates:
        """Return the predicates of all queries."""
        queries, count = context.queries, len(context.queries)
        values = self._required_values(context, keywords)
        bounds = self._bounds(context, self._columns.numbers)
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

    def _bounds(self, context: QueryContext, columns: list[str]) -> Array:
        """Return the least and the greatest number of each query, float64 (queries, columns, 2)."""
        conditions, template = context.conditions, context.queries.template
        bounds = np.empty((len(template), len(columns), 2))
        bounds[:] = -np.inf, np.inf
        for t, one in enumerate(conditions.templates if columns else ()):
            mine = np.flatnonzero(template == t) if one.intervals else template[:0]
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
        columns = self._columns
        values = np.full((len(versions), len(columns.values)), -1, np.int32)
        if keywords is not None and columns.values:
            values[:] = terms_of_values(self._batch, keywords, columns.values, versions).T
        text = np.full(len(versions), -1, np.int32) if texts is None else texts.astype(np.int32)
        return IndexedRecords(x, y, text, values, self._numbers(versions, columns.numbers))

    def _numbers(self, versions: Array, columns: list[str]) -> Array:
        """Return the numbers of versions in columns, float64 (n, columns), NaN for none."""
        objects, numbers = self._batch.objects, np.full((len(versions), len(columns)), np.nan)
        for k, name in enumerate(columns):
            found = pick(objects.table.columns[name], objects.rows.columns[name], versions)
            numbers[found.valid, k] = found.values[found.valid]
        return numbers

    def _sample(self) -> tuple[Array, Array, Array]:
        """Return some records, stored ones and new ones, int32 (n,), and their places x and y."""
        objects = self._batch.objects
        known, new = np.flatnonzero(objects.stored.known), objects.events.new[objects.events.new >= 0]
        some = np.concatenate([one[:: max(1, len(one) // _SAMPLE)][:_SAMPLE] for one in (known, new)])
        rows, stored = objects.sources
        x, y = (
            gather(frozen(old), frozen(late), some.astype(np.int64))
            for old, late in ((stored.x, rows.x), (stored.y, rows.y))
        )
        return some.astype(np.int32), x, y

    def _sampled(self, keywords: KeywordIndex | None) -> tuple[IndexedRecords, TermSpans]:
        """Return some records with their terms, by which costs are estimated."""
        some, x, y = self._sample()
        if keywords is None or not keywords.queries.with_words.any():
            return self._records(keywords, some, x, y, None), _NO_TEXTS
        texts = texts_of(self._batch, some)
        keywords.terms.learn(texts)
        return self._records(keywords, some, x, y, texts), keywords.terms.spans


def _halves(count: int) -> tuple[slice, slice]:
    return slice(count), slice(count, 2 * count)
