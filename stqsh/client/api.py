"""`stqsh.connect()`: the Python API, which the shell and `stqsh run` use as well.

Statements are appended to the control log, which the engine, a separate process, reads. The updates of
queries are read from the update log. The examples below run in one session, which has the stream `taxis` of
the sample data.

>>> made = session.sql("REGISTER QUERY near AS SELECT oid FROM taxis NEAREST 1 TO 'ambulance';")
>>> run = session.sql("RUN FOR 10 s;")
>>> for update in session.tail("near", from_start=True, limit=1):
...     print(update.step, update.op, update.key)
1 + taxi-000
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from stqsh.arrow_alone import keep_pandas_out
from stqsh.client.connection import Connection
from stqsh.client.engine_process import OnProgress, stop_engine, wait_until_ready
from stqsh.client.read.accuracy import Summary, summary
from stqsh.client.read.snapshots import SnapshotReader
from stqsh.client.read.subscription import OnIdle, UpdateReader
from stqsh.client.results import BulkRegistration, Outcome, Updates, WaitNotice
from stqsh.client.run import RunHandle
from stqsh.client.sink_wait import finish_sinks
from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.dispatch import groups_of, parsed, performed, rows_to_come, start_run
from stqsh.lang.ast import statements as ast
from stqsh.profile import Profile, load_profile
from stqsh.spec.log import LogKind, RunSteps, RunToEnd
from stqsh.storage.catalogue import (
    count_queries,
    live_areas,
    live_queries,
    live_streams,
    live_tables,
    owned_queries,
)
from stqsh.storage.catalogue_writer import add_function, drop_if_live
from stqsh.storage.control_log import ControlDb, check_queries, entries_after
from stqsh.storage.engine_info import EngineInfo
from stqsh.storage.home import SessionHome, open_home, remove_home, sessions_root
from stqsh.storage.orphans import claim_session, drop_orphans, remove_orphans
from stqsh.storage.rows import AreaRow, Progress, QueryRow, StreamRow, TableRow
from stqsh.storage.session_settings import session_settings, touch, use_profile

if TYPE_CHECKING:
    from stqsh.client.opening import Opening
    from stqsh.client.python.result import Result
    from stqsh.client.python.sources import NewStream, Roles
    from stqsh.client.python.tail import Tail

_TEMPORARY_STOP_S = 5.0
"""How long the engine of a temporary session may take to stop by itself."""

_OWED: tuple[LogKind, ...] = (
    "register",
    "register_alike",
    "drop",
    "pause_query",
    "resume_query",
    "alter_query",
)


def connect(
    name: str | None = None,
    *,
    home: str | os.PathLike[str] | None = None,
    temporary: bool = False,
    profile: str | None = None,
    autoplay: bool = True,
    allow_run: bool = False,
) -> Session:
    """Open a session, and create it if there is none.

    The engine starts with the first statement that needs it. It keeps running when a session that is not
    temporary is closed.

    Args:
        name: the name of the session, "default" without one.
        home: the folder of the sessions; by default `STQSH_HOME`, the profile, or the system's place.
        temporary: whether to make a session that is deleted when it is closed.
        profile: the name or the path of the settings.
        autoplay: whether streams play as soon as they are created, unless the profile says otherwise;
            without it they wait for RUN.
        allow_run: whether scripts (statements of a file, or without `autoplay`) may run commands
            (alerts) and Python code (CREATE FUNCTION).

    Raises:
        HomeError: the session's folder cannot be used.
        ProfileError: the profile cannot be read.

    >>> import stqsh
    >>> with stqsh.connect(temporary=True, autoplay=False) as temporary:
    ...     temporary.streams()
    []
    """
    keep_pandas_out()
    settings = load_profile(profile)
    root = sessions_root(home, default=settings.text("session.home_root") or None)
    if temporary:
        remove_orphans(root)
    found = open_home(name, root=root, temporary=temporary)
    storage = settings.text("session.storage")
    if storage and not temporary:
        from stqsh.sources.session_rebuild import rebuild_home  # pyarrow

        rebuild_home(found, storage)
    return Session(found, settings, autoplay=autoplay, allow_run=allow_run)


class Session:
    """An open session; a context manager that closes it."""

    def __init__(
        self,
        home: SessionHome,
        profile: Profile,
        *,
        autoplay: bool = True,
        allow_run: bool = False,
        connection: Connection | None = None,
    ) -> None:
        self.home = home
        self.connection = connection or Connection(home, ControlDb(home.path, create=True))
        check_queries(self.connection.db)
        use_profile(self.connection.db, profile)
        settings = session_settings(self.connection.db, profile)
        self.connection.db.set_durable(settings.text("durability") == "disk")
        self.snapshots = SnapshotReader(self.connection, profile)
        plays = autoplay and settings.flag("shell.autoplay")
        self._context = StatementContext(
            self.connection,
            profile,
            plays,
            self.snapshots,
            is_script=not autoplay,
            allow_run=allow_run,
        )
        self._reader: UpdateReader | None = None
        self._read_from = self.connection.progress().batch
        self._is_closed = self._is_touched = False
        drop_orphans(self.connection.db)
        if home.temporary:
            claim_session(self.connection.db)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.home.temporary and error is None and not self._is_closed:
                finish_sinks(self.connection)
        finally:
            self.close()

    def sql(self, text: str) -> Result:
        """Execute statements, and return the rows of the last one that has any.

        The result has `.df()` (pandas), `.arrow()`, `.geo()` (geopandas), `.rows()` (dicts) and `.text`;
        notebooks show it as a table and a map. `sql` waits for each RUN to finish.

        Raises:
            StqshError: a statement fails, or never ends, such as TAIL; use `tail` for those.

        >>> session.sql("SELECT COUNT(*) AS free FROM taxis WHERE status = 'free'").rows()
        [{'free': 100}]
        """
        from stqsh.client.python.result import sql  # pyarrow

        return sql(self, text)

    def tail(
        self,
        query: str,
        *,
        from_start: bool = False,
        only: Literal["+", "-"] | None = None,
        where: str | None = None,
        limit: int | None = None,
    ) -> Tail:
        """Follow the updates of a query, with `for` or `async for`.

        Args:
            query: the name of a registered query; or a SELECT, which is registered for as long as it is
                followed.
            from_start: begin with the oldest update that is kept, instead of the current answer.
            only: return only updates of this kind.
            where: a condition on the rows, as in TAIL.
            limit: the maximum number of updates.

        Raises:
            StqshError: there is no such query, or an argument is wrong.

        >>> for update in session.tail("near", limit=1):
        ...     print(update.op, update.key, update.row, update.is_snapshot)
        + taxi-000 {'oid': 'taxi-000'} True
        """
        from stqsh.client.python.tail import TailWish, tail  # pyarrow

        return tail(self, query, TailWish(from_start, only, where, limit))

    def stream_from(
        self,
        data: Any,
        name: str | None = None,
        *,
        kind: Literal["moving", "event"] = "moving",
        options: str = "",
        **roles: Unpack[Roles],
    ) -> NewStream:
        """Create a stream from a table in memory, from files, or from an iterator.

        A table and files are replayed by the times of their records, with RUN and PLAY. An iterator makes a
        live stream: a thread reads the iterator, and each record has the time at which it was yielded. The
        columns and their types are inferred from the records of the first second, at most 1,000.

        Args:
            data: a pandas DataFrame, a GeoDataFrame of points, a pyarrow Table, a dict of columns or a list
                of dicts; or the path of files, which may be a pattern; or an iterator of dicts or of tables.
            name: the stream's name; by default that of the file, else `stream`, `stream_2`, ….
            kind: "moving" objects, or "event"s.
            options: what CREATE STREAM takes after its source, such as `TICK 1 s REPORT EVERY 30 s`.
            roles: the columns for roles that cannot be inferred from their names: `key`, `location` (a pair),
                `time`, `text`.

        Returns:
            The stream's name and the messages of CREATE STREAM; `wait()` waits for the end of an iterator.

        Raises:
            StqshError: the data cannot be made a stream.

        >>> reports = {"id": ["a", "b"], "lon": [10.0, 10.1], "lat": [50.0, 50.1], "ts": ["2025-06-14"] * 2}
        >>> session.stream_from(reports, "cars").name
        'cars'
        >>> session.sql("DROP STREAM cars")
        stream cars dropped
        """
        from stqsh.client.python.sources import StreamWish, stream_from  # pyarrow

        return stream_from(self, self._context, data, StreamWish(name, kind, options, roles))

    def execute(self, text: str | Sequence[ast.Statement], *, file: str | None = None) -> list[Outcome]:
        """Execute the statements of a text (or parsed ones) in order, and return their outcomes.

        All statements, and every RUN, have finished when this returns. `outcomes` yields the outcomes one
        by one.

        Args:
            text: the statements.
            file: the script's name, for errors and for the files that it names.

        Raises:
            StqshError: a statement fails; those before it stay done.

        >>> [answer] = session.execute("SELECT COUNT(*) AS free FROM taxis WHERE status = 'free';")
        >>> answer.step, answer.table.to_pylist()
        (10, [{'free': 100}])
        """
        return list(self.outcomes(text, file=file))

    def outcomes(
        self,
        text: str | Sequence[ast.Statement],
        *,
        file: str | None = None,
        on_statement: Callable[[int], None] | None = None,
    ) -> Iterator[Outcome]:
        """Execute statements lazily, as their outcomes are consumed; otherwise like `execute`.

        Nothing is executed before the whole text has been parsed. The next statement waits for a RUN to
        finish (the caller may wait for it first, and read updates meanwhile).

        Args:
            text: the statements.
            file: the script's name.
            on_statement: called with the number, from 1, of the statement whose outcomes follow (the first
                of a group that is executed together).

        Raises:
            StqshError: a statement fails; those before it stay done.

        >>> for outcome in session.outcomes("SHOW REGIONS; SHOW TABLES;"):
        ...     print(outcome.title)
        regions
        tables
        """
        statements = parsed(text, file) if isinstance(text, str) else text
        context = replace(self._context, script=file)
        number = 1
        for group in groups_of(statements):
            if on_statement is not None:
                on_statement(number)
            number += len(group)
            yield from performed(context, group, number - 1)
            if not self._is_touched:
                touch(self.connection.db)
                self._is_touched = True

    def register_many(self, template: str, table: Any) -> BulkRegistration:
        """Register a continuous query for each row of a table.

        Args:
            template: a SELECT, or REGISTER QUERIES without FROM; `:name` is replaced by the row's value in
                that column.
            table: a pyarrow Table, a pandas DataFrame, a dict of columns, or a list of dicts. The column of
                KEY, or else a column `name`, names the queries; without both they are query_1, query_2, … by
                row number.

        Returns:
            The number of registered queries, and the rows that make no valid query.

        Raises:
            StqshError: the template is wrong, or no row makes a query.

        >>> areas = {"name": ["west", "east"], "x1": [10.02, 10.03], "x2": [10.03, 10.04]}
        >>> made = session.register_many("SELECT oid FROM taxis INSIDE RECT(:x1, 50.0, :x2, 50.02)", areas)
        >>> [query.name for query in session.queries()][-2:]
        ['west', 'east']
        >>> dropped = session.execute("DROP QUERY west; DROP QUERY east;")
        """
        from stqsh.client.statements.register_queries import register_many  # pyarrow

        return register_many(self._context, template, table)

    def register_function(
        self, name: str, function: Callable[..., Any], *, returns: str | None = None
    ) -> None:
        """Register a Python function for select lists, conditions and groups, see `stqsh.client.functions`.

        Args:
            name: its name, in any case.
            function: takes an Arrow array for each argument, and returns a column with the same number of
                values.
            returns: STRING, BIGINT, DOUBLE or BOOLEAN; by default the type of the function's return
                annotation, or of its result for a text.

        Raises:
            StqshError: the name is invalid or in use, or the function cannot be sent to the engine.

        >>> import pyarrow.compute as pc
        >>> session.register_function("kmh", lambda speeds: pc.multiply(speeds, 3.6), returns="DOUBLE")
        >>> [answer] = session.execute("SELECT COUNT(*) AS fast FROM taxis WHERE KMH(speed) > 60;")
        >>> answer.table.to_pylist()
        [{'fast': 37}]
        """
        from stqsh.client.functions import function_spec  # pyarrow, cloudpickle

        add_function(self.connection.db, function_spec(name, function, returns))

    def finish_script(self, on_wait: Callable[[WaitNotice], None] | None = None) -> RunHandle | None:
        """Log the RUN that the end of a script implies (language.md, "Running"), and return it.

        With continuous queries over finite streams, this is a RUN to the end. Otherwise, if commands about
        queries wait for a step, it is a RUN of one step, which delivers their updates. Like every RUN, it
        begins once a query stream has all rows from standard input.

        Args:
            on_wait: called before a wait for these rows.

        Returns:
            None if there is nothing to wait for.

        >>> import stqsh
        >>> with stqsh.connect(temporary=True, autoplay=False) as script:
        ...     script.finish_script() is None
        True
        """
        for notice in rows_to_come(self.connection):
            if on_wait is not None:
                on_wait(notice)
        streams, progress = live_streams(self.connection.db), self.connection.progress()
        queries = count_queries(self.connection.db)
        if queries and not any(self._context.is_endless(stream) for stream in streams):
            return start_run(self._context, "", RunToEnd())
        pending = entries_after(self.connection.db, progress.seq, _OWED)
        if pending and streams and (queries or progress.step):
            return start_run(self._context, "", RunSteps(1))
        return None

    def updates(
        self, *, until: RunHandle | None = None, from_start: bool = False, on_idle: OnIdle | None = None
    ) -> Iterator[Updates]:
        """Yield the updates of all queries, in order, as the engine delivers them; each once per session.

        The first call begins with the updates delivered after `connect`, later calls where the last one
        stopped. During a call, unread updates are kept; between two calls they may be folded
        (`updates.keep`).

        Args:
            until: end when this RUN is done and all its updates have been yielded; None never ends.
            from_start: begin at the beginning of the log.
            on_idle: called with the progress at each poll.

        Raises:
            EngineDeadError: the engine has died.
            SourceError: a stream cannot be read.
            LogCompactedError: updates that have not been read have been folded.

        >>> [run] = session.execute("RUN FOR 20 s;")
        >>> [updates.table["key"].to_pylist() for updates in session.updates(until=run)]
        [['taxi-000'], ['taxi-000', 'taxi-081']]
        """
        if self._reader is None or from_start:
            self._reader = UpdateReader(self.connection, -1 if from_start else self._read_from)
        with self._reader as reader:
            for progress in self.connection.watch():
                yield from reader.poll(progress.batch)
                if until is not None and progress.run_done >= until.seq:
                    self.connection.check_streams()  # a failure may be newer than the last check
                    return
                if on_idle is not None:
                    on_idle(progress)

    def progress(self) -> Progress:
        """Return the engine's progress; cheap enough to be called often.

        >>> session.progress().step
        30
        """
        return self.connection.progress()

    def queries(self, most: int = -1) -> list[QueryRow]:
        """Return the live queries, or only the last `most` of them, because there may be very many.

        >>> [query.name for query in session.queries()]
        ['near']
        """
        return live_queries(self.connection.db, most)

    def streams(self) -> list[StreamRow]:
        """Return the live streams.

        >>> [stream.name for stream in session.streams()]
        ['taxis']
        """
        return live_streams(self.connection.db)

    def tables(self) -> list[TableRow]:
        """Return the live tables.

        >>> session.tables()
        []
        """
        return live_tables(self.connection.db)

    def settings(self) -> Profile:
        """Return the settings in force: those of the profile, overridden by SET.

        >>> session.settings()["updates.keep"].value
        '1 GB'
        """
        return session_settings(self.connection.db, self._context.profile)

    def attend(self) -> None:
        """Mark the session as interactive: TAIL does not end, and MAP is live, even while streams wait."""
        self._context = replace(self._context, is_script=False)

    def plan_opening(self, words: Sequence[str]) -> Opening:
        """Return how files, folders and patterns would be opened, without creating anything.

        Raises:
            StqshError: there are no such files, or they cannot be opened.

        >>> session.plan_opening(["sample_data/chat.jsonl"]).files[0].kind
        'events'
        """
        from stqsh.client.opening import open_files  # pyarrow: only when needed

        return open_files(self._context, words)

    def areas(self) -> list[AreaRow]:
        """Return the live regions and sets of regions.

        >>> session.areas()
        []
        """
        return live_areas(self.connection.db)

    def accuracy(self) -> Summary:
        """Return how accurate the answers of all active queries are.

        >>> session.accuracy().approximate
        0
        """
        return summary(self.connection)

    def start_engine(self, on_progress: OnProgress | None = None, *, wait: bool = True) -> EngineInfo:
        """Start the engine, or find the running one, and by default wait until it is ready.

        `on_progress` is called with short texts about the start.

        Raises:
            EngineDeadError: the engine does not start; its text is the reason.

        >>> session.start_engine(wait=False).state
        'ready'
        """
        info = self.connection.restart()
        return wait_until_ready(self.home, on_progress) if wait else info

    def close(self) -> None:
        """Close the session; a temporary one is stopped and deleted, any other keeps running.

        Closing it again does nothing.

        >>> import stqsh
        >>> temporary = stqsh.connect(temporary=True)
        >>> temporary.close()
        >>> temporary.home.path.exists()
        False
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if not self.home.temporary:
                self.snapshots.save()
            for query in owned_queries(self.connection.db):
                if query.id in self._context.subscribed:
                    drop_if_live(self.connection.db, query)
        finally:
            _leave(self.home, self.connection.db)


def _leave(home: SessionHome, db: ControlDb) -> None:
    """Close a connection to a session; stop and delete a temporary session."""
    try:
        if home.temporary:
            stop_engine(home, _TEMPORARY_STOP_S)  # the output of a batch under way is deleted anyway
    finally:
        db.close()
    if home.temporary:
        remove_home(home)
