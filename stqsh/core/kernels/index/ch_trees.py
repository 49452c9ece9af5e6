"""CH-trees as arrays, and the join with events (STAR section 5.1); `stqsh.core.indexes.ch_trees` builds them.

A level of a tree looks at one kind of predicates: at the place of a record (PLACE), at its words (WORDS), at
the value of a column (VALUES and the column's number), or at the number in a column (behind all VALUES, an
interval tree). Each node has a child for each label under which queries go on, and one for the queries
without the level's predicate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.index.static_rects import IS, WAS, CandidatePairs, resize_pairs, within
from stqsh.core.kernels.jit import Flag, Float, Int, inlined, kernel
from stqsh.core.kernels.text.term_sets import TermSpans

PLACE, WORDS, VALUES = 0, 1, 2
"""The kinds of predicates; VALUES + c is that of value column c, and number column k follows these."""

CHECKED, BOXED, BOUNDED, REPEATED = 1, 2, 4, 8
"""What is to be done for a query in a leaf, see `TestedQueries`."""

_PATH = 40
"""More labels than an interval tree has on a path."""


class ChTrees(NamedTuple):
    """CH-trees, one after the other in each array.

    Attributes:
        lives: whether any query of the tree is active, bool (trees,).
        order: the kind of predicates of each level, int8 (trees, kinds), -1 behind the last level.
        root: the first node of each tree, int64 (trees,).
        quad: the root of each quad-tree, int64 (trees,).
        child: the first of a quad-tree node's four children, int32, -1 for a leaf; by tree from its root on.
        centre: where the centres of each tree's interval trees begin, int64 (trees * number columns + 1,).
        centres: the centres of an interval tree, ascending, float64.
        none: the child of queries without the level's predicate, int32 (nodes,), -1 for none.
        labelled: whether there are other children, bool (nodes,).
        first, held: the first query of a leaf, and their number, int32 (nodes,) each.
        table: where the hash table of each tree begins, int64 (trees + 1,); each has a power of two of slots.
        key: node << 32 | label, int64; -1 for a free slot.
        value: the child with that label, int32.
        row: the queries of leaves, as rows, int32.
        position: the position of each row's query, int32 (rows,); -1 for a query that is not active.
    """

    lives: Array
    order: Array
    root: Array
    quad: Array
    child: Array
    centre: Array
    centres: Array
    none: Array
    labelled: Array
    first: Array
    held: Array
    table: Array
    key: Array
    value: Array
    row: Array
    position: Array


class TestedQueries(NamedTuple):
    """What is tested of the queries in leaves, by position.

    Attributes:
        box: x1, y1, x2, y2, float64 (queries, 4).
        bounds: the least and the greatest number in each number column, float64 (queries, 2 * columns).
        tests: what to do for each, uint8 (queries,): CHECKED if pairs that stay are wanted, too; BOXED and
            BOUNDED if it has a box or intervals; REPEATED if a record may reach it in several ways.
    """

    box: Array
    bounds: Array
    tests: Array


class RecordSides(NamedTuple):
    """Records before (0) and after (1) events.

    Attributes:
        x, y: places, float64 (2, n), NaN for no record.
        u, v: places within the unit square, float64 (2, n).
        text: the rows of the records' terms in spans, int32 (2, n), -1 for none.
        values: the terms of values, int32 (2, n, value columns), -1 for none.
        numbers: float64 (2, n, number columns), NaN for none.
    """

    x: Array
    y: Array
    u: Array
    v: Array
    text: Array
    values: Array
    numbers: Array


class TreeJoin(NamedTuple):
    """What events are joined with: see `join`."""

    trees: ChTrees
    queries: TestedQueries
    records: RecordSides
    spans: TermSpans
    label: Array


class _WalkRoom(NamedTuple):
    """Room for a walk: the nodes to visit and their levels, an event's words, and queries' last pairs.

    `seen` has the last event of each query that has a pair, -1 for none, and `place` the place of that pair.
    """

    stack: Array
    levels: Array
    words: Array
    seen: Array
    place: Array


@inlined
def slot_of(key: Int, slots: Int) -> Int:
    """Return where a key is looked for first in a table of a power of two of slots."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(slots - 1))


@inlined
def _child(key: Array, value: Array, begin: Int, slots: Int, node: Int, label: Int) -> Int:
    """Return a node's child with a label, -1 for none."""
    wanted = (np.int64(node) << 32) | np.int64(label)
    at = slot_of(wanted, slots)
    while key[begin + at] != wanted and key[begin + at] >= 0:
        at = (at + 1) & (slots - 1)
    return np.int64(value[begin + at]) if key[begin + at] == wanted else np.int64(-1)


