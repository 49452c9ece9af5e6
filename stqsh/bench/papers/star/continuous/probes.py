"""The kernels that find which predicates records satisfy: one for each index, and a test of all pairs.

They stand in one module: a compiled kernel is cached by its own file alone.
"""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.bench.papers.star.continuous.tables import (
    NODES,
    TOPIC,
    Intervals,
    Posted,
    Predicates,
    Room,
    RTrees,
)
from stqsh.core.kernels.index.static_rects import within
from stqsh.core.kernels.jit import Flag, Int, inlined, kernel


@inlined
def _says(start: Array, terms: Array, row: Int, marks: Array, record: Int) -> Flag:
    """Return whether a record has all terms of a row."""
    every = True
    for k in range(start[row], start[row + 1]):
        every &= marks[terms[k]] == record
    return every


@inlined
def _mark(said: Array, words: Array, record: Int, marks: Array) -> None:
    """Mark the terms of a record."""
    for k in range(said[record], said[record + 1]):
        marks[words[k]] = record


@kernel
def probe_each(
    index: int, sought: Predicates, posts: Posted, room: Room, begin: Int, used: Int
) -> tuple[Int, Int]:
    """Test all pairs; every kernel here takes and returns the same.

    Args:
        index: nothing here, an index elsewhere.
        sought: the predicates.
        posts: the records.
        room: where pairs are appended.
        begin: the record to begin with.
        used: the number of pairs before.

    Returns:
        The first record whose pairs did not fit, and the number of pairs.
    """
    box, topic, start, terms, active = sought
    xs, ys, topics, said, words = posts
    records, rows, marks = room
    for e in range(begin, len(xs)):
        x, y, about, before = xs[e], ys[e], topics[e], used
        _mark(said, words, e, marks)
        for q in range(len(active)):
            if not (active[q] & ((topic[q] < 0) | (topic[q] == about))):
                continue
            if within(x, y, box[q, 0], box[q, 1], box[q, 2], box[q, 3]) and _says(start, terms, q, marks, e):
                if used == len(rows):
                    return np.int64(e), before
                records[used], rows[used] = e, q
                used += 1
    return np.int64(len(xs)), used


@kernel
def probe_op_index(
    index: Intervals, sought: Predicates, posts: Posted, room: Room, begin: Int, used: Int
) -> tuple[Int, Int]:
    """Count the intervals that hold a record's values; check the keywords of rows that have all of theirs."""
    first, attribute, longest, low, high, row, needed, rest = index
    start, terms, active = sought.start, sought.terms, sought.active
    xs, ys, topics, said, words = posts
    records, rows, marks = room
    seen, held = np.full(len(active), -1, np.int32), np.zeros(len(active), np.int8)
    for e in range(begin, len(xs)):
        before = used
        if used + len(active) >= len(rows):
            return np.int64(e), before
        _mark(said, words, e, marks)
        for i in range(len(attribute)):
            a = attribute[i]
            value = np.float64(topics[e]) if a == TOPIC else xs[e] if a == 1 else ys[e]
            end = first[i + 1]
            at = first[i] + np.searchsorted(low[first[i] : end], value - longest[i])
            while at < end and low[at] <= value:
                q = row[at]
                if high[at] >= value:
                    held[q] = held[q] + 1 if seen[q] == e else 1
                    seen[q] = e
                    if held[q] == needed[q] and active[q] and _says(start, terms, q, marks, e):
                        records[used], rows[used] = e, q
                        used += 1
                at += 1
        for q in rest:
            if active[q] and _says(start, terms, q, marks, e):
                records[used], rows[used] = e, q
                used += 1
    return np.int64(len(xs)), used


@kernel
def probe_rp_trees(
    index: RTrees, sought: Predicates, posts: Posted, room: Room, begin: Int, used: Int
) -> tuple[Int, Int]:
    """Search the R-trees and the list of the topic; check topics and keywords of what they hold."""
    root, first, counts, depth, cover, box, row, topic_start, by_topic, rest = index
    topic, start, terms, active = sought.topic, sought.start, sought.terms, sought.active
    xs, ys, topics, said, words = posts
    records, rows, marks = room
    stack = np.empty(NODES * 16, np.int64)
    for e in range(begin, len(xs)):
        x, y, about = xs[e], ys[e], topics[e]
        if used + len(active) >= len(rows):
            return np.int64(e), used
        _mark(said, words, e, marks)
        top = len(root)
        stack[:top] = root
        while top:
            top -= 1
            node = stack[top]
            for k in range(first[node], first[node] + counts[node]):
                if depth[node]:
                    if within(x, y, cover[k, 0], cover[k, 1], cover[k, 2], cover[k, 3]):
                        stack[top] = k
                        top += 1
                elif within(x, y, box[k, 0], box[k, 1], box[k, 2], box[k, 3]):
                    q = row[k]
                    fits = active[q] & ((topic[q] < 0) | (topic[q] == about))
                    if fits and _says(start, terms, q, marks, e):
                        records[used], rows[used] = e, q
                        used += 1
        for k in range(topic_start[about], topic_start[about + 1]):
            q = by_topic[k]
            if active[q] and _says(start, terms, q, marks, e):
                records[used], rows[used] = e, q
                used += 1
        for q in rest:
            if active[q] and _says(start, terms, q, marks, e):
                records[used], rows[used] = e, q
                used += 1
    return np.int64(len(xs)), used


@kernel
def terms_and_topics(posts: Posted, first: Int) -> tuple[Array, Array]:
    """Return where each record's terms end, and the terms; its topic is a further one, from `first` on."""
    ends, codes = np.empty(len(posts.x), np.int32), np.empty(len(posts.terms) + len(posts.x), np.int32)
    at = 0
    for e in range(len(posts.x)):
        for k in range(posts.start[e], posts.start[e + 1]):
            codes[at] = posts.terms[k]
            at += 1
        codes[at] = first + posts.topic[e]
        at += 1
        ends[e] = at
    return ends, codes


@kernel
def satisfy(sought: Predicates, posts: Posted, record: Array, row: Array) -> Array:
    """Return which records have the topic and all terms of rows, bool (n,); a record's terms ascend."""
    kept = np.empty(len(record), np.bool_)
    for i in range(len(record)):
        kept[i] = sought.topic[row[i]] < 0 or sought.topic[row[i]] == posts.topic[record[i]]
        begin, end = posts.start[record[i]], posts.start[record[i] + 1]
        for k in range(sought.start[row[i]], sought.start[row[i] + 1]):
            at = begin + np.searchsorted(posts.terms[begin:end], sought.terms[k])
            kept[i] &= at < end and posts.terms[at] == sought.terms[k]
    return kept
