"""The outcome of WATCH: the current answers of some queries, folded from the log, and their updates."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stqsh.client.connection import Connection
from stqsh.client.read.accuracy import accuracies
from stqsh.client.results import Updates
from stqsh.storage.catalogue import query_now
from stqsh.storage.rows import Progress, QueryRow

if TYPE_CHECKING:
    from stqsh.client.read.answer_fold import AnswerFold

LOOK_EVERY_S = 0.5
"""How often the queries' states and the accuracy of their answers are checked."""


@dataclass(frozen=True, slots=True)
class AnswerState:
    """A query's answer after a step.

    Attributes:
        answer: its rows in order of arrival, the latest last; None if it never had any.
        sent: the number of updates by step, of the last `answer_fold.STEPS_KEPT` steps with updates.
        total: the number of updates of all steps.
        accuracy: the accuracy as a text, "" if the answer is exact.
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
    connection: Connection = field(repr=False)

    def standings(self) -> Iterator[tuple[Progress, tuple[AnswerState, ...]]]:
        """Yield the current answers after each batch and every `LOOK_EVERY_S`, without end. Not thread-safe.

        Raises:
            EngineDeadError: the engine has died.
            SourceError: a stream cannot be read.
        """
        from stqsh.client.read.answer_fold import AnswerFold, read_on  # numpy and pyarrow: only when needed

        folds, worth = [AnswerFold(query) for query in self.queries], {}
        after, looked = -1, float("-inf")
        for progress in self.connection.watch():
            is_due = time.monotonic() - looked >= LOOK_EVERY_S
            if progress.batch <= after and not is_due:
                continue
            rows = [query_now(self.connection.db, query) for query in self.queries]
            if is_due:
                looked, worth = time.monotonic(), accuracies(self.connection, rows)
            folds = read_on(folds, self.connection, after, progress.batch)
            after = max(after, progress.batch)
            texts = [worth[query.id].text() for query in rows]
            yield progress, tuple(map(self._standing, folds, rows, texts))

    def _standing(self, fold: AnswerFold, query: QueryRow, worth: str) -> AnswerState:
        answer = None
        if fold.answer is not None:
            stream = self.connection.book.stream(query.stream_id)
            answer = Updates(fold.answer, stream, {query.id: query}, True, self.connection.lookups)
        return AnswerState(query, answer, fold.sent, fold.total, "" if worth == "exact" else worth)
