"""Follow queries: read updates as the engine delivers them; a TAIL begins with the current answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from stqsh.client.connection import Connection
from stqsh.client.read.accuracy import AccuracyWatch
from stqsh.client.results import SnapshotMark, TablePlace, Updates
from stqsh.spec.expression import Expr
from stqsh.storage.catalogue import query_now
from stqsh.storage.catalogue_writer import drop_if_live
from stqsh.storage.layouts import PLAYING
from stqsh.storage.rows import Progress, QueryRow
from stqsh.storage.update_log.files import CompactedBase, LogCompactedError, read_base
from stqsh.storage.update_log.leases import Lease
from stqsh.units import format_instant

if TYPE_CHECKING:
    import pyarrow as pa

    from stqsh.storage.update_log.reader import Keep, UpdateLog

OnIdle = Callable[[Progress], None]
"""Called with the engine's progress at each poll, so that the terminal can show activity."""


@dataclass(frozen=True, slots=True)
class TailOptions:
    """Where a TAIL begins and what it shows.

    Attributes:
        from_step: the first step shown (0: from the start).
        only: +1 or -1 for one kind of update.
        where: a bound condition on the columns of the stream and of a joined table, and DISTANCE.
        limit: the maximum number of rows.
        from_us: the time from which updates are shown, starting with the tick that contains it.
        since_us: how far before the last step updates begin. Without `from_step`, `from_us` and `since_us`,
            the current answer and new updates are shown.
    """

    from_step: int | None = None
    only: Literal[1, -1] | None = None
    where: Expr | None = None
    limit: int | None = None
    from_us: int | None = None
    since_us: int | None = None

    @property
    def is_from_now(self) -> bool:
        """Whether updates begin with the current answer."""
        return self.from_step is None and self.from_us is None and self.since_us is None

    def first_step(self, start: Progress) -> int | None:
        """Return the first requested step; None for the step after the last one."""
        after = self.from_us
        if self.since_us is not None:
            at_us = start.at_us()
            # The boundary itself is excluded, as in `ts > NOW - 10 min`.
            after = None if at_us is None else at_us - self.since_us + (start.tick_us or 0)
        if after is None or start.base_tick is None or start.tick_us is None:
            return self.from_step if self.is_from_now else self.from_step or 0
        return max(0, after // start.tick_us - start.base_tick + 1)


class UpdateReader:
    """Reads the update log after batch `after`; `keep` selects queries (all of them by default).

    As a context manager, it protects unread updates from being folded.
    """

    def __init__(self, connection: Connection, after: int, keep: Keep | None = None) -> None:
        from stqsh.storage.update_log.reader import UpdateLog

        self._connection = connection
        self._log: UpdateLog = UpdateLog(connection.db, connection.book.key_of)
        self._keep = keep
        self._lease: Lease | None = None
        self.after = after

    def __enter__(self) -> Self:
        self._lease = Lease(self._connection.home, self.after)
        return self

    def __exit__(self, *_: object) -> None:
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def poll(self, up_to: int) -> Iterator[Updates]:
        """Yield the updates of the batches up to `up_to` that have not been read yet, in order.

        Raises:
            LogCompactedError: some of them no longer exist; the next call continues after them.
        """
        from stqsh.storage.update_log.order import ordered_runs

        if 0 <= self.after < (base := self.base().batch):
            self.after = base
            raise LogCompactedError
        for tables in self._log.read(self.after, up_to, self._keep):
            self.after = tables[0].batch
            self._connection.book.refresh()
            book, lookups = self._connection.book, self._connection.lookups
            for run in ordered_runs(tables, book.names):
                queries, stream = _Occurring(run.table, book.queries), book.stream(run.stream_id)
                place = TablePlace(run.table, run.whole, run.begin)
                yield Updates(run.table, stream, queries, lookups=lookups, place=place)
        self.after = max(self.after, up_to)
        if self._lease is not None:
            self._lease.advance(self.after)

    def base(self) -> CompactedBase:
        """Return how far the log is folded: the last folded batch and step."""
        return read_base(self._connection.db)

    def answer_at(self, query: QueryRow, step: int, up_to: int) -> pa.Table | None:
        """Return the answer of a query after a step, from the batches up to `up_to`; None if it is empty."""
        if self._connection.book.keeps_none(query.stream_id):
            return None
        return self._log.answer_at(query.id, step, up_to)


class _Occurring(Mapping[int, QueryRow]):
    """The queries with rows in a table of updates, by id; `rows` reads each one on demand."""

    def __init__(self, table: pa.Table, rows: Mapping[int, QueryRow]) -> None:
        self._table, self._rows = table, rows

    @cached_property
    def _ids(self) -> list[int]:
        ids: list[int] = self._table.column("query").unique().to_numpy().tolist()
        return ids

    def __getitem__(self, query_id: int) -> QueryRow:
        return self._rows[query_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


@dataclass
class Subscription:
    """The outcome of TAIL and SUBSCRIBE: an iterator over marks and updates of one query.

    It begins with the current answer between two `SnapshotMark`s. It ends when the query has ended or was
    dropped, when `limit` rows have been yielded, or, with `until_idle` (scripts), when no step is due.
    `close` drops the query if it is `temporary`; otherwise it has no effect on the query. `on_notice` is
    called with a text if the answer is empty or not exact, or the query has not begun; `accuracy_text` is the
    current text. `why_empty` returns why nothing is in the answer now, "" if the reason is unknown.
    """

    query: QueryRow
    options: TailOptions
    connection: Connection = field(repr=False)
    temporary: bool = False
    until_idle: bool = False
    on_idle: OnIdle | None = None
    on_notice: Callable[[str], None] | None = None
    why_empty: Callable[[], str] | None = None
    not_begun: ClassVar[str] = (
        "{}: no step has come since it was registered, so its answer is empty; RUN or PLAY lets time go on"
    )
    _watch: AccuracyWatch | None = field(default=None, init=False)
    _shown: int = field(default=0, init=False)
    _closed: bool = field(default=False, init=False)

    def __iter__(self) -> Iterator[Updates | SnapshotMark]:
        with UpdateReader(self.connection, -1, lambda ids: ids == self.query.id) as reader:
            start = self._begun() if self.temporary else self.connection.progress()
            self._look()
            if self.on_notice is not None and _waits_for_step(self.connection, start, self.query):
                self.on_notice(self.not_begun.format(self.query.name))
            first = self._first_step(start, reader.base().step)
            if self.options.is_from_now or first > 1:
                yield from self._snapshot(reader, start, first - 1)
            if first > start.step:
                reader.after = start.batch
            yield from self._live(reader, first)

    def _begun(self) -> Progress:
        return wait_for_begin(self.connection, self.query, self.on_idle, lambda: self._closed)

    def _first_step(self, start: Progress, folded: int) -> int:
        """Return the first step whose updates are shown; up to `folded` there are no individual updates."""
        asked = self.options.first_step(start)
        if asked is None:
            return start.step + 1
        if 0 < folded >= asked and self.on_notice is not None:
            self.on_notice(
                f"{self.query.name}: updates up to step {folded} are kept as the answer that they made, "
                "no longer one by one"
            )
        if asked > start.step + 1 and self.on_notice is not None:
            moment = self.options.from_us
            begin = f"step {asked}" if moment is None else format_instant(moment)
            self.on_notice(
                f"{self.query.name}: {begin} is yet to come; what follows begins after step {start.step}"
            )
        return min(max(asked, folded + 1), start.step + 1)

    @property
    def accuracy_text(self) -> str:
        """The status line's text about the answer's current accuracy, "" if it is exact."""
        return "" if self._watch is None else self._watch.text

    def _look(self) -> None:
        """Check the answer's accuracy."""
        if self._watch is None:
            self._watch = AccuracyWatch(self.connection, self.query)
        notice = self._watch.look()
        if notice and self.on_notice is not None:
            self.on_notice(f"{self.query.name}: {notice}")

    def close(self) -> None:
        """Stop following the query, and drop it if it is temporary."""
        if self._closed:
            return
        self._closed = True
        if self.temporary:
            drop_if_live(self.connection.db, self.query)

    def _snapshot(self, reader: UpdateReader, start: Progress, step: int) -> Iterator[Updates | SnapshotMark]:
        at_us = start.at_us(step)
        yield SnapshotMark(self.query, step, at_us, "begin")
        answer = reader.answer_at(self.query, step, start.batch)
        if answer is not None:
            from stqsh.client.read.projection import at_step  # pyarrow

            yield from self._show(self._updates(at_step(answer, step, at_us), snapshot=True), first=step)
        elif self.options.is_from_now and not _waits_for_step(self.connection, start, self.query):
            self._explain_absence()
        yield SnapshotMark(self.query, step, at_us, "end")

    def _explain_absence(self) -> None:
        """Report why the answer is empty, if that is known."""
        if self.on_notice is None or self.why_empty is None:
            return
        if reason := self.why_empty():
            self.on_notice(f"{self.query.name} is empty now: {reason}")

    def _live(self, reader: UpdateReader, first: int) -> Iterator[Updates]:
        for progress in self.connection.watch():
            over = self._is_over(progress)
            for updates in reader.poll(self.connection.progress().batch if over else progress.batch):
                yield from self._show(updates, first)
                if self._full():  # do not read the rest of a long log
                    return
            self._look()
            if over:
                return
            if self.on_idle is not None:
                self.on_idle(progress)

    def _is_over(self, progress: Progress) -> bool:
        """Return whether no update of the query can follow the batch of `progress`."""
        if self._closed or self._full():
            return True
        now = query_now(self.connection.db, self.query)
        if now.state == "ended" or (now.state == "dropped" and now.seq <= progress.seq):
            return True
        return self.until_idle and _is_idle(self.connection, progress, self.query)

    def _show(self, updates: Updates, first: int) -> Iterator[Updates]:
        from stqsh.client.read.projection import selected  # pyarrow

        shown = selected(updates, self.options, first)
        if self.options.limit is not None:
            shown = replace(shown, table=shown.table.slice(0, self.options.limit - self._shown))
        self._shown += shown.table.num_rows
        if shown.table.num_rows:
            yield shown

    def _full(self) -> bool:
        return self.options.limit is not None and self._shown >= self.options.limit

    def _updates(self, table: pa.Table, *, snapshot: bool) -> Updates:
        stream = self.connection.book.stream(self.query.stream_id)
        return Updates(table, stream, {self.query.id: self.query}, snapshot, self.connection.lookups)


def wait_for_begin(
    connection: Connection,
    query: QueryRow,
    on_idle: OnIdle | None = None,
    is_closed: Callable[[], bool] = lambda: False,
) -> Progress:
    """Wait for the step with which a new query begins, if one is due: the answer is empty before it."""
    looks = connection.watch()
    progress = next(looks)
    while progress.seq < query.seq and not is_closed() and not _is_idle(connection, progress, query):
        if on_idle is not None:
            on_idle(progress)
        progress = next(looks)
    return progress


def _waits_for_step(connection: Connection, progress: Progress, query: QueryRow) -> bool:
    """Return whether a query begins with the next step but no step is due."""
    return progress.seq < query.seq and _is_idle(connection, progress, query)


def _is_idle(connection: Connection, progress: Progress, query: QueryRow) -> bool:
    """Return whether no step is due: no RUN is open and no stream plays.

    An end in the progress may date from before the last PLAY; live streams have a step after that.
    """
    last = dict(connection.db.query(f"SELECT kind, max(seq) FROM log WHERE {PLAYING} GROUP BY kind"))
    run, play, pause = (last.get(kind, 0) for kind in ("run", "play", "pause"))
    has_ended = progress.ended and (
        progress.seq >= play or not connection.book.stream(query.stream_id).spec.is_live
    )
    return progress.run_done >= run and (has_ended or play <= pause)
