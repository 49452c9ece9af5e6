"""Keyword queries in the quadtrees of their terms: insertion, and the join with events.

The trees follow Tornado section 3.2 (FAST), see `stqsh.core.kernels.index.term_quadtrees`. A query is indexed
under its rarest term, so an event meets few queries whose other terms it lacks. Each pair is found once. An
event costs one walk for each of its terms that some query is indexed under.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.geometry.shapes import Box, IndexRange
from stqsh.core.kernels.index.static_rects import IS, WAS, CandidatePairs, GridFrame, resize_pairs, within
from stqsh.core.kernels.index.term_quadtrees import (
    ANY,
    CHECKED,
    CHILD,
    DEPTH,
    DOWN,
    MORE,
    SHIFT,
    STAY,
    TermEntry,
    TermQuadtrees,
    child_at,
    copy_entry,
    cover_cells,
    find_nodes,
    finest_cell,
    insert_entry,
    new_nodes,
)
from stqsh.core.kernels.jit import Flag, Int, kernel
from stqsh.core.kernels.text.term_sets import TermSpans, has_terms

_NODES_AN_ENTRY = 17
"""The most nodes that an entry adds: a root, and four children for each of four lists."""


class AskedTerms(NamedTuple):
    """The terms that queries ask for, one row each.

    Attributes:
        start: int32 (rows + 1,).
        terms: int32, those of row i from start[i] to start[i + 1], ascending.
        every: Whether all terms of a query are required, bool.
        box: float64 (rows, 4), NaN for a query that is not indexed now.
        checked: Whether pairs that stay are wanted, too, bool.
        filed_under: The term under which a query is indexed, int32; -1 for none or several.
    """

    start: Array
    terms: Array
    every: Array
    box: Array
    checked: Array
    filed_under: Array


@kernel
def rarest(asked: AskedTerms, row: Int, rarity: Array) -> Int:
    """Return the position of a query's rarest term among all terms; of equally rare terms, the first."""
    best = np.int64(asked.start[row])
    for k in range(best + 1, asked.start[row + 1]):
        if rarity[asked.terms[k]] < rarity[asked.terms[best]]:
            best = np.int64(k)
    return best


@kernel
def index_drift(asked: AskedTerms, rarity: Array) -> tuple[Int, Int]:
    """Return how often events have the terms that queries are indexed under, and their rarest terms."""
    have, best = np.int64(0), np.int64(0)
    for row in range(len(asked.every)):
        if asked.filed_under[row] >= 0:
            have += rarity[asked.filed_under[row]]
            best += rarity[asked.terms[rarest(asked, row, rarity)]]
    return have, best


@kernel
def _make_entry(asked: AskedTerms, row: Int, at: Int) -> TermEntry:
    """Return a query's entry under the term at a position among all terms.

    If a query asks for any of its terms, an event with several of them finds several entries. Only the entry
    under the first term counts, so an entry holds the terms before its own, which must be absent.
    """
    none = np.int64(asked.terms[at] if asked.every[row] else -1)
    first, second, left = none, none, 0
    for k in range(asked.start[row], asked.start[row + 1] if asked.every[row] else at):
        if k == at:
            continue
        if left == 0:
            first = np.int64(asked.terms[k])
        elif left == 1:
            second = np.int64(asked.terms[k])
        left += 1
    bits = CHECKED * asked.checked[row] + ANY * (not asked.every[row]) + MORE * (left > 2)
    box = Box(asked.box[row, 0], asked.box[row, 1], asked.box[row, 2], asked.box[row, 3])
    return TermEntry(box, first, second, (row << SHIFT) + bits)


