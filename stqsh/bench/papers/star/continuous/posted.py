"""The records of the figures as arrays, and the cells of groups that each of them counts in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.bench.papers.star.continuous.tables import Posted
from stqsh.bench.papers.star.workload import COMBINATIONS
from stqsh.bench.papers.star.world import GROUPINGS, TOPICS, Posts
from stqsh.core.texts.tokenizer import coded_terms

_START = 30
"""The minute of the hour with which the records begin."""


class CountedCells(NamedTuple):
    """What records count: a group, or each pair of a group and a term.

    Attributes:
        start: int64 (records + 1,): the cells of record i are those from start[i] to start[i + 1].
        cell: the numbers of cells for each grouping, ascending by group and term, int32 (groupings, cells).
        group: the group of each number, int32 (groupings, most); all are 0 where groups are counted.
    """

    start: Array
    cell: Array
    group: Array


class PostedRecords(NamedTuple):
    """Records, the number of their terms, and the lengths of their texts, int64 (n,)."""

    posted: Posted
    terms: int
    length: Array


def records_of(posts: Posts) -> PostedRecords:
    """Return posts as arrays."""
    coded, terms = coded_terms(posts.texts)
    counts = np.diff(coded.start)[posts.text]
    start = np.append(0, np.cumsum(counts)).astype(np.int64)
    within = np.arange(start[-1]) - np.repeat(start[:-1], counts)
    said = coded.codes[np.repeat(coded.start[:-1][posts.text], counts) + within]
    order = np.lexsort((said, np.repeat(np.arange(len(posts)), counts)))
    texts: Any = posts.texts
    lengths: Any = pc.utf8_length(texts)
    x, y = (np.ascontiguousarray(posts.places[:, axis]) for axis in (0, 1))
    posted = Posted(x, y, posts.topic, start, said[order].astype(np.int32))
    return PostedRecords(posted, len(terms), lengths.to_numpy()[posts.text].astype(np.int64))


def cells_of(records: PostedRecords, count: int, minute: Array, *, with_terms: bool) -> CountedCells:
    """Number the cells of the first records.

    Args:
        records: the records.
        count: how many.
        minute: the minute of each, int64 (count,).
        with_terms: whether terms are counted, or records.
    """
    posted = records.posted
    tenths = [np.clip(axis[:count] * 10, 0, 9).astype(np.int64) for axis in (posted.x, posted.y)]
    values = {
        "topic": (posted.topic[:count].astype(np.int64), TOPICS),
        "city": (tenths[0] * 10 + tenths[1], 100),
        "HOUR(ts)": ((_START + minute) // 60, 24),
        "MINUTE(ts)": ((_START + minute) % 60, 60),
        "LENGTH(body)": (records.length[:count], int(records.length.max()) + 1),
    }
    assert set(values) == set(GROUPINGS)
    start = posted.start[: count + 1] if with_terms else np.arange(count + 1)
    terms = posted.terms[: start[-1]] if with_terms else np.zeros(count, np.int64)
    of = np.repeat(np.arange(count), np.diff(start))
    cell, group = [], []
    for combination in COMBINATIONS:
        code = np.zeros(count, np.int64)
        for name in combination:
            value, size = values[name]
            code = code * size + value
        _, number = np.unique(code, return_inverse=True)
        distinct, mine = np.unique(number.reshape(-1)[of] * records.terms + terms, return_inverse=True)
        cell.append(mine.reshape(-1).astype(np.int32))
        group.append((distinct // records.terms).astype(np.int32))
    table = np.zeros((len(group), max(map(len, group))), np.int32)
    for i, one in enumerate(group):
        table[i, : len(one)] = one
    return CountedCells(start.astype(np.int64), np.stack(cell), table)
