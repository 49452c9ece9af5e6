"""Answers of queries, kept by folding the update log."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.client.connection import Connection
from stqsh.storage.rows import QueryRow
from stqsh.storage.update_log.files import LogCompactedError
from stqsh.storage.update_log.reader import UpdateLog, last_of_each_key

STEPS_KEPT = 1000
"""The number of latest steps for which updates are counted."""
_FOLD_AT = 200_000
"""Maximum number of updates of one query that are folded together while a long log is read."""
_MANY_CHUNKS = 64


def read_on(folds: list[AnswerFold], connection: Connection, after: int, up_to: int) -> list[AnswerFold]:
    """Fold the batches after `after` up to `up_to`; start over if the log was folded meanwhile."""
    while up_to > after:
        try:
            _take(folds, connection, after, up_to)
        except LogCompactedError:
            folds, after = [AnswerFold(fold.query) for fold in folds], -1
        else:
            break
    return folds


def _take(folds: list[AnswerFold], connection: Connection, after: int, up_to: int) -> None:
    """Fold the batches after `after` up to `up_to` into the folds.

    Raises:
        LogCompactedError: some of them no longer exist.
    """
    log = UpdateLog(connection.db, connection.book.key_of)
    ids = [fold.query.id for fold in folds]
    for tables in log.read(after, up_to, lambda found: np.isin(found, ids)):
        for fold in folds:
            for part in tables:
                if part.stream_id == fold.query.stream_id:
                    fold.take(part.table)
    for fold in folds:
        fold.settle()


class AnswerFold:
    """One query's answer, and the updates that have not been folded into it yet."""

    def __init__(self, query: QueryRow) -> None:
        self.query = query
        self.answer: pa.Table | None = None
        self.sent: dict[int, int] = {}
        self.total = 0
        self._pieces: list[pa.Table] = []
        self._waiting = 0

    def take(self, table: pa.Table) -> None:
        """Add the query's own rows of a table of updates."""
        own = table.filter(pa.array(table.column("query").to_numpy() == self.query.id))
        if not own.num_rows:
            return
        steps, counts = np.unique(own.column("step").to_numpy(), return_counts=True)
        self.sent = self.sent | dict(zip(steps.tolist(), counts.tolist(), strict=True))
        self.total += own.num_rows
        self._pieces.append(own)
        self._waiting += own.num_rows
        if self._waiting >= _FOLD_AT:
            self.settle()

    def settle(self) -> None:
        """Fold all pending updates into the answer."""
        if not self._pieces:
            return
        self.answer = folded(self.answer, pa.concat_tables(self._pieces, promote_options="default"))
        self._pieces, self._waiting = [], 0
        if len(self.sent) > 2 * STEPS_KEPT:
            self.sent = dict(sorted(self.sent.items())[-STEPS_KEPT:])


def folded(answer: pa.Table | None, updates: pa.Table) -> pa.Table:
    """Return an answer after more updates of its query: remaining rows in their order, then new ones."""
    # Only the last update of each key counts: `-` removes the row, `+` replaces it.
    last = last_of_each_key(updates)
    came = last.filter(pa.array(last.column("op").to_numpy() > 0))
    came = came.take(pc.sort_indices(came.column("step")))  # stable: by key within a step
    if answer is None or not answer.num_rows:
        return came
    touched: Any = pc.is_in(answer.column("key"), value_set=last.column("key").combine_chunks())
    stay = answer.filter(pc.invert(touched))
    new = pa.concat_tables([stay, came], promote_options="default")
    return new.combine_chunks() if new.column(0).num_chunks > _MANY_CHUNKS else new
