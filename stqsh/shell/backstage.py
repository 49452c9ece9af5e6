"""What goes on behind the prompt: the session is opened and its engine started, and its state watched.

The prompt never waits for any of it. A thread of its own does the slow imports, and keeps a `Glance` of
the session for the toolbar and for completion.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stqsh.session.client import Session
    from stqsh.session.livekeys import LiveKeys
    from stqsh.session.records import Progress

LOOK_EVERY_S = 0.4


@dataclass(frozen=True, slots=True)
class Glance:
    """The session as it was at the last look.

    `columns` has the columns of each stream and table, with their types; `keys` the key column of each
    stream; `members` the names in each set of regions. `failed`: an engine that was there is not any more;
    `death` says why; `ready`: it takes batches.
    """

    session: str
    engine: str = "opening the session…"
    progress: Progress | None = None
    streams: tuple[str, ...] = ()
    columns: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    keys: tuple[tuple[str, str], ...] = ()
    members: tuple[tuple[str, tuple[str, ...]], ...] = ()
    scheme: str = "auto"
    tables: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    failed: bool = False
    death: str = ""
    ready: bool = False


class Backstage:
    """Opens a session in the background. `open_session` may be slow; `changed` is called from the thread."""

    def __init__(self, name: str, open_session: Callable[[], Session], changed: Callable[[], None]) -> None:
        self.glance = Glance(name)
        self._open = open_session
        self._changed = changed
        self._session: Session | None = None
        self._keys: LiveKeys | None = None
        self._error: BaseException | None = None
        self._opened = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="backstage", daemon=True)

    def start(self) -> None:
        """Begin, unless that is done."""
        if not self._thread.is_alive() and not self._opened.is_set():
            self._thread.start()

    @property
    def error(self) -> BaseException | None:
        """Why the session could not be opened, if so."""
        return self._error

    @property
    def ready_session(self) -> Session | None:
        """The session if it is open by now."""
        return self._session

    def session(self) -> Session:
        """The session, waited for. Raises what opening it raised."""
        self.start()
        while not self._opened.wait(0.1):  # in short waits, so that Ctrl-C gets through
            pass
        if self._session is None:
            raise self._error or RuntimeError("no session")
        return self._session

    def live_keys(self, stream: str, prefix: str) -> tuple[str, ...]:
        """The keys of a stream's present objects that begin with a prefix; slow, for a thread of its own."""
        if self._session is None:
            return ()
        if self._keys is None:
            from stqsh.session.livekeys import LiveKeys

            self._keys = LiveKeys(self._session.link)
        return self._keys.starting(stream, prefix)

    def close(self) -> None:
        """Stop watching and leave the session."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        if self._session is not None:
            self._session.close()

    def look(self) -> None:
        """Take a new glance now."""
        session = self._session
        if session is None:
            return
        new = _glance(session)
        if new.failed:
            from stqsh.shell.obituary import obituary

            new = replace(new, death=self.glance.death or obituary(session.home))
        if new != self.glance:
            self.glance = new
            self._changed()

    def _work(self) -> None:
        try:
            self._session = self._open()
            self._session.start_engine(wait=False)
        except BaseException as error:  # handed over to the main thread, which raises or shows it
            self._error = error
        self._opened.set()
        self._changed()
        while self._session is not None and not self._over.wait(LOOK_EVERY_S):
            self.look()


def _glance(session: Session) -> Glance:
    from stqsh.session.process import is_alive, read_engine
    from stqsh.shell.status import engine_text

    engine, streams = read_engine(session.home), session.streams()
    tables, areas = session.tables(), session.areas()
    listed = [(one.name, one.spec["columns"]) for one in streams]
    listed += [(one.name, one.spec["columns"]) for one in tables]
    return Glance(
        session=session.home.name,
        engine=engine_text(session.home),
        progress=session.progress(),
        streams=tuple(stream.name for stream in streams),
        columns=tuple((name, tuple((column, kind) for column, kind in columns)) for name, columns in listed),
        keys=tuple((one.name, one.spec["key"]) for one in streams),
        members=tuple((area.name, tuple(area.spec["members"])) for area in areas),
        scheme=session.settings().text("shell.scheme"),
        tables=tuple(table.name for table in tables),
        regions=tuple(area.name for area in areas),
        queries=tuple(query.name for query in session.queries()),
        failed=engine is not None and (engine.state == "failed" or not is_alive(engine)),
        ready=engine is not None and engine.state == "ready" and is_alive(engine),
    )
