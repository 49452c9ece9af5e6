"""Keyword queries: those that ask for terms in a fixed region, and the upkeep of their index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.static_rects import CandidatePairs
from stqsh.core.state.columns import pick
from stqsh.core.texts.keyword_index import KeywordIndex
from stqsh.core.texts.needed_words import needed_words
from stqsh.core.texts.term_table import TermTable
from stqsh.core.texts.tokenizer import tokens
from stqsh.spec.expression import ColumnExpr, ContainsExpr, Expr, conjunction, conjuncts
from stqsh.spec.query import BoundQuery, SlotQuery
from stqsh.spec.stream import StreamSpec

if TYPE_CHECKING:
    from stqsh.core.contract.query_kind import StreamBatch
    from stqsh.core.queries.registrations import NewQueries

Array = npt.NDArray[Any]

_FOLDER = "/keywords"


class KeywordPart(NamedTuple):
    """What a condition requires of the text.

    Attributes:
        phrase: The terms.
        every: Whether all of them are required, or any.
        rest: The rest of the condition.
    """

    phrase: str
    every: bool
    rest: Expr | None


def keyword_parts(specs: Sequence[SlotQuery | BoundQuery], column: str | None) -> dict[int, KeywordPart]:
    """Return the CONTAINS part of keyword queries, which have fixed regions, by list position.

    All CONTAINS of the stream's text column joined by AND form one part; otherwise it is the first CONTAINS
    ANY.
    """
    parts = {i: part for i, spec in enumerate(specs) if (part := _keyword_part(spec, column))}
    start, _ = tokens(pa.array([part.phrase for part in parts.values()], pa.string()))
    asks = np.diff(start) > 0
    return {i: part for (i, part), some in zip(parts.items(), asks.tolist(), strict=True) if some}


def keyword_mode(spec: SlotQuery | BoundQuery, stream: StreamSpec) -> str | None:
    """Return whether a keyword query requires "all" or "any" of its terms; None for another query."""
    part = keyword_parts([spec], text_column(stream)).get(0)
    return None if part is None else "all" if part.every else "any"


def words_needed(spec: SlotQuery | BoundQuery, stream: StreamSpec) -> list[str]:
    """Return the words of which a text needs one to satisfy a query, if it needs any: see `needed_words`."""
    part = keyword_parts([spec], text_column(stream)).get(0)
    if part is None:
        return []
    _, words = needed_words(pa.array([part.phrase]), np.array([part.every]))
    return [str(word) for word in words.to_pylist()]


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


def add_keywords(batch: StreamBatch, prefix: str, new: NewQueries) -> dict[int, KeywordPart]:
    """Add the keyword queries among new ones to the index; return the `keyword_parts` of their patterns."""
    parts = keyword_parts(new.patterns, text_column(batch.spec))
    if parts:
        index = keywords_of(batch, prefix)
        if index is None:
            index = _first_keywords(batch, prefix)
        mine = np.flatnonzero(np.isin(new.which, list(parts)))
        theirs = [parts[which] for which in new.which[mine].tolist()]
        index.add(new.ids[mine], [part.phrase for part in theirs], [part.every for part in theirs])
    return parts


def _first_keywords(batch: StreamBatch, prefix: str) -> KeywordIndex:
    """Create the index for a kind's first keyword queries, with the terms of the stored texts counted."""
    terms = TermTable(batch.state, batch.spec.id)
    if not terms.total:
        table = batch.objects.table
        column = table.columns[batch.spec.text or ""]
        texts = np.where(column.valid, column.values, -1).astype(np.int32)
        terms.learn(texts)
        terms.count(texts)
    return KeywordIndex(batch.state, f"{prefix}{_FOLDER}", terms)


def release_keywords(batch: StreamBatch, prefix: str) -> None:
    """Release the index of a kind without keyword queries, and the terms with the last such index."""
    state, stream = batch.state, f"s{batch.spec.id}/"
    if f"{prefix}{_FOLDER}/lattice" not in state:
        return
    state.release(f"{prefix}{_FOLDER}/")
    if not any(name.startswith(stream) and name.endswith(f"{_FOLDER}/lattice") for name in state.buffers):
        state.release(f"{stream}terms/")


def record_texts(batch: StreamBatch, index: KeywordIndex) -> None:
    """Count the terms of a batch's new records, once a batch."""
    events = batch.objects.events
    records = events.new[events.old != events.new]
    index.count(texts_of(batch, records), batch.spec.bounds)


def keyword_pairs(batch: StreamBatch, index: KeywordIndex, events: Transitions) -> CandidatePairs:
    """Return the pairs of a batch's events and the queries of an index; see `KeywordIndex.join`."""
    return index.join(events, texts_of(batch, events.old), texts_of(batch, events.new))


def texts_of(batch: StreamBatch, versions: Array) -> Array:
    """Return the codes of the texts of versions, int32 (n,); -1 for NULL and for no version."""
    name, objects = batch.spec.text or "", batch.objects
    column = pick(objects.table.columns[name], objects.rows.columns[name], versions)
    return np.where(column.valid, column.values, -1).astype(np.int32)
