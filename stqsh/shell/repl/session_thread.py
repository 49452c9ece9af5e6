"""What goes on behind the prompt: the session is opened and its engine started, and its state watched.

The prompt never waits for any of it. A thread of its own does the slow imports, and keeps a `SessionSummary`
of the session for the toolbar and for completion.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.client.read.live_keys import LiveKeys
    from stqsh.shell.repl.session_reader import SummaryReader
    from stqsh.storage.rows import Progress

LOOK_EVERY_S = 0.4
IDLE_S = 1.0
"""So long nobody has typed before something is done that would make a keystroke wait."""


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """The session as it was at the last look.

    `columns` has the columns of each stream and table, with their types; `keys` the key column of each
    stream; `members` the names in each set of regions; `selected` what each query selects, and the streams
    and tables that it is over. `failed`: an engine that was there is not any more;
    `death` says why; `broken`: the session itself cannot be used; `ready`: it takes batches.
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
    selected: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()
    failed: bool = False
    death: str = ""
    broken: bool = False
    ready: bool = False


def open_session(name: str | None, profile: str | None) -> Session:
    """Open a session; slow, for a thread behind the prompt."""
    session: Session = _reader_module().open_session(name, profile)
    return session


class SessionThread:
    """Opens a session in the background. `open_session` may be slow; `changed` is called from the thread."""

    def __init__(self, name: str, open_session: Callable[[], Session], changed: Callable[[], None]) -> None:
        self.glance = SessionSummary(name)
        self._open = open_session
        self._changed = changed
        self._session: Session | None = None
        self._reader: SummaryReader | None = None
        self._keys: LiveKeys | None = None
        self._error: BaseException | None = None
        self._typed_at, self._is_warm = float("-inf"), False
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
            self._keys = _reader_module().LiveKeys(self._session.link)
        return self._keys.starting(stream, prefix)

    def typed(self) -> None:
        """Note that a key was pressed just now."""
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
        new = self._reader.read(self.glance.death)
        if new != self.glance:
            self.glance = new
            self._changed()

    def _work(self) -> None:
        try:
            with unhindered():
                session = self._open()
                self._reader, self._session = _reader_module().SummaryReader(session), session
            self._session.start_engine(wait=False)
        except BaseException as error:  # handed over to the main thread, which raises or shows it
            self._error = error
            self.glance = replace(self.glance, engine="the session cannot be opened", broken=True)
        self._opened.set()
        self._changed()
        while self._session is not None and not self._over.wait(LOOK_EVERY_S):
            self._watch()

    def _watch(self) -> None:
        try:
            self.look()
            self._warm_up()
        except Exception as error:  # a home that is gone, a disk that is full: the toolbar says so
            reason = str(error).partition("\n")[0]
            self.glance = replace(
                self.glance, engine=f"the session cannot be read: {reason}", broken=True, ready=False
            )
            self._changed()

    def _warm_up(self) -> None:
        """Import what looking up live keys and snapshots take, once there are any and nobody is typing."""
        idle = time.monotonic() - self._typed_at > IDLE_S
        if not self._is_warm and self.glance.ready and self.glance.streams and idle:
            self._is_warm = True
            with unhindered():
                _reader_module().warm_up()


@contextmanager
def unhindered() -> Iterator[None]:
    """Import what stays without the garbage collector, and out of its sight from then on.

    To look through all of it, as it does now and then, takes 50 ms, and no key is heard meanwhile.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _reader_module() -> ModuleType:
    # The client and the language: 80 ms, which the thread spends while the prompt is up already.
    from stqsh.shell.repl import session_reader

    return session_reader
