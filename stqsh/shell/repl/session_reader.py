"""Opens a session for the prompt, and summarizes its state for the toolbar and for completion.

The session thread imports this module, so that the prompt does not wait for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stqsh.client.api import connect
from stqsh.client.read.live_keys import LiveKeys, warm_up
from stqsh.lang.syntax import highlight
from stqsh.lang.syntax.expected import expected
from stqsh.shell.repl.session_thread import SessionSummary
from stqsh.shell.status import engine_text, explain_engine_death, restart_text, takes_steps
from stqsh.storage.catalogue import definitions_version, known_functions, known_views
from stqsh.storage.engine_info import is_alive, read_engine
from stqsh.storage.queries.query_streams import live_query_streams
from stqsh.storage.sinks.notices import NoticeReader
from stqsh.storage.sinks.sink_catalogue import live_alerts, written_sinks

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.spec.query import QuerySpec

__all__ = ["LiveKeys", "NoticeReader", "SummaryReader", "open_session", "warm_up"]

_PROMPT_USES = (highlight,)
"""Modules that the prompt uses as soon as they are loaded."""
_MOST_KNOWN = 10_000
"""The maximum number of query names for completion: the latest ones."""


def open_session(name: str | None, profile: str | None, *, allow_run: bool = False) -> Session:
    """Open a session, and load the grammar before the user types the first word."""
    expected("")  # reads the grammar's tables
    return connect(name, profile=profile, allow_run=allow_run)


class SummaryReader:
    """Summarizes a session; caches the catalogue until it changes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._catalogue: tuple[tuple[object, ...], SessionSummary] | None = None

    def read(self, known_death: str) -> SessionSummary:
        """Return the session's summary; `known_death` is the reason for an engine's death, if known."""
        session, home = self._session, self._session.home
        engine = read_engine(home)
        is_running = engine is not None and is_alive(engine)
        failed = engine is not None and (engine.state == "failed" or not is_running)
        state = None if engine is None else engine.state
        text, progress = engine_text(home), session.progress()
        summary = replace(
            self._read_catalogue(),
            engine=text,
            restarted=restart_text(home),
            progress=progress,
            failed=failed,
            ready=is_running and (state == "ready" or takes_steps(text, progress)),
        )
        return replace(summary, death=known_death or explain_engine_death(home)) if failed else summary

    def _read_catalogue(self) -> SessionSummary:
        """Return the contents of the catalogue; read only after a change, because they may be large."""
        mark = _mark(self._session)
        if self._catalogue is None or self._catalogue[0] != mark:
            self._catalogue = mark, _catalogue(self._session)
        return self._catalogue[1]


def _mark(session: Session) -> tuple[object, ...]:
    """Return a mark that changes with the catalogue: of definitions, and the number of live queries."""
    db = session.connection.db
    [(live,)] = db.query("SELECT count(*) FROM queries WHERE state IN ('active', 'paused')")
    return *definitions_version(db), live


def _catalogue(session: Session) -> SessionSummary:
    streams, tables = session.streams(), session.tables()
    areas, queries = session.areas(), session.queries(_MOST_KNOWN)
    listed = [(stream.name, stream.spec.columns) for stream in streams]
    listed += [(table.name, table.spec.columns) for table in tables]
    query_streams = live_query_streams(session.connection.db)
    listed += [(stream.name, stream.spec.rows.columns) for stream in query_streams]
    return SessionSummary(
        session.home.name,
        streams=tuple(stream.name for stream in streams),
        columns=tuple((name, tuple((column, kind) for column, kind in columns)) for name, columns in listed),
        keys=tuple((one.name, one.spec.key) for one in streams),
        derived=tuple((one.name, tuple(column.name for column in one.spec.derived)) for one in streams),
        members=tuple((area.name, tuple(area.spec.members)) for area in areas),
        scheme=session.settings().text("shell.scheme"),
        editing=session.settings().text("shell.keys"),
        tables=tuple(table.name for table in tables),
        regions=tuple(area.name for area in areas),
        queries=tuple(query.name for query in queries),
        query_streams=tuple(stream.name for stream in query_streams),
        sinks=tuple(sink.name for sink in written_sinks(session.connection.db)),
        alerts=tuple(alert.name for alert in live_alerts(session.connection.db)),
        views=tuple(known_views(session.connection.db)),
        functions=tuple(known_functions(session.connection.db)),
        selected=tuple(_selected(query.name, query.spec) for query in queries),
    )


def _selected(name: str, spec: QuerySpec) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return a query's name, the names of its select list, and its stream and table."""
    over = (spec.stream, *(join.table for join in spec.joins))
    return name, tuple(column.name for column in spec.result.select), over
