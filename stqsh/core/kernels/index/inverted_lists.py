"""Inverted lists: objects by the terms of their texts, to find neighbours of a place with given terms.

SSTD section 6.1 keeps an inverted list of a partition's objects for this purpose. Here lists are built when
queries need them, and only for terms that some query asks for; building them costs one access per term of
each text. A search tests the places of the shortest list if all terms are required, and of all lists
otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.kernels.geometry.shapes import IndexRange
from stqsh.core.kernels.jit import Flag, Float, Int, kernel
from stqsh.core.kernels.join.keyword_join import AskedTerms
from stqsh.core.kernels.text.term_sets import TermSpans, has_terms


class InvertedLists(NamedTuple):
    """Places by term: those of term t are place[start[t]:start[t + 1]].

    Attributes:
        start: int64 (terms + 1,).
        place: int32.
        x, y: The places, float64 (n,).
        text: Their texts, int32 (n,).
    """

    start: Array
    place: Array
    x: Array
    y: Array
    text: Array


class SearchCentres(NamedTuple):
    """Searches, (n,) each: row int64, a row of `AskedTerms`; x, y float64, NaN for no centre."""

    row: Array
    x: Array
    y: Array


class TermSearch(NamedTuple):
    """The terms that queries ask for, the lists of places, and the terms of the places' texts."""

    asked: AskedTerms
    lists: InvertedLists
    spans: TermSpans
    planar: Flag


class _Distances(NamedTuple):
    """Space for the places that a search finds, int32, and for their distances, float64."""

    place: Array
    far: Array


@kernel
def build_lists(x: Array, y: Array, text: Array, spans: TermSpans, wanted: Array) -> InvertedLists:
    """List places by their terms that are wanted, bool (terms,); `text` is -1 for NULL."""
    start = np.zeros(len(wanted) + 1, np.int64)
    place = np.empty(0, np.int32)
    for fill in range(2):
        for i in range(len(text) - 1, -1, -1):
            if text[i] < 0:
                continue
            for at in range(spans.begin[text[i]], spans.end[text[i]]):
                term = spans.codes[at]
                if wanted[term] and fill:
                    start[term] -= 1
                    place[start[term]] = i
                elif wanted[term]:
                    start[term] += 1
        if not fill:
            start[:] = np.cumsum(start)
            place = np.empty(start[-1], np.int32)
    return InvertedLists(start, place, x, y, text)


@kernel
def _lists(asked: AskedTerms, row: Int, start: Array) -> tuple[Int, Int, Int]:
    """Choose the lists that contain all matching places: the shortest one, or all if any term is enough.

    Returns:
        The positions of the lists' terms, as begin and end, and the total length of the lists.
    """
    begin, end = np.int64(asked.start[row]), np.int64(asked.start[row + 1])
    best, total = np.int64(begin), np.int64(0)
    for k in range(begin, end):
        term = asked.terms[k]
        total += start[term + 1] - start[term]
        if start[term + 1] - start[term] < start[asked.terms[best] + 1] - start[asked.terms[best]]:
            best = np.int64(k)
    if not asked.every[row]:
        return begin, end, total
    return best, best + 1, start[asked.terms[best] + 1] - start[asked.terms[best]]


@kernel
def list_lengths(asked: AskedTerms, rows: Array, start: Array) -> Array:
    """Return the number of places to test for each query, given by its row, int64 (n,); 0 for -1."""
    out = np.zeros(len(rows), np.int64)
    for i in range(len(rows)):
        if rows[i] >= 0:
            out[i] = _lists(asked, rows[i], start)[2]
    return out


@kernel
def _find(row: Int, x: Float, y: Float, search: TermSearch, out: _Distances) -> Int:
    """Find the places that have the terms of a query, and their distances; return their number."""
    asked, postings, spans, planar = search
    place, far = out
    first, last = asked.start[row], asked.start[row + 1]
    begin, end, _ = _lists(asked, row, postings.start)
    used = 0
    for k in range(begin, end):
        term = asked.terms[k]
        for at in range(postings.start[term], postings.start[term + 1]):
            i = postings.place[at]
            span = IndexRange(spans.begin[postings.text[i]], spans.end[postings.text[i]])
            if asked.every[row]:
                counts = has_terms(spans.codes, span, asked.terms, IndexRange(first, last), True)
            else:  # a place may be in several lists; only the first one counts
                counts = not has_terms(spans.codes, span, asked.terms, IndexRange(first, k), False)
            if counts:
                place[used], far[used] = i, distance(x, y, postings.x[i], postings.y[i], planar)
                used += 1
    return used


@kernel
def search_within(
    centres: SearchCentres, radius: Array, search: TermSearch, room: int
) -> tuple[Array, Array]:
    """Find the places within a radius of each centre that have the terms.

    Args:
        centres: The searches.
        radius: float64 (n,).
        search: The index to search.
        room: The sum of the searches' `list_lengths`.

    Returns:
        Pairs of centre and place, int32 each.
    """
    centre, found = np.empty(room, np.int32), np.empty(room, np.int32)
    place, far = np.empty(room, np.int32), np.empty(room, np.float64)
    nearby = _Distances(place, far)
    used = 0
    for q in range(len(radius)):
        if np.isnan(centres.x[q]):
            continue
        count = _find(centres.row[q], centres.x[q], centres.y[q], search, nearby)
        for i in range(count):
            if far[i] <= radius[q]:
                centre[used], found[used] = q, place[i]
                used += 1
    return centre[:used].copy(), found[:used].copy()


@kernel
def search_distances(centres: SearchCentres, want: Array, search: TermSearch, room: int) -> Array:
    """Return the distance of the want-th nearest place that has the terms, for each centre.

    Args:
        centres: The searches.
        want: int64 (n,).
        search: The index to search.
        room: As in `search_within`.

    Returns:
        float64 (n,), infinite if there are fewer such places, 0 if a centre is NaN.
    """
    place, far = np.empty(room, np.int32), np.empty(room, np.float64)
    nearby = _Distances(place, far)
    out = np.zeros(len(want), np.float64)
    for q in range(len(want)):
        if np.isnan(centres.x[q]):
            continue
        count = _find(centres.row[q], centres.x[q], centres.y[q], search, nearby)
        out[q] = np.inf
        if count >= want[q]:
            out[q] = np.partition(far[:count], want[q] - 1)[want[q] - 1]
    return out
