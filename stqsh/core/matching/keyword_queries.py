"""Keyword queries, which require terms in a fixed region, and the maintenance of their index.

A value that a column must have is a term too; see `stqsh.core.texts.value_terms`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.static_rects import CandidatePairs
from stqsh.core.state.columns import pick
from stqsh.core.texts.keyword_index import KeywordIndex
from stqsh.core.texts.term_table import EventTerms, TermTable
from stqsh.core.texts.tokenizer import needed_words, tokens
from stqsh.core.texts.value_terms import RequiredValue, ValueColumn, required_values, stored_terms
from stqsh.spec.expression import ColumnExpr, ContainsExpr, Expr, conjunction, conjuncts
from stqsh.spec.query import BoundQuery, SlotQuery
from stqsh.spec.stream import StreamSpec

if TYPE_CHECKING:
    from stqsh.core.contract.query_kind import StreamBatch
    from stqsh.core.queries.query_table import QueryTable
    from stqsh.core.queries.registrations import NewQueries


_FOLDER = "/keywords"

_SAMPLE = 256
"""The approximate number of sampled records from which frequencies of values and places are estimated."""


class KeywordPart(NamedTuple):
    """The terms and values that a condition requires.

    Attributes:
        phrase: The terms of the text.
        every: Whether all of them are required; if not, any of them.
        rest: The rest of the condition, which includes the tests of the values.
        values: The values that columns must have.
    """

    phrase: str
    every: bool
    rest: Expr | None
    values: tuple[RequiredValue, ...] = ()


def keyword_parts(
    specs: Sequence[SlotQuery | BoundQuery], column: str | None, types: Mapping[str, str] | None = None
) -> dict[int, KeywordPart]:
    """Return the keyword parts of queries, by list position; queries without one are no keyword queries.

    Keyword queries have fixed regions. All CONTAINS of the stream's text column that are joined by AND form
    one part; without them, the first CONTAINS ANY is the part. With `types` of columns, columns that must
    equal a constant count too, except with CONTAINS ANY.
    """
    parts = {i: part for i, spec in enumerate(specs) if (part := _keyword_part(spec, column))}
    start, _ = tokens(pa.array([part.phrase for part in parts.values()], pa.string()))
    asks = np.diff(start) > 0
    found = {i: part for (i, part), some in zip(parts.items(), asks.tolist(), strict=True) if some}
    for i, spec in enumerate(specs) if types else ():
        values = required_values(spec.condition, types or {})
        if values and _follows_records(spec):
            phrase, every, rest, _ = found.get(i) or ("", True, spec.condition, ())
            if every:
                found[i] = KeywordPart(phrase, True, rest, values)
    return found


def _follows_records(spec: SlotQuery | BoundQuery) -> bool:
    """Return whether a query has a fixed region and is not refreshed, so that records are matched with it."""
    steps_alone = spec.aggregates is not None and spec.timing.each_step
    return spec.region.focal_key is None and not steps_alone and spec.timing.sync_us is None


def keyword_mode(spec: SlotQuery | BoundQuery, stream: StreamSpec) -> str | None:
    """Return whether a keyword query requires "all" or "any" of its terms; None for another query."""
    part = keyword_parts([spec], text_column(stream)).get(0)
    return None if part is None else "all" if part.every else "any"


def words_needed(spec: SlotQuery | BoundQuery, stream: StreamSpec) -> list[str]:
    """Return words of which a text needs at least one to satisfy a query; empty if it needs none.

    See `needed_words`.
    """
    part = keyword_parts([spec], text_column(stream)).get(0)
    if part is None:
        return []
    _, words = needed_words(pa.array([part.phrase]), np.array([part.every]))
    return [str(word) for word in words.to_pylist()]


def requires_values(spec: SlotQuery | BoundQuery, stream: StreamSpec) -> bool:
    """Return whether a registered query has values that columns must have as terms."""
    types = {name: kind for name, kind in stream.types.items() if name not in stream.roles}
    return 0 in keyword_parts([spec], None, types)


def _keyword_part(spec: SlotQuery | BoundQuery, column: str | None) -> KeywordPart | None:
    if column is None or spec.region.focal_key is not None:
        return None
    parts = conjuncts(spec.condition)
    about = [part for part in parts if isinstance(part, ContainsExpr) and part.operand == ColumnExpr(column)]
    chosen = [part for part in about if part.match == "all"] or about[:1]
    if not chosen:
        return None
    rest = conjunction([part for part in parts if part not in chosen])
    return KeywordPart(" ".join(str(part.phrase) for part in chosen), chosen[0].match == "all", rest)


def text_column(spec: StreamSpec) -> str | None:
    """Return the column that a stream's keyword queries search."""
    return spec.text if spec.searches_text else None


