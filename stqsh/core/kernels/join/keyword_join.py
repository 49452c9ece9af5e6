"""Keyword queries on a forest of terms: how they are hung up, and which of them an event concerns."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.static_rects import IS, WAS, CandidatePairs, GridFrame, grown, within
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
    below,
    copy_entry,
    hang,
    new_nodes,
    reach,
    spot,
    targets,
)
from stqsh.core.kernels.jit import Array, Flag, Int, kernel
from stqsh.core.kernels.text.term_sets import TermSpans

_NODES_A_POST = 17
"""A root, and four children for each of four lists."""


class AskedTerms(NamedTuple):
    """What queries ask for, a row each.

    start: int32 (rows + 1,); terms: int32, those of row i from start[i] to start[i + 1], ascending. every:
    bool, whether all of them are asked for. box: float64 (rows, 4), NaN where a query hangs nowhere now.
    checked: bool, whether pairs that stay are wanted too. hung: int32, the term under which a query hangs, -1
    for none or several.
    """

    start: Array
    terms: Array
    every: Array
    box: Array
    checked: Array
    hung: Array


@kernel
def rarest(asked: AskedTerms, row: Int, rarity: Array) -> Int:
    """Which of a query's terms is the rarest, as a position among all terms; the first of equal ones."""
    best = np.int64(asked.start[row])
    for k in range(best + 1, asked.start[row + 1]):
        if rarity[asked.terms[k]] < rarity[asked.terms[best]]:
            best = np.int64(k)
    return best


@kernel
def drift(asked: AskedTerms, rarity: Array) -> tuple[Int, Int]:
    """How often events come by the terms under which queries hang, and by those that are the rarest now."""
    have, best = np.int64(0), np.int64(0)
    for row in range(len(asked.every)):
        if asked.hung[row] >= 0:
            have += rarity[asked.hung[row]]
            best += rarity[asked.terms[rarest(asked, row, rarity)]]
    return have, best


@kernel
def _post(asked: AskedTerms, row: Int, at: Int) -> TermEntry:
    """A query's entry under the term at a position among all terms.

    Of a query that asks for any of its terms, an event that has several finds several entries; the one under
    the first of them counts, hence an entry names the terms before its own, which must be missing.
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
    box = asked.box[row, 0], asked.box[row, 1], asked.box[row, 2], asked.box[row, 3]
    return TermEntry(box, (first, second), (row << SHIFT) + bits)


@kernel
def hang_rows(
    forest: TermQuadtrees, asked: AskedTerms, rows: Array, rarity: Array, lattice: GridFrame, done: Array
) -> bool:
    """Hang queries up: under their rarest term, or under each one where any is enough.

    rows: int64 (n,), which; rarity: int64 (terms,), how often a term comes in events. done: int64 (2,), how
    many rows, and how many posts of the next one, are up; moved on. Returns False where the forest's arrays
    have no room left: give them more, and call again.
    """
    where = np.zeros((4 * DEPTH + 12, 4), np.int64)
    while done[0] < len(rows):
        row = np.int64(rows[done[0]])
        begin, end = np.int64(asked.start[row]), np.int64(asked.start[row + 1])
        if asked.every[row]:
            begin = rarest(asked, row, rarity)
            end = begin + 1
            asked.hung[row] = asked.terms[begin]
        for at in range(begin + done[1], end):
            if len(forest.nodes) < forest.used[0] + _NODES_A_POST:
                return False
            post, term = _post(asked, row, at), asked.terms[at]
            if not forest.root[term]:
                forest.root[term] = new_nodes(forest, 1)
            cover = reach(post.box, lattice)
            found, needed = targets(forest, forest.root[term], cover, where)
            if len(forest.tag) < forest.used[1] + needed:
                return False
            hang(forest, where[:found], post, cover[4], lattice)
            done[1] += 1
        done[0] += 1
        done[1] = 0
    return True


@kernel
def sift(forest: TermQuadtrees, row: Array) -> Int:
    """Give each query's entries its new row, or take them away: row int64 (rows,), -1 for gone.

    Returns how many entries there are then.
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
    """Events before or after their step, (n,) each: x, y (NaN: not present) and text, int32, -1 for NULL."""

    x: Array
    y: Array
    text: Array


Scene: TypeAlias = tuple[TermQuadtrees, AskedTerms, TermSpans, GridFrame]
Found: TypeAlias = tuple[CandidatePairs, Int]


@kernel
def join(events: Transitions, texts: tuple[Array, Array], scene: Scene) -> CandidatePairs:
    """The pairs of events and rows where an object came to satisfy box and terms, or ceased to.

    For rows that are checked also those where it went on to. texts: the text before and after each event,
    int32 (n,), a row of the spans, -1 for NULL. Each pair comes once: WAS tells that box and terms held
    before, IS that they hold after.
    """
    old, new = EventSide(events.ox, events.oy, texts[0]), EventSide(events.nx, events.ny, texts[1])
    pairs = CandidatePairs(np.empty(1024, np.int32), np.empty(1024, np.int32), np.empty(1024, np.uint8))
    used = np.int64(0)
    # The last of the marks is that of no term, -1, and is never set.
    marks = np.full((2, len(scene[0].root) + 1), -1, np.int32)
    for here, there, flag in ((old, new, WAS), (new, old, IS)):
        marks[:] = -1
        done = np.int64(0)
        while True:
            done, used = _probe((here, there, flag), scene, marks, pairs, (done, used))
            if done == len(events.step):
                break
            pairs = grown(pairs, used, 2 * len(pairs.event))
    return CandidatePairs(pairs.event[:used], pairs.query[:used], pairs.flags[:used])


@kernel
def _probe(
    sides: tuple[EventSide, EventSide, int],
    scene: Scene,
    marks: Array,
    pairs: CandidatePairs,
    begun: tuple[Int, Int],
) -> tuple[Int, Int]:
    """Append what one side of the events finds; what the other side found before is not told again.

    begun: at which event to begin, and how many pairs there are. Returns the first event whose pairs had no
    room, and how many pairs there are. Arrays are variables here, and none changes: to take one out of a
    tuple, or to hand one to a kernel, costs as much as several boxes.
    """
    (here, there, flag), (forest, asked, spans, lattice) = sides, scene
    xs, ys, texts, oxs, oys, others = here.x, here.y, here.text, there.x, there.y, there.text
    root, nodes, boxes, rest, tags = forest.root, forest.nodes, forest.boxes, forest.rest, forest.tag
    begins, ends, codes = spans.begin, spans.end, spans.codes
    events, queries, flags = pairs.event, pairs.query, pairs.flags
    mine, other = marks[0], marks[1]
    first, used = begun
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
        column, row = spot(x, y, lattice)
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
                node = below(nodes[node, CHILD], column >> up, row >> up)
    return np.int64(len(xs)), used


@kernel
def _fits(asked: AskedTerms, tag: Int, term: Int, marks: Array, stamp: Int) -> Flag:
    """Whether all of a query's terms are there, or, where any is enough, those before `term` are not."""
    row = tag >> SHIFT
    for at in range(asked.start[row], asked.start[row + 1]):
        if tag & ANY and asked.terms[at] >= term:
            return True
        if (marks[asked.terms[at]] == stamp) == (tag & ANY != 0):
            return False
    return True


@kernel
def _has(asked: AskedTerms, row: Int, marks: Array, stamp: Int) -> Flag:
    """Whether a text has the terms of a query."""
    every = asked.every[row]
    for at in range(asked.start[row], asked.start[row + 1]):
        found = marks[asked.terms[at]] == stamp
        if found != every:
            return found
    return every
