"""The objects in the answers of some queries, folded from a few columns of the update log as it grows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.client.connection import Connection
from stqsh.client.read.group_keys import is_group_key
from stqsh.storage.update_log.files import LogCompactedError
from stqsh.storage.update_log.reader import UpdateLog

_COLUMNS = ["step", "query", "op", "key"]
_FOLD_AT = 200_000
"""Rows that are collected before they are folded, when a long log is read."""


class QueryMembers:
    """The answers of queries of one stream. The log is read once, from its beginning."""

    def __init__(self, link: Connection, stream_id: int) -> None:
        self._link, self._stream_id = link, stream_id
        self._log = UpdateLog(link.db, link.book.key_of)
        self._after = -1
        self._state: pa.Table | None = None

    def advance(self, up_to: int) -> None:
        """Take in the batches up to a number; from the beginning if the log was folded beyond them."""
        while self._after < up_to:
            try:
                self._take(up_to)
            except LogCompactedError:
                self._after, self._state = -1, None

    def _take(self, up_to: int) -> None:
        pieces: list[pa.Table] = []
        for tables in self._log.read(self._after, up_to, self._is_mine):
            pieces += [part.table.select(_COLUMNS) for part in tables if not is_group_key(part.table["key"])]
            if sum(piece.num_rows for piece in pieces) > _FOLD_AT:
                self._state, pieces = _folded(self._state, pieces), []
        if pieces:
            self._state = _folded(self._state, pieces)
        self._after = up_to

    def keys(self, query: int) -> pa.Array[Any] | None:
        """Return the keys in a query's answer; None if it never had any."""
        if self._state is None:
            return None
        mine = np.flatnonzero(self._state.column("query").to_numpy() == query)
        return self._state.column("key").combine_chunks().take(mine)

    def keys_of_any(self, queries: Collection[int]) -> pa.Array[Any] | None:
        """Return the keys in the answers of any of some queries."""
        if self._state is None:
            return None
        mine = np.isin(self._state.column("query").to_numpy(), np.array([*queries], np.int64))
        return self._state.column("key").combine_chunks().filter(pa.array(mine))

    def _is_mine(self, queries: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether queries, by id, read the stream; bool (n,)."""
        rows = self._link.db.query("SELECT id FROM queries WHERE stream_id = ?", self._stream_id)
        return np.isin(queries, np.array([number for (number,) in rows], np.int64))


def _folded(state: pa.Table | None, pieces: list[pa.Table]) -> pa.Table:
    """Return the rows (step, query, op, key) of the members after all updates; `state` was before them."""
    log = pa.concat_tables([*([] if state is None else [state]), *pieces]).combine_chunks()
    order = np.lexsort((log.column("op").to_numpy(), log.column("step").to_numpy()))
    grouped = log.take(order).group_by(["query", "key"], use_threads=False)
    last = grouped.aggregate([("step", "last"), ("op", "last")])
    last = last.filter(pa.array(last.column("op_last").to_numpy() > 0))
    columns = [last.column(name) for name in ("step_last", "query", "op_last", "key")]
    return pa.Table.from_arrays(columns, names=_COLUMNS).cast(log.schema)