def keywords_of(batch: StreamBatch, prefix: str) -> KeywordIndex | None:
    """Return the index of the keyword queries below a kind's prefix; None if there are none."""
    if f"{prefix}{_FOLDER}/lattice" not in batch.state:
        return None
    return KeywordIndex(batch.state, f"{prefix}{_FOLDER}", TermTable(batch.state, batch.spec.id))


def add_keywords(
    batch: StreamBatch, prefix: str, new: NewQueries, *, with_values: bool = False
) -> dict[int, KeywordPart]:
    """Add the keyword queries among new ones to the index; return the `keyword_parts` of their patterns.

    `with_values`: whether queries that require values of columns count too.
    """
    types = batch.objects.table.columns.further_types if with_values else None
    parts = keyword_parts(new.patterns, text_column(batch.spec), types)
    if parts:
        index = keywords_of(batch, prefix)
        if index is None:
            index = KeywordIndex(batch.state, f"{prefix}{_FOLDER}", TermTable(batch.state, batch.spec.id))
        mine, known = np.flatnonzero(np.isin(new.which, list(parts))), len(index.terms)
        theirs = [parts[which] for which in new.which[mine].tolist()]
        phrases, every = [part.phrase for part in theirs], [part.every for part in theirs]
        index.add(new.ids[mine], phrases, every, [part.values for part in theirs])
        _count_stored(batch, index, known)
    return parts


def exchange_keywords(
    batch: StreamBatch, prefix: str, new: NewQueries, *, with_values: bool = False
) -> dict[int, KeywordPart]:
    """Replace the terms of queries in the index by those of `new`; otherwise like `add_keywords`."""
    index = keywords_of(batch, prefix)
    if index is not None:
        index.remove(new.ids)
    parts = add_keywords(batch, prefix, new, with_values=with_values)
    if index is not None and not len(index):
        release_keywords(batch, prefix)
    return parts