@kernel
def fill_table(keys: Array, values: Array, key: Array, value: Array) -> None:
    """Enter distinct keys, int64, and their values into an open hash table; free keys are -1."""
    for i in range(len(keys)):
        at = slot_of(keys[i], len(key))
        while key[at] >= 0:
            at = (at + 1) & (len(key) - 1)
        key[at], value[at] = keys[i], values[i]


@inlined
def _mixed(number: Int) -> Int:
    """Return another number for a number, uint64, one for one."""
    found = (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return found ^ (found >> np.uint64(29))


@kernel
def sign_rows(begun: Array, numbers: Array) -> Array:
    """Return digests, uint64 (n,), that go on from numbers, uint64 (n,), with the bits of others, (n, k)."""
    signs = np.empty(len(begun), np.uint64)
    for i in range(len(begun)):
        sign = _mixed(begun[i])
        for k in range(numbers.shape[1]):
            sign = _mixed(sign ^ _mixed(numbers[i, k]))
        signs[i] = sign
    return signs


class SignedQueries(NamedTuple):
    """Queries by position: ids, ascending, int64; digests, uint64; and whether they are indexed, bool."""

    id: Array
    sign: Array
    is_live: Array


@kernel
def find_rows(ids: Array, signs: Array, queries: SignedQueries) -> tuple[Array, Array]:
    """Find the queries of rows, which have ids and digests, (rows,) each.

    Returns:
        The position of each row's query, int32, -1 if it is not indexed or has changed; and whether each
        query is indexed and has no row, bool (queries,).
    """
    known, sign, is_live = queries
    position, is_new = np.full(len(ids), -1, np.int32), is_live.copy()
    at = 0
    for row in range(len(ids)):
        if at >= len(known) or known[at] != ids[row]:  # rows mostly follow one another
            at = np.searchsorted(known, ids[row])
        if at < len(known) and known[at] == ids[row] and is_live[at] and sign[at] == signs[row]:
            position[row] = at
            is_new[at] = False
        at += 1
    return position, is_new


@inlined
def _leaf(child: Array, root: Int, u: Float, v: Float) -> Int:
    """Return the leaf that a place belongs to, counted from the root of its quad-tree."""
    node, half, left, low = np.int64(0), 0.5, 0.0, 0.0
    while child[root + node] >= 0:
        right, above = u >= left + half, v >= low + half
        node = np.int64(child[root + node]) + right + 2 * above
        left, low = left + half * right, low + half * above
        half /= 2
    return node


@inlined
def _in_bounds(bounds: Array, query: Int, numbers: Array, side: Int, event: Int) -> Flag:
    """Return whether a record's numbers are in a query's intervals; NaN is in none."""
    every = True
    for k in range(numbers.shape[2]):
        low, high, number = bounds[query, 2 * k], bounds[query, 2 * k + 1], numbers[side, event, k]
        every &= (low <= number <= high) | ((low == -np.inf) & (high == np.inf))
    return every


@kernel
def join(given: TreeJoin) -> CandidatePairs:
    """Find the pairs of events and queries whose labels and ranges match before or after the event.

    WAS means that they matched before the event, IS that they match after it. Of queries that are not
    checked, pairs with both are left out. Each pair appears once.

    Args:
        given: The trees, their queries, the records of events, the terms of their texts, and the label of
            each term, from 1 on, int32; 0 for a term that no query goes by.
    """
    records, spans = given.records, given.spans
    pairs = CandidatePairs(np.empty(1024, np.int32), np.empty(1024, np.int32), np.empty(1024, np.uint8))
    count, longest = records.x.shape[1], np.int64(0)
    for side in range(2):
        for e in range(count):
            text = records.text[side, e]
            if text >= 0:
                longest = max(longest, np.int64(spans.end[text] - spans.begin[text]))
    most, queries = (given.trees.order.shape[1] + 1) * (longest + _PATH), len(given.queries.tests)
    room = _WalkRoom(
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(longest, np.int64),
        np.full(queries, -1, np.int64),
        np.empty(queries, np.int64),
    )
    done, used = np.int64(0), np.int64(0)
    while True:
        done, used = _probe(given, room, pairs, done, used)
        if done == count:
            return CandidatePairs(pairs.event[:used], pairs.query[:used], pairs.flags[:used])
        pairs = resize_pairs(pairs, used, 2 * len(pairs.event))
        room.seen[:] = -1


@kernel
def _probe(  # noqa: PLR0912, PLR0915  # a call for each node would cost more than its visit
    given: TreeJoin, room: _WalkRoom, pairs: CandidatePairs, first_event: Int, used: Int
) -> tuple[Int, Int]:
    """Append the pairs of events from one on; return the first whose pairs did not fit, and their number."""
    trees, queries, records, spans, label = given
    lives, order, root, quad, child = trees.lives, trees.order, trees.root, trees.quad, trees.child
    centre, centres, none, labelled = trees.centre, trees.centres, trees.none, trees.labelled
    first, held, row, position = trees.first, trees.held, trees.row, trees.position
    table, key, value = trees.table, trees.key, trees.value
    box, bounds, tests = queries
    xs, ys, us, vs, texts, values, numbers = records
    begins, ends, codes = spans.begin, spans.end, spans.codes
    stack, levels, words, seen, place = room
    events, found, flags = pairs.event, pairs.query, pairs.flags
    kinds, columns, number_columns = order.shape[1], values.shape[2], numbers.shape[2]
    for e in range(first_event, xs.shape[1]):
        before, is_twofold = used, not (np.isnan(xs[0, e]) or np.isnan(xs[1, e]))
        for side in range(2):
            x, y, flag = xs[side, e], ys[side, e], WAS if side == 0 else IS
            if np.isnan(x):
                continue
            said, text = 0, texts[side, e]
            for at in range(begins[text] if text >= 0 else 0, ends[text] if text >= 0 else 0):
                if codes[at] < len(label) and label[codes[at]] > 0:
                    words[said] = label[codes[at]]
                    said += 1
            for t in range(len(root)):
                if not lives[t]:
                    continue
                leaf = _leaf(child, quad[t], us[side, e], vs[side, e])
                begin, slots = table[t], table[t + 1] - table[t]
                stack[0], levels[0], top = root[t], 0, 1
                while top:
                    top -= 1
                    node, level = stack[top], levels[top]
                    kind = np.int64(order[t, level]) if level < kinds else np.int64(-1)
                    if kind < 0:
                        if used + held[node] > len(events):
                            return np.int64(e), before
                        for k in range(first[node], first[node] + held[node]):
                            q = np.int64(position[row[k]])
                            if q < 0:
                                continue
                            todo = tests[q]
                            if todo & BOXED and not within(x, y, box[q, 0], box[q, 1], box[q, 2], box[q, 3]):
                                continue
                            if todo & BOUNDED and not _in_bounds(bounds, q, numbers, side, e):
                                continue
                            if is_twofold or todo & REPEATED:
                                if seen[q] == e:
                                    flags[place[q]] |= np.uint8(flag)
                                    continue
                                seen[q], place[q] = e, used
                            events[used], found[used], flags[used] = e, q, flag
                            used += 1
                        continue
                    if none[node] >= 0:
                        stack[top], levels[top] = none[node], level + 1
                        top += 1
                    if not labelled[node]:
                        continue
                    if kind == PLACE:
                        to = _child(key, value, begin, slots, node, leaf)
                        if to >= 0:
                            stack[top], levels[top] = to, level + 1
                            top += 1
                    elif kind == WORDS:
                        for k in range(said):
                            to = _child(key, value, begin, slots, node, words[k])
                            if to >= 0:
                                stack[top], levels[top] = to, level + 1
                                top += 1
                    elif kind < VALUES + columns:
                        term = values[side, e, kind - VALUES]
                        if 0 <= term < len(label) and label[term] > 0:
                            to = _child(key, value, begin, slots, node, label[term])
                            if to >= 0:
                                stack[top], levels[top] = to, level + 1
                                top += 1
                    else:
                        k = kind - VALUES - columns
                        number = numbers[side, e, k]
                        if np.isnan(number):
                            continue
                        start = centre[t * number_columns + k]
                        most = centre[t * number_columns + k + 1] - start
                        low, high, is_over = np.int64(0), np.int64(most), False
                        while not is_over:
                            is_over = low == high
                            middle = (low + high) // 2
                            to = _child(key, value, begin, slots, node, low + most if is_over else middle)
                            if to >= 0:
                                stack[top], levels[top] = to, level + 1
                                top += 1
                            if not is_over and number < centres[start + middle]:
                                high = middle
                            elif not is_over:
                                low = middle + 1
        if not is_twofold:
            continue
        kept = before
        for k in range(before, used):
            if flags[k] != WAS | IS or tests[found[k]] & CHECKED:
                events[kept], found[kept], flags[kept] = events[k], found[k], flags[k]
                kept += 1
        used = kept
    return np.int64(xs.shape[1]), used
