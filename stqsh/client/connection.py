"""The state that all parts of a client share: the home, control.db, the names, and checks of the engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.client.engine_process import check_alive, ensure_engine
from stqsh.errors import EngineDeadError, SourceError
from stqsh.sources.dead_letters import read_dead_letters
from stqsh.spec.source_facts import SourceFacts
from stqsh.storage.catalogue import NameBook, live_streams, live_tables
from stqsh.storage.control_log import ControlDb
from stqsh.storage.disk_space import DiskFullError, is_full
from stqsh.storage.engine_info import EngineInfo, has_died, read_engine
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress, stream_statuses
from stqsh.storage.rows import Progress, StreamRow, TableRow

if TYPE_CHECKING:
    from stqsh.client.read.projection import RowLookups

POLL_S = 0.02
_FULL_S = 5.0
"""How long a disk may be full before a waiting client gets an error; space may be freed meanwhile."""
ENGINE_LOOK_S = 0.2
"""The maximum age of a client's copy of the engine's report."""
LOOK_EVERY_S = 0.5
"""How often a client that waits checks the engine's process and the streams' preparation."""
_UNREADABLE = ("stalled", "failed")
"""The states of streams and tables that cannot be read."""

StartEngine = Callable[[SessionHome], EngineInfo]


@dataclass
class Connection:
    """One client's connection to a session; `start` starts the engine (a test passes its own).

    Attributes:
        inserted: the position after the last record that this client has put into a stream, by the stream's
            id.
        facts: the measured content of a stream's files, by the stream's id, as far as this client has
            measured it.
    """

    home: SessionHome
    db: ControlDb
    start: StartEngine = ensure_engine
    book: NameBook = field(init=False)
    inserted: dict[int, int] = field(default_factory=dict, init=False)
    facts: dict[int, SourceFacts] = field(default_factory=dict, init=False)
    _lookups: RowLookups | None = field(default=None, init=False)
    _looked: float = field(default=0.0, init=False)
    _applied: int = field(default=0, init=False)
    _started: bool = field(default=False, init=False)
    _engine: tuple[float, EngineInfo | None] = field(default=(0.0, None), init=False)
    _had_room: float = field(default_factory=time.monotonic, init=False)

    def __post_init__(self) -> None:
        self.book = NameBook(self.db)

    @property
    def lookups(self) -> RowLookups:
        """The tables and regions of select lists; made on first use, because that imports pyarrow."""
        if self._lookups is None:
            from stqsh.client.read.projection import RowLookups

            self._lookups = RowLookups(self.home, self.db)
        return self._lookups

    def progress(self) -> Progress:
        """Return the engine's progress; cheap."""
        return read_progress(self.db)

    def has_applied(self, seq: int) -> bool:
        """Return whether the engine has applied the control log up to a row; once it has, this is known."""
        if self._applied < seq:
            self._applied = self.progress().seq
        return self._applied >= seq

    def wake(self) -> None:
        """Start the engine if this client has not done so yet; returns at once."""
        if not self._started:
            self.restart()

    def restart(self) -> EngineInfo:
        """Start the engine, even if it has died since the last start; leave a running one alone."""
        self._started = True
        self._engine = (0.0, None)
        return self.start(self.home)

    def engine_info(self) -> EngineInfo | None:
        """Return the engine's last report, at most `ENGINE_LOOK_S` old; None if there is none."""
        now = time.monotonic()
        if now - self._engine[0] > ENGINE_LOOK_S:
            self._engine = (now, read_engine(self.home))
        return self._engine[1]

    def revive(self) -> bool:
        """Restart the engine if it and its parent have died without a report; return whether they had.

        Within `ENGINE_LOOK_S` of the last check, return False without a new check.
        """
        if time.monotonic() - self._engine[0] <= ENGINE_LOOK_S or not has_died(self.engine_info()):
            return False
        self.restart()
        return True

    def watch(self) -> Iterator[Progress]:
        """Yield the engine's progress every `POLL_S`, without end.

        Raises:
            EngineDeadError: the engine has died.
            SourceError: a stream cannot be read.
            DiskFullError: nothing advances because the disk is full.
        """
        self._had_room = time.monotonic()
        while True:
            self._look()
            yield self.progress()
            time.sleep(POLL_S)

    def check_streams(self) -> None:
        """Raise `SourceError` if a live stream or table cannot be read, or none of its records can be.

        Report a source without any record only if no stream has a record, because then no step is ever made.
        """
        for _, error in self._unreadable():
            raise error

    def check_stream(self, stream: int) -> None:
        """Raise `SourceError` if a stream, or all of its records, are known to be unreadable."""
        status = stream_statuses(self.db).get(stream)
        if status is None or not (status.is_empty or status.state in _UNREADABLE):
            return  # before each SELECT, so other streams are not looked at
        for id_, error in self._unreadable():
            if id_ == stream:
                raise error

    def _unreadable(self) -> Iterator[tuple[int, SourceError]]:
        """Yield the id of each live stream and table that cannot be read, and an error with the reason."""
        statuses = stream_statuses(self.db)
        streams = [statuses.get(stream.id) for stream in live_streams(self.db)]
        are_empty = all(status is not None and status.is_empty for status in streams)
        nothing_comes = are_empty and read_progress(self.db).step == 0
        for word, row, folder in self._prepared():
            status = statuses.get(row.id)
            if status is None:
                continue
            if status.state == "stalled":
                yield (
                    row.id,
                    SourceError(
                        f"stream {row.name} cannot be prepared any further: {status.message}",
                        hint=f"once the cause is removed, RUN or PLAY {row.name}; tries again",
                    ),
                )
            elif status.state == "failed":
                yield row.id, _unreadable_source(word, row.name, status.message)
            elif status.is_empty and (status.dead or (word == "stream" and nothing_comes)):
                yield row.id, _unreadable_source(word, row.name, _why_empty(status.dead, folder))

    def _prepared(self) -> Iterator[tuple[str, StreamRow | TableRow, Path]]:
        """Yield each live stream and table with the word for its kind and its folder."""
        yield from (("stream", row, self.home.stream(row.id)) for row in live_streams(self.db))
        yield from (("table", row, self.home.table(row.id)) for row in live_tables(self.db))

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked >= LOOK_EVERY_S:
            self._looked = now
            self.check_streams()
            self._check_room(now)
            if self._started:
                self._check_engine()

    def _check_room(self, now: float) -> None:
        if not is_full(self.home.path):
            self._had_room = now
        elif now - self._had_room > _FULL_S:
            raise DiskFullError(self.home.path, is_temporary=self.home.temporary)

    def _check_engine(self) -> None:
        try:
            check_alive(self.home)
        except EngineDeadError:
            self._started = False  # so that the next statement starts it again
            raise


def _unreadable_source(word: str, name: str, reason: str) -> SourceError:
    return SourceError(
        f"{word} {name}: {reason}",
        hint=f"DROP {word.upper()} {name}; and create it again with the cause removed",
    )


def _why_empty(dead: int, folder: Path) -> str:
    """Return why a source has no readable record, with the reason of its first dead letter."""
    if not dead:
        return "its source holds no records"
    first = next(read_dead_letters(folder), None)
    records = "its only record was" if dead == 1 else f"all of its {dead:,} records were"
    return f"{records} set aside{'' if first is None else f', the first for this reason: {first.reason}'}"
