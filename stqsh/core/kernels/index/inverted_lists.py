"""Objects by the terms of their texts: for new neighbours of a place that are to have some terms.

SSTD section 6.1 keeps an inverted list of a partition's objects for this. Here lists are made when queries
ask, and only of the terms that any query asks for: one look at each term of each text.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.kernels.jit import Array, Flag, Float, Int, kernel
from stqsh.core.kernels.join.keyword_join import AskedTerms
from stqsh.core.kernels.text.term_sets import TermSpans, has_terms


class InvertedLists(NamedTuple):
    """Places by term: those of term t are place[start[t]:start[t + 1]]; int64 and int32. x, y float64 and
    text int32 (n,): the places themselves.
    """

    start: Array
    place: Array
    x: Array
    y: Array
    text: Array


class SearchCentres(NamedTuple):
    """Who asks, (n,) each: row int64, of what is asked for; x, y float64, NaN for no centre."""

    row: Array
    x: Array
    y: Array


Scene: TypeAlias = tuple[AskedTerms, InvertedLists, TermSpans]


@kernel
def post(x: Array, y: Array, text: Array, spans: TermSpans, wanted: Array) -> InvertedLists:
    """List places by those of their terms that are wanted, bool (terms,); text: -1 for NULL."""
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
    """The terms whose lists hold all that a query asks for, as positions; and how long they are together.

    That is the term with the shortest list, or, where any is enough, each of them.
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
    """How many places have to be looked at for each query, by its row, -1: 0. int64 (n,)."""
    out = np.zeros(len(rows), np.int64)
    for i in range(len(rows)):
        if rows[i] >= 0:
            out[i] = _lists(asked, rows[i], start)[2]
    return out


@kernel
def _find(centre: tuple[Int, Float, Float], scene: Scene, planar: Flag, out: tuple[Array, Array]) -> Int:
    """The places that have the terms of a query, and how far they are, float64, into `out`; how many."""
    (row, x, y), (asked, postings, spans) = centre, scene
    place, far = out
    first, last = asked.start[row], asked.start[row + 1]
    begin, end, _ = _lists(asked, row, postings.start)
    used = 0
    for k in range(begin, end):
        term = asked.terms[k]
        for at in range(postings.start[term], postings.start[term + 1]):
            i = postings.place[at]
            span = spans.begin[postings.text[i]], spans.end[postings.text[i]]
            if asked.every[row]:
                counts = has_terms(spans.codes, span, asked.terms, (first, last), True)
            else:  # it is found in several lists: the first one counts
                counts = not has_terms(spans.codes, span, asked.terms, (first, k), False)
            if counts:
                place[used], far[used] = i, distance(x, y, postings.x[i], postings.y[i], planar)
                used += 1
    return used


@kernel
def asked_within(
    centres: SearchCentres, radius: Array, scene: Scene, planar: Flag, room: int
) -> tuple[Array, Array]:
    """The places within a radius of each centre that have the terms: centre and place, int32 (n,) each.

    radius: float64 (n,). room: the sum of their `list_lengths`.
    """
    centre, found = np.empty(room, np.int32), np.empty(room, np.int32)
    place, far = np.empty(room, np.int32), np.empty(room, np.float64)
    used = 0
    for q in range(len(radius)):
        if np.isnan(centres.x[q]):
            continue
        count = _find((centres.row[q], centres.x[q], centres.y[q]), scene, planar, (place, far))
        for i in range(count):
            if far[i] <= radius[q]:
                centre[used], found[used] = q, place[i]
                used += 1
    return centre[:used].copy(), found[:used].copy()


@kernel
def asked_distances(centres: SearchCentres, want: Array, scene: Scene, planar: Flag, room: int) -> Array:
    """For each centre the distance of the want-th place that has the terms; infinite where there are fewer.

    want: int64 (n,). 0 where a centre is NaN. room: as in `asked_within`. float64 (n,).
    """
    place, far = np.empty(room, np.int32), np.empty(room, np.float64)
    out = np.zeros(len(want), np.float64)
    for q in range(len(want)):
        if np.isnan(centres.x[q]):
            continue
        count = _find((centres.row[q], centres.x[q], centres.y[q]), scene, planar, (place, far))
        out[q] = np.inf
        if count >= want[q]:
            out[q] = np.partition(far[:count], want[q] - 1)[want[q] - 1]
    return out