@kernel
def insert_queries(
    forest: TermQuadtrees, asked: AskedTerms, rows: Array, rarity: Array, frame: GridFrame, done: Array
) -> bool:
    """Insert queries under their rarest term, or under each term if any is enough.

    Args:
        forest: The trees.
        asked: The queries.
        rows: The queries to insert, int64 (n,).
        rarity: How often events have each term, int64 (terms,).
        frame: The finest cells.
        done: The number of rows inserted, and of entries inserted for the next row, int64 (2,); updated.

    Returns:
        False if the trees' arrays are full; then enlarge them and call again.
    """
    where = np.zeros((4 * DEPTH + 12, 4), np.int64)
    while done[0] < len(rows):
        row = np.int64(rows[done[0]])
        begin, end = np.int64(asked.start[row]), np.int64(asked.start[row + 1])
        if asked.every[row]:
            begin = rarest(asked, row, rarity)
            end = begin + 1
            asked.filed_under[row] = asked.terms[begin]
        for at in range(begin + done[1], end):
            if len(forest.nodes) < forest.used[0] + _NODES_AN_ENTRY:
                return False
            post, term = _make_entry(asked, row, at), asked.terms[at]
            if not forest.root[term]:
                forest.root[term] = new_nodes(forest, 1)
            cover = cover_cells(post.box, frame)
            found, needed = find_nodes(forest, forest.root[term], cover, where)
            if len(forest.tag) < forest.used[1] + needed:
                return False
            insert_entry(forest, where[:found], post, cover.deepest, frame)
            done[1] += 1
        done[0] += 1
        done[1] = 0
    return True


@kernel
def renumber_queries(forest: TermQuadtrees, row: Array) -> Int:
    """Replace each query's row in its entries by `row`, int64 (rows,); remove the entries if it is -1.

    Returns:
        The number of remaining entries.
    """
    left = np.int64(0)
    for node in range(1, forest.used[0]):
        for kind in (STAY, DOWN):
            begin = forest.nodes[node, kind]
            to = begin
            for at in range(begin, begin + forest.nodes[node, kind + 1]):
                new = row[forest.tag[at] >> SHIFT]
                if new < 0:
                    continue
                if to != at:
                    copy_entry(forest, at, to)
                forest.tag[to] = (new << SHIFT) | (forest.tag[at] & ((1 << SHIFT) - 1))
                to += 1
            forest.nodes[node, kind + 1] = to - begin
            left += to - begin
    return left


class EventSide(NamedTuple):
    """Objects before or after their events, (n,) each: x, y (NaN: not present), text int32, -1 for NULL."""

    x: Array
    y: Array
    text: Array


class KeywordTrees(NamedTuple):
    """The trees, the queries in them, the terms of texts, and the finest cells."""

    forest: TermQuadtrees
    asked: AskedTerms
    spans: TermSpans
    frame: GridFrame


class _ProbeSides(NamedTuple):
    """The side of events to probe, the other side, and the flag of pairs that are found."""

    here: EventSide
    there: EventSide
    flag: int


@kernel
def join(events: Transitions, old_text: Array, new_text: Array, trees: KeywordTrees) -> CandidatePairs:
    """Find the pairs of events and queries where an object begins or ceases to satisfy box and terms.

    For checked queries, pairs where it continues to satisfy them are included. Each pair appears once: WAS
    means that box and terms matched before the event, IS that they match after it.

    Args:
        events: Transitions (n,).
        old_text: The text before each event, a row of the spans, int32 (n,); -1 for NULL.
        new_text: The text after it, int32 (n,).
        trees: The index.
    """
    old, new = EventSide(events.ox, events.oy, old_text), EventSide(events.nx, events.ny, new_text)
    pairs = CandidatePairs(np.empty(1024, np.int32), np.empty(1024, np.int32), np.empty(1024, np.uint8))
    used = np.int64(0)
    # The last mark belongs to -1, which is no term, and is never set.
    marks = np.full((2, len(trees.forest.root) + 1), -1, np.int32)
    for sides in (_ProbeSides(old, new, WAS), _ProbeSides(new, old, IS)):
        marks[:] = -1
        done = np.int64(0)
        while True:
            done, used = _probe(sides, trees, marks, pairs, done, used)
            if done == len(events.step):
                break
            pairs = resize_pairs(pairs, used, 2 * len(pairs.event))
    return CandidatePairs(pairs.event[:used], pairs.query[:used], pairs.flags[:used])


