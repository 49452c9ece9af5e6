"""The outcome of WATCH: the current answers of some queries, kept from the update log, and their updates."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stqsh.client.connection import Connection
from stqsh.client.read.accuracy import accuracies
from stqsh.client.results import Updates
from stqsh.storage.catalogue import query_by_id
from stqsh.storage.rows import Progress, QueryRow
from stqsh.storage.update_log.files import LogCompactedError

if TYPE_CHECKING:
    import pyarrow as pa

LOOK_EVERY_S = 0.5
"""How often the queries' states and the accuracy of their answers are checked."""
STEPS_KEPT = 1000
"""The number of latest steps for which updates are counted."""
_FOLD_AT = 200_000
"""Maximum number of updates of one query that are folded together while a long log is read."""
_MANY_CHUNKS = 64


@dataclass(frozen=True, slots=True)
class AnswerState:
    """A query's answer after a step.

    Attributes:
        answer: its rows in order of arrival, the latest last; None while it never had any.
        sent: updates by step, of the last `STEPS_KEPT` steps that sent any.
        total: updates of all steps.
        accuracy: in words, "" if the answer is exact.
    """

    query: QueryRow
    answer: Updates | None = None
    sent: dict[int, int] = field(default_factory=dict)
    total: int = 0
    accuracy: str = ""

    @property
    def size(self) -> int:
        """The number of rows of the answer."""
        return 0 if self.answer is None else self.answer.table.num_rows


@dataclass(frozen=True, slots=True)
class WatchFeed:
    """The outcome of WATCH: `standings` follows these queries without any effect on them."""

    queries: tuple[QueryRow, ...]
    link: Connection = field(repr=False)

    def standings(self) -> Iterator[tuple[Progress, tuple[AnswerState, ...]]]:
        """Yield the current answers, after each batch and every `LOOK_EVERY_S`, without end; for one thread.

        Raises:
            EngineDeadError: the engine has died.
            SourceError: a stream cannot be read.
        """
        folds, worth = self._begun(), {}
        after, looked = -1, float("-inf")
        for progress in self.link.watch():
            is_due = time.monotonic() - looked >= LOOK_EVERY_S
            if progress.batch <= after and not is_due:
                continue
            rows = [query_by_id(self.link.db, query.id) for query in self.queries]
            if is_due:
                looked, worth = time.monotonic(), accuracies(self.link, rows)
            folds = self._read(folds, after, progress.batch)
            after = max(after, progress.batch)
            texts = [worth[query.id].text() for query in rows]
            yield progress, tuple(map(self._standing, folds, rows, texts))

    def _begun(self) -> list[_Fold]:
        return [_Fold(query) for query in self.queries]

    def _read(self, folds: list[_Fold], after: int, up_to: int) -> list[_Fold]:
        """Take in batches after one, up to another; from the beginning if the log has since been folded."""
        while up_to > after:
            try:
                self._take(folds, after, up_to)
            except LogCompactedError:
                folds, after = self._begun(), -1
            else:
                break
        return folds

    def _take(self, folds: list[_Fold], after: int, up_to: int) -> None:
        import numpy as np

        from stqsh.storage.update_log.reader import UpdateLog

        log = UpdateLog(self.link.db, self.link.book.key_of)
        ids = [fold.query.id for fold in folds]
        for tables in log.read(after, up_to, lambda found: np.isin(found, ids)):
            for fold in folds:
                for part in tables:
                    if part.stream_id == fold.query.stream_id:
                        fold.take(part.table)
        for fold in folds:
            fold.settle()

    def _standing(self, fold: _Fold, query: QueryRow, worth: str) -> AnswerState:
        answer = None
        if fold.answer is not None:
            stream = self.link.book.stream(query.stream_id)
            answer = Updates(fold.answer, stream, {query.id: query}, True, self.link.lookups)
        return AnswerState(query, answer, fold.sent, fold.total, "" if worth == "exact" else worth)


class _Fold:
    """One query's answer, and the updates that are not folded into it yet."""

    def __init__(self, query: QueryRow) -> None:
        self.query = query
        self.answer: pa.Table | None = None
        self.sent: dict[int, int] = {}
        self.total = 0
        self._pieces: list[pa.Table] = []
        self._waiting = 0

    def take(self, table: pa.Table) -> None:
        """Take the query's own rows from some updates."""
        import numpy as np
        import pyarrow as pa

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
        """Fold in all pending updates."""
        if not self._pieces:
            return
        import pyarrow as pa

        self.answer = folded(self.answer, pa.concat_tables(self._pieces, promote_options="default"))
        self._pieces, self._waiting = [], 0
        if len(self.sent) > 2 * STEPS_KEPT:
            self.sent = dict(sorted(self.sent.items())[-STEPS_KEPT:])


def folded(answer: pa.Table | None, updates: pa.Table) -> pa.Table:
    """Return an answer after more updates of its query: rows that stay in their order, then new ones."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from stqsh.storage.update_log.reader import last_of_each_key

    last = last_of_each_key(updates)
    came = last.filter(pa.array(last.column("op").to_numpy() > 0))
    came = came.take(pc.sort_indices(came.column("step")))  # stable: by key within a step
    if answer is None or not answer.num_rows:
        return came
    touched: Any = pc.is_in(answer.column("key"), value_set=last.column("key").combine_chunks())
    stay = answer.filter(pc.invert(touched))
    new = pa.concat_tables([stay, came], promote_options="default")
    return new.combine_chunks() if new.column(0).num_chunks > _MANY_CHUNKS else new