def _count_stored(batch: StreamBatch, index: KeywordIndex, known: int) -> None:
    """Count stored records if none was counted yet, and how many have the terms from `known` on."""
    terms, frequencies, columns = index.terms, index.terms.frequencies, batch.objects.table.columns
    stored = np.flatnonzero(columns.stored.known).astype(np.int32)
    if not len(stored):
        return
    if not frequencies.total:
        frequencies.places.count(columns.stored.x[stored], columns.stored.y[stored], 1, batch.spec.bounds)
        frequencies.count_records(len(stored))
    if index.queries.with_words.any() and not terms.has_texts:
        texts = texts_of(batch, stored)
        terms.learn(texts)
        frequencies.count(terms.spans, texts)
    values = value_columns(index)
    if values and len(terms) > known:
        some = stored[:: max(1, len(stored) // _SAMPLE)]
        codes = terms_of_values(batch, index, values, some)
        frequencies.count_codes(codes, frequencies.total / len(some), known)


def release_keywords(batch: StreamBatch, prefix: str) -> None:
    """Release the index of a kind without keyword queries; with the last index, also release the terms."""
    state, stream = batch.state, f"s{batch.spec.id}/"
    if f"{prefix}{_FOLDER}/lattice" not in state:
        return
    state.release(f"{prefix}{_FOLDER}/")
    if not any(name.endswith(f"{_FOLDER}/lattice") for name in state.names(stream)):
        state.release(f"{stream}terms/")


def follow_keywords(batch: StreamBatch, queries: QueryTable) -> None:
    """Count the terms of a batch's new records for a kind whose queries are not matched with events.

    Terms that only removed queries required are forgotten.
    """
    index = keywords_of(batch, queries.prefix)
    if index is None:
        return
    if not len(queries):
        release_keywords(batch, queries.prefix)
        return
    record_texts(batch, index)
    nowhere = np.full((len(queries), 4), np.nan)  # a refresh looks up only the terms
    index.refresh(queries.id, nowhere, np.zeros(len(queries), np.bool_), batch.spec.bounds)


def record_texts(batch: StreamBatch, index: KeywordIndex) -> None:
    """Count the terms of a batch's new records, once per batch; count values and places in a sample."""
    events, frequencies = batch.objects.events, index.terms.frequencies
    at = np.flatnonzero(events.old != events.new)
    weight = max(1, len(at) // _SAMPLE)
    some = at[::weight]
    index.count(len(at), texts_of(batch, events.new[at]) if index.queries.with_words.any() else None)
    frequencies.places.count(events.nx[some], events.ny[some], weight, batch.spec.bounds)
    codes = terms_of_values(batch, index, value_columns(index), events.new[some])
    frequencies.count_codes(codes, weight)


def record_terms(batch: StreamBatch, index: KeywordIndex, events: Transitions) -> EventTerms:
    """Return the terms before and after events, of the columns by whose terms an index finds queries."""
    both = np.concatenate([events.old, events.new])
    columns = value_columns(index, index.queries.by_terms)
    texts = texts_of(batch, both) if index.queries.with_words.any() else np.full(len(both), -1, np.int32)
    values = terms_of_values(batch, index, columns, both) if columns else None
    return index.terms.of_events(texts[: len(events.old)], texts[len(events.old) :], values)


def keyword_pairs(batch: StreamBatch, index: KeywordIndex, events: Transitions) -> CandidatePairs:
    """Return the pairs of a batch's events and the queries of an index; see `KeywordIndex.join`."""
    return index.join(events, record_terms(batch, index, events))


def texts_of(batch: StreamBatch, versions: Array) -> Array:
    """Return the codes of the texts of versions, int32 (n,); -1 for NULL, no version, and no TEXT."""
    name, objects = text_column(batch.spec), batch.objects
    if name is None:
        return np.full(len(versions), -1, np.int32)
    column = pick(objects.table.columns[name], objects.rows.columns[name], versions)
    return np.where(column.valid, column.values, -1).astype(np.int32)


def value_columns(index: KeywordIndex, queries: Array | slice = slice(None)) -> list[ValueColumn]:
    """Return the columns whose values queries of an index require, all or the chosen ones."""
    bits = int(np.bitwise_or.reduce(index.queries.values[queries], initial=0))
    known = index.terms.value_columns if bits else []
    return [column for number, column in enumerate(known) if bits >> number & 1]


def terms_of_values(
    batch: StreamBatch, index: KeywordIndex, columns: Sequence[ValueColumn], versions: Array
) -> Array:
    """Return the terms of columns' values for versions, int32 (columns, n); -1 if no query requires it."""
    found, there = np.full((len(columns), len(versions)), -1, np.int32), np.flatnonzero(versions >= 0)
    objects, words = batch.objects, index.terms.words
    for of_column, column in zip(found, columns, strict=True):
        stored, rows = objects.table.columns[column.name], objects.rows.columns[column.name]
        values, valid = pick(stored, rows, versions[there])
        terms = words.find(stored_terms(column, values, objects.table.pool))
        of_column[there] = np.where(valid, terms, -1)
    return found
