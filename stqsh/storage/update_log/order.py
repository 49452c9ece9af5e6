"""The order in which updates are shown (language.md, "Output")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.storage.update_log.reader import UpdateTable, key_ranks


class OrderedRun(NamedTuple):
    """Consecutive rows of one stream in the order over all streams.

    Attributes:
        stream_id: the stream.
        table: the rows, a slice of `whole`.
        whole: all updates of that table, in order.
        begin: the index of the first row in `whole`.
    """

    stream_id: int
    table: pa.Table
    whole: pa.Table
    begin: int


def ordered(tables: Sequence[UpdateTable], names: Mapping[int, str]) -> list[tuple[int, pa.Table]]:
    """Return the stream and the rows of each run of `ordered_runs`."""
    return [(run.stream_id, run.table) for run in ordered_runs(tables, names)]


def ordered_runs(tables: Sequence[UpdateTable], names: Mapping[int, str]) -> list[OrderedRun]:
    """Sort the tables of one batch into the order of language.md, "Output".

    The order is by step, query name, `-` before `+`, key (integers by value, strings by code point).

    Args:
        tables: the updates of each stream.
        names: the name of each query that occurs.

    Returns:
        Runs of rows of one stream; their concatenation is in the order over all streams.
    """
    steps, ranks = _dense(tables, "step"), _name_ranks(tables, names)
    sorted_tables, classes = [], []
    for table, step, rank in zip(tables, steps, ranks, strict=True):
        plus = table.table.column("op").to_numpy() > 0
        group = (step * (len(names) + 1) + rank) * 2 + plus
        query = table.table.column("query").to_numpy()
        order = np.lexsort((query, key_ranks(table.table.column("key")), group))
        sorted_tables.append((table.stream_id, table.table.take(order)))
        classes.append(group[order])
    if len(tables) == 1:
        [(stream, only)] = sorted_tables
        return [OrderedRun(stream, only, only, 0)]
    return _interleave(sorted_tables, classes)


def _dense(tables: Sequence[UpdateTable], column: str) -> list[NDArray[np.int64]]:
    """Return a column's values as dense ranks that are common to all tables."""
    values = [table.table.column(column).to_numpy() for table in tables]
    distinct = np.unique(np.concatenate(values)) if values else np.empty(0, np.int64)
    return [np.searchsorted(distinct, value) for value in values]


def _name_ranks(tables: Sequence[UpdateTable], names: Mapping[int, str]) -> list[NDArray[np.int64]]:
    """Return the rank of each update's query name (by code points; equal names have equal ranks)."""
    ids = np.unique(np.concatenate([table.table.column("query").to_numpy() for table in tables]))
    present = [names[int(query)] for query in ids]
    rank_of = {name: rank for rank, name in enumerate(sorted(set(present)))}
    ranks = np.array([rank_of[name] for name in present], np.int64)
    return [ranks[np.searchsorted(ids, table.table.column("query").to_numpy())] for table in tables]


def _interleave(tables: list[tuple[int, pa.Table]], classes: list[NDArray[np.int64]]) -> list[OrderedRun]:
    """Merge sorted tables by their classes (step, name, op) into runs of rows of one stream."""
    source = np.repeat(np.arange(len(tables)), [len(group) for group in classes])
    merged = source[np.argsort(np.concatenate(classes), kind="stable")]
    edges = np.flatnonzero(np.diff(merged, prepend=-1))
    taken = [0] * len(tables)
    runs = []
    for start, stop in zip(edges, [*edges[1:], len(merged)], strict=True):
        which, length = int(merged[start]), int(stop - start)
        stream, table = tables[which]
        runs.append(OrderedRun(stream, table.slice(taken[which], length), table, taken[which]))
        taken[which] += length
    return runs