@kernel
def _probe(
    sides: _ProbeSides, trees: KeywordTrees, marks: Array, pairs: CandidatePairs, first: Int, used: Int
) -> tuple[Int, Int]:
    """Append the pairs of one side of the events, except pairs that the other side has found before.

    Arrays are bound to local names, because reading one from a structure, or passing one to a kernel, costs
    as much as testing several boxes.

    Args:
        sides: The side to probe, and the other one.
        trees: The index.
        marks: Space for the terms of both sides, int32 (2, terms + 1).
        pairs: Where to append pairs.
        first: The event to begin with.
        used: The number of pairs so far.

    Returns:
        The first event whose pairs did not fit, and the number of pairs.
    """
    (here, there, flag), (forest, asked, spans, frame) = sides, trees
    xs, ys, texts, oxs, oys, others = here.x, here.y, here.text, there.x, there.y, there.text
    root, nodes, boxes, rest, tags = forest.root, forest.nodes, forest.boxes, forest.rest, forest.tag
    begins, ends, codes = spans.begin, spans.end, spans.codes
    events, queries, flags = pairs.event, pairs.query, pairs.flags
    mine, other = marks[0], marks[1]
    for e in range(first, len(xs)):
        text, x, y, before = texts[e], xs[e], ys[e], used
        if np.isnan(x) or text < 0:
            continue
        for at in range(begins[text], ends[text]):
            mine[codes[at]] = e
        ox, oy, past = oxs[e], oys[e], others[e]
        both = past >= 0 and not np.isnan(ox)
        for at in range(begins[past], ends[past] if both else 0):
            other[codes[at]] = e
        column, row = finest_cell(x, y, frame)
        for at in range(begins[text], ends[text]):
            node, up = np.int64(root[codes[at]]), DEPTH
            while node:
                for kind in (STAY, DOWN):
                    begin, count = np.int64(nodes[node, kind]), np.int64(nodes[node, kind + 1])
                    if used + count > len(events):
                        return np.int64(e), before
                    for k in range(begin, begin + count):
                        x1, y1, x2, y2 = boxes[k, 0], boxes[k, 1], boxes[k, 2], boxes[k, 3]
                        if not within(x, y, x1, y1, x2, y2):
                            continue
                        tag = tags[k]
                        wanted = tag & ANY == 0
                        fits = ((mine[rest[k, 0]] == e) == wanted) & ((mine[rest[k, 1]] == e) == wanted)
                        if not fits or (tag & MORE and not _fits(asked, tag, codes[at], mine, e)):
                            continue
                        stays = (
                            both and within(ox, oy, x1, y1, x2, y2) and _has(asked, tag >> SHIFT, other, e)
                        )
                        events[used], queries[used], flags[used] = e, tag >> SHIFT, flag + IS * stays
                        used += not stays or (flag == WAS and tag & CHECKED != 0)
                up -= 1
                node = child_at(nodes[node, CHILD], column >> up, row >> up)
    return np.int64(len(xs)), used


@kernel
def _fits(asked: AskedTerms, tag: Int, term: Int, marks: Array, stamp: Int) -> Flag:
    """Return whether all of a query's terms are present; if any is enough, whether none before `term` is."""
    row = tag >> SHIFT
    for at in range(asked.start[row], asked.start[row + 1]):
        if tag & ANY and asked.terms[at] >= term:
            return True
        if (marks[asked.terms[at]] == stamp) == (tag & ANY != 0):
            return False
    return True


@kernel
def _has(asked: AskedTerms, row: Int, marks: Array, stamp: Int) -> Flag:
    """Return whether a text has the terms of a query."""
    every = asked.every[row]
    for at in range(asked.start[row], asked.start[row + 1]):
        found = marks[asked.terms[at]] == stamp
        if found != every:
            return found
    return every


@kernel
def clear_without_terms(
    pairs: CandidatePairs, sides: tuple[Array, Array], spans: TermSpans, asked: AskedTerms, row: Array
) -> None:
    """Clear WAS and IS of pairs where the text before or after the event lacks the query's terms.

    Args:
        pairs: Pairs of events and queries; their flags are changed.
        sides: The texts before and after each event, rows of the spans, int32 (n,); -1 for NULL.
        spans: The terms of texts.
        asked: The terms that queries ask for.
        row: The row of each query in `asked`, int32 (queries,); -1 for a query that asks for no terms.
    """
    events, queries, flags = pairs.event, pairs.query, pairs.flags
    old, new = sides
    for i in range(len(flags)):
        asks = row[queries[i]]
        if asks < 0:
            continue
        wanted, every = IndexRange(asked.start[asks], asked.start[asks + 1]), asked.every[asks]
        for flag, text in ((WAS, old[events[i]]), (IS, new[events[i]])):
            if flags[i] & flag == 0:
                continue
            if text >= 0:
                span = IndexRange(spans.begin[text], spans.end[text])
                if has_terms(spans.codes, span, asked.terms, wanted, every):
                    continue
            flags[i] &= ~np.uint8(flag)
