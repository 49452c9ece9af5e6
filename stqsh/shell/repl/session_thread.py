"""The thread behind the prompt: it opens the session, starts its engine, and watches its state.

The prompt never waits for these tasks. The thread does the slow imports, and keeps a `SessionSummary` for
the toolbar and for completion.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.client.read.live_keys import LiveKeys
    from stqsh.shell.repl.session_reader import SummaryReader
    from stqsh.storage.rows import Progress
    from stqsh.storage.sinks.notices import Notice, NoticeReader

LOOK_EVERY_S = 0.4
IDLE_S = 1.0
"""The time without a key press after which the thread does work that would delay key presses."""


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """The latest known state of a session.

    Attributes:
        session: The session's name.
        engine: The state of its engine, in words.
        progress: The progress of its streams.
        restarted: How often it was restarted after a crash, and why; "" if never.
        streams, tables, regions, queries, views, functions: Names.
        columns: The columns of each stream and table, with their types.
        keys: The key column of each stream.
        members: The names in each set of regions.
        scheme: The setting shell.scheme.
        editing: The setting shell.keys.
        selected: The select list of each query, and its stream and table.
        failed: Whether an engine was running and has ended; `death` is the reason.
        broken: Whether the session itself cannot be used.
        ready: Whether the engine is ready for batches.
    """

    session: str
    engine: str = "opening the session…"
    progress: Progress | None = None
    restarted: str = ""
    streams: tuple[str, ...] = ()
    columns: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    keys: tuple[tuple[str, str], ...] = ()
    members: tuple[tuple[str, tuple[str, ...]], ...] = ()
    scheme: str = "auto"
    editing: str = "emacs"
    tables: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    query_streams: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    views: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    selected: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()
    failed: bool = False
    death: str = ""
    broken: bool = False
    ready: bool = False


def open_session(name: str | None, profile: str | None, *, allow_run: bool = False) -> Session:
    """Open a session; slow, so called in a background thread."""
    session: Session = _reader_module().open_session(name, profile, allow_run=allow_run)
    return session


class SessionThread:
    """Opens a session in the background, and watches it.

    Args:
        name: The session's name.
        open_session: Opens the session; may be slow.
        changed: Called from the thread when the summary has changed.
        noticed: Called from the thread with the message of an alert.
    """

    def __init__(
        self,
        name: str,
        open_session: Callable[[], Session],
        changed: Callable[[], None],
        noticed: Callable[[Notice], None] = lambda notice: None,
    ) -> None:
        self.summary = SessionSummary(name)
        self._open = open_session
        self._changed, self._noticed = changed, noticed
        self._session: Session | None = None
        self._reader: SummaryReader | None = None
        self._notices: NoticeReader | None = None
        self._keys: LiveKeys | None = None
        self._error: BaseException | None = None
        self._typed_at, self._is_warm = float("-inf"), False
        self._opened = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="backstage", daemon=True)

    def start(self) -> None:
        """Start the thread, unless it has started."""
        if not self._thread.is_alive() and not self._opened.is_set():
            self._thread.start()

    @property
    def error(self) -> BaseException | None:
        """The error that prevented the session from opening, if any."""
        return self._error

    @property
    def ready_session(self) -> Session | None:
        """The session; None until it is open."""
        return self._session

    def session(self) -> Session:
        """Wait for the session and return it. Raises the error that prevented its opening."""
        self.start()
        while not self._opened.wait(0.1):  # in short waits, so that Ctrl-C gets through
            pass
        if self._session is None:
            raise self._error or RuntimeError("no session")
        return self._session

    def live_values(self, stream: str, column: str, prefix: str) -> tuple[str, ...]:
        """Return a column's present values that begin with a prefix, of the key or another column; slow."""
        if self._session is None:
            return ()
        if self._keys is None:
            self._keys = _reader_module().LiveKeys(self._session.connection)
        return self._keys.starting(stream, column, prefix)

    def typed(self) -> None:
        """Record that a key was pressed just now."""
        self._typed_at = time.monotonic()

    def close(self) -> None:
        """Stop watching and leave the session."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        if self._session is not None:
            self._session.close()

    def look(self) -> None:
        """Take a new summary now."""
        if self._reader is None:
            return
        new = self._reader.read(self.summary.death)
        if new != self.summary:
            self.summary = new
            self._changed()

    def _work(self) -> None:
        try:
            with unhindered():
                session = self._open()
                self._notices = _reader_module().NoticeReader(session.home)
                self._reader, self._session = _reader_module().SummaryReader(session), session
            self._session.start_engine(wait=False)
        except BaseException as error:  # the main thread raises or shows it
            self._error = error
            self.summary = replace(self.summary, engine="the session cannot be opened", broken=True)
        self._opened.set()
        self._changed()
        while self._session is not None and not self._over.wait(LOOK_EVERY_S):
            self._watch()

    def _watch(self) -> None:
        try:
            self.look()
            for notice in self._notices.read() if self._notices is not None else ():
                self._noticed(notice)
            self._warm_up()
        except Exception as error:  # a deleted home, a full disk: the toolbar shows it
            reason = str(error).partition("\n")[0]
            self.summary = replace(
                self.summary, engine=f"the session cannot be read: {reason}", broken=True, ready=False
            )
            self._changed()

    def _warm_up(self) -> None:
        """Import the look-up of live keys and snapshots once it is usable and the user is not typing."""
        idle = time.monotonic() - self._typed_at > IDLE_S
        if not self._is_warm and self.summary.ready and self.summary.streams and idle:
            self._is_warm = True
            with unhindered():
                _reader_module().warm_up()


@contextmanager
def unhindered() -> Iterator[None]:
    """Import without the garbage collector, and exclude what was imported from later collections.

    A collection of all new objects takes 50 ms, during which no key press is handled.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def import_in_thread(name: str) -> ModuleType:
    """Import a module in a thread, so that Ctrl-C interrupts the caller only after the import.

    An interrupted import of numpy cannot be repeated in the same process.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="import") as pool:
        return pool.submit(import_module, name).result()


def _reader_module() -> ModuleType:
    # Importing the client and the language takes 80 ms, while the prompt is already open.
    from stqsh.shell.repl import session_reader

    return session_reader
