"""The access path of keyword queries: the trees of their terms, or a grid of their boxes."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.index.static_rects import CandidatePairs
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.join.keyword_join import clear_without_terms
from stqsh.core.texts.keyword_index import KeywordIndex
from stqsh.core.texts.term_table import EventTerms

_PAIRS, _MOST = 24, 0.75
"""A grid is used if a record is in at most _PAIRS boxes of the queries that it suits, and if these are at
least the share _MOST of all queries: using both paths costs more than using one. Testing a box is cheaper
than walking down a tree, but trees are also divided by place, so a record meets fewer of many large boxes."""


def choose_grid(index: KeywordIndex, ids: Array, boxes: Array) -> Array:
    """Return which queries a grid of boxes suits better; call it before the index is refreshed.

    The grid suits a query if no more records are in its box than have its rarest term. The grid is
    used only if it suits most queries. Queries in the trees stay there until terms are compared again.

    Args:
        index: The keyword index.
        ids: All queries of the kind, ascending, with or without keywords; int64 (q,).
        boxes: The box of each, NaN for none; float64 (q, 4).

    Returns:
        bool (q,).
    """
    chosen, own, frequencies = np.zeros(len(ids), np.bool_), index.queries.id, index.terms.frequencies
    if not (frequencies.total and len(ids) and len(own)):
        return chosen
    at = np.minimum(np.searchsorted(ids, own), len(ids) - 1)
    placed = (ids[at] == own) & ~np.isnan(boxes[at, 0])
    common = records_with_terms(index)
    inside = frequencies.places.expected(boxes[at])
    order = np.argsort(inside, kind="stable")
    few = np.zeros(len(own), np.bool_)
    few[order] = np.cumsum(inside[order]) <= _PAIRS * frequencies.total
    suits = placed & few & (inside <= common)
    if suits.sum() >= _MOST * placed.sum():
        chosen[at[suits & (~index.queries.in_trees | index.is_due)]] = True
    return chosen


def records_with_terms(index: KeywordIndex) -> Array:
    """Return how many records have the rarest term of each query, or any if any is enough; int64 (n,)."""
    seen, start = index.terms.frequencies.seen[index.asked.terms], index.asked.start[:-1]
    found: Array = np.where(index.asked.every, np.minimum.reduceat(seen, start), np.add.reduceat(seen, start))
    return found


def clear_without_words(index: KeywordIndex, pairs: CandidatePairs, said: EventTerms) -> None:
    """Clear WAS and IS of the grid's pairs, by position, where a text lacks the words of the query."""
    rows = np.flatnonzero(index.queries.with_words & ~index.queries.in_trees)
    if not (len(rows) and len(pairs.query)):
        return
    positions = index.queries.position[rows]
    row = np.full(1 + max(positions.max(), pairs.query.max()), -1, np.int32)
    row[positions] = rows
    clear_without_terms(pairs, (frozen(said.old), frozen(said.new)), said.spans, index.asked, row)
