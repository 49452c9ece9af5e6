"""control.db: the control log and its bookkeeping, shared by several processes.

The shell appends statements, the engine's data source reads them, and Deliver records how far it has
come. SQLite in WAL mode keeps readers and the one writer apart; every change is one IMMEDIATE
transaction, so a statement and its effect on the catalogue are seen together or not at all.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from msgspec.structs import replace

from stqsh.errors import HomeError, OtherVersionError
from stqsh.fs import force, is_durable
from stqsh.spec.log import LogEntry, LogKind, decode_entry, kind_of
from stqsh.spec.query import QuerySpec
from stqsh.spec.sink import SinkSpec
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec
from stqsh.storage.layouts import SCHEMA_VERSION, bring_up
from stqsh.storage.rows import LogRow

if TYPE_CHECKING:
    from stqsh.storage.queries.query_templates import TemplateRows

BUSY_TIMEOUT_S = 30.0
_RETRY_S = 0.01
_TEMPLATES = 8
"""Templates of queries that are forgotten which are kept, besides as many as there are others."""
_SYNCHRONOUS = {False: "NORMAL", True: "FULL"}
_INCREMENTAL = 2
"""SQLite's number of the mode in which free pages can be given back a few at a time."""
_FREE_PAGES, _PAGES_AT_ONCE, _PAGES_ANEW = 1000, 500, 10_000
"""Pages of 4 KB: the fewest free ones worth giving back, those of one transaction, and the most rewritten."""
_DAMAGED = "put the session's folder back from a backup, or begin another session with --session NAME"
_REMEDIES = {
    "full": "make room, or give another place with STQSH_HOME or session.home_root in the profile",
    "locked": f"another program has held it for {BUSY_TIMEOUT_S:.0f} s; try again, or end that one",
    "readonly": "give the file other permissions, or another place with STQSH_HOME",
    "not a database": _DAMAGED,
    "malformed": _DAMAGED,
    "decode": _DAMAGED,
}
"""Remedies for SQLite's errors, by words in their text."""
_NEXT = "SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'log'"
"""The number of the log's next row, which stands fast within a transaction that writes."""


def wall_clock_us() -> int:
    """Return the wall clock in microseconds since the epoch."""
    return time.time_ns() // 1000


class ControlDb:
    """The control.db of a session home; for several threads, each of which gets its own connection.

    Args:
        home: the session's directory.
        create: whether to make the database of a session that is new. Only what begins a session does so:
            a process that expects one to be there must not make an empty one in its place.
        clock: returns the wall time in microseconds (a test passes its own).

    Raises:
        HomeError: the file is not there, cannot be opened or was written by a newer stqsh; and at any time
            when it cannot be used.
    """

    def __init__(self, home: Path, *, create: bool = False, clock: Callable[[], int] = wall_clock_us) -> None:
        self.path = home / "control.db"
        self.clock = clock
        self._local = threading.local()
        self._templates: dict[int, TemplateRows] = {}
        self._most_templates = _TEMPLATES
        self._is_closed = False
        self._is_durable = is_durable()
        if not create and not self.path.exists():
            raise _no_session(self.path)
        with self._as_home_errors():
            _migrate(self, create=create)

    def connection(self) -> sqlite3.Connection:
        """Return this thread's connection, in autocommit mode; raise `HomeError` after `close`."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if self._is_closed:
            if found is not None:
                found.close()
            raise HomeError(f"{self.path} is closed here", hint="connect to the session again")
        if found is None:
            found = sqlite3.connect(
                self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            found.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file; others keep what they have
            _use_wal(found)
            found.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[self._is_durable]}")
            self._local.connection = found
        return found

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return all rows of one SELECT."""
        try:
            return self.connection().execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise _home_error(self.path, error) from error

    def version(self) -> int:
        """Return a number that changes when another connection changes the file; cheaper than any row."""
        return int(self.query("PRAGMA data_version")[0][0])

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the body in one IMMEDIATE transaction, all of it or none; an inner one joins the outer."""
        with self._as_home_errors(), _within(self.connection(), "BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Run the body in one transaction in which nothing is written: all it reads is of one moment."""
        with self._as_home_errors(), _within(self.connection(), "BEGIN"):
            yield

    def set_durable(self, durable: bool) -> None:
        """Force every transaction to the disk from now on, or none; for this thread, and those to come."""
        self._is_durable = durable
        self.connection().execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durable]}")

    def force(self) -> None:
        """Force what is committed to the disk: the rows that are visible now survive a power failure.

        Only the file beside the database is forced. SQLite forces the database itself before it empties that
        file, and would lose its locks if the database were opened and closed here.
        """
        with suppress(FileNotFoundError):
            force(self.path.with_name(f"{self.path.name}-wal"))

    @contextmanager
    def _as_home_errors(self) -> Iterator[None]:
        """Raise `HomeError` for SQLite's errors about the file."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise _home_error(self.path, error) from error

    def decoded(self, seq: int, kind: LogKind, spec: str) -> LogEntry:
        """Return the content of a row of the log.

        Raises:
            HomeError: the row is damaged.
            OtherVersionError: the row was written by a version that cannot be read any more.
        """
        try:
            return decode_entry(kind, spec)
        except msgspec.DecodeError as error:
            raise HomeError(f"row {seq} of the log in {self.path} is damaged", hint=_DAMAGED) from error

    def template_rows(self, last: int) -> TemplateRows:
        """Return the queries that were registered together, given the id of the last of them."""
        from stqsh.storage.queries.query_templates import TemplateRows  # pyarrow: only when needed

        found = self._templates.get(last)
        if found is None:
            [(template, payload)] = self.query(
                "SELECT pattern, payload FROM patterns JOIN log ON seq = id WHERE id = ?", last
            )
            found = TemplateRows.read(template, payload, last)
            if len(self._templates) >= self._most_templates:  # let go of queries whose rows are forgotten
                there = {id_ for (id_,) in self.query("SELECT id FROM patterns")}
                self._templates = {id_: rows for id_, rows in list(self._templates.items()) if id_ in there}
                self._most_templates = 2 * len(self._templates) + _TEMPLATES
            self._templates[last] = found
        return found

    def give_back(self) -> int:
        """Make the file smaller where most of it is free; return by how many bytes.

        Other writers go on between short transactions. The file of an older version, which cannot be cut in
        pieces, is written anew if little of it is in use; from then on it can be.
        """
        [(pages,)], [(free,)] = self.query("PRAGMA page_count"), self.query("PRAGMA freelist_count")
        if free < _FREE_PAGES or 2 * free < pages:
            return 0
        connection = self.connection()
        with self._as_home_errors():
            if self.query("PRAGMA auto_vacuum") == [(_INCREMENTAL,)]:
                for _ in range(0, free, _PAGES_AT_ONCE):
                    # `execute` would give back one page: it steps no further than to the first row.
                    connection.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")
            elif pages - free <= _PAGES_ANEW:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        [(left,)], [(size,)] = self.query("PRAGMA page_count"), self.query("PRAGMA page_size")
        return int((pages - left) * size)

    def close(self) -> None:
        """Close this thread's connection; every other thread closes its own when it next asks for it.

        SQLite ends in a segmentation fault if a connection is closed while another thread reads from it.
        """
        self._is_closed = True
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is not None:
            found.close()


@contextmanager
def _within(connection: sqlite3.Connection, begin: str) -> Iterator[sqlite3.Connection]:
    """Run the body in a transaction, or in the one that there is; an error in the body undoes it."""
    if connection.in_transaction:
        yield connection
        return
    try:
        # SQLite hears no Ctrl-C while it waits for other writers: that comes once this has begun.
        connection.execute(begin)
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has already ended it
            connection.execute("ROLLBACK")
        raise


def _home_error(path: Path, error: sqlite3.DatabaseError) -> HomeError:
    hint = next((hint for words, hint in _REMEDIES.items() if words in str(error)), None)
    return HomeError(f"cannot use {path}: {error}", hint=hint)


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch a connection to WAL mode, as patiently as for any other statement.

    While another process switches a new file, SQLite fails at once: its own timeout does not apply.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def to_text(value: object) -> str:
    """Return JSON as the log and the catalogue keep it; raise `TypeError` for what JSON cannot represent."""
    return msgspec.json.encode(value).decode()


def append(control: ControlDb, entry: LogEntry, text: str = "", payload: bytes | None = None) -> LogRow:
    """Append a row to the control log and return it; joins a transaction that is open.

    A new stream, table, region or query gets the number of its row as its id.
    """
    at_us = control.clock()
    with control.transaction() as connection:
        [seq] = connection.execute(_NEXT).fetchone()
        if isinstance(entry, StreamSpec | TableSpec | AreaSpec | SinkSpec | QuerySpec):
            entry = replace(entry, id=seq)
        connection.execute(
            "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)",
            (seq, at_us, kind_of(entry), text, to_text(entry), payload),
        )
    return LogRow(seq, at_us, entry, text, payload)


def entries_after(control: ControlDb, seq: int, kinds: Collection[LogKind]) -> list[tuple[int, LogEntry]]:
    """Return the log's rows of some kinds after `seq`, in order: the number and the content of each."""
    marks = ", ".join("?" * len(kinds))
    rows = control.query(
        f"SELECT seq, kind, spec FROM log WHERE seq > ? AND kind IN ({marks}) ORDER BY seq", seq, *kinds
    )
    return [(number, control.decoded(number, kind, spec)) for number, kind, spec in rows]


def read_log(
    control: ControlDb, after: int = 0, up_to: int | None = None, *, whole: bool = True
) -> list[LogRow]:
    """Return the log's rows with `after < seq <= up_to` (to the end without `up_to`), in order.

    Texts and payloads, which may be large, are left out unless `whole`.

    Raises:
        OtherVersionError: a row was written by a version that cannot be read any more.
    """
    heavy = "text, payload" if whole else "'', NULL"
    rows = control.query(
        f"SELECT seq, at_us, kind, spec, {heavy} FROM log WHERE seq > ? AND seq <= ? ORDER BY seq",
        after,
        (1 << 62) if up_to is None else up_to,
    )
    return [
        LogRow(seq, at_us, control.decoded(seq, kind, spec), text, payload)
        for seq, at_us, kind, spec, text, payload in rows
    ]


def last_seq(control: ControlDb) -> int:
    """Return the sequence number of the log's last row, 0 if it is empty; one index look-up."""
    return int(control.query("SELECT coalesce(max(seq), 0) FROM log")[0][0])


def get_meta(control: ControlDb, key: str) -> str | None:
    """Return a value recorded about the session as a whole (for instance the name of its profile)."""
    rows = control.query("SELECT value FROM meta WHERE key = ?", key)
    return str(rows[0][0]) if rows else None


def keeps_heads_in_spark(control: ControlDb) -> bool:
    """Return whether the slots of a session are on a cluster, so that Spark keeps their heads."""
    return (get_meta(control, "state") or "").startswith("spark")


def set_meta(control: ControlDb, key: str, value: str) -> None:
    """Record a value about the session as a whole."""
    with control.transaction() as connection:
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def session_uuid(control: ControlDb) -> str:
    """Return the session's uuid, by which its files are named where hosts share a storage; made at first."""
    with control.transaction() as connection:
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('uuid', ?)", (str(uuid.uuid4()),))
    found = get_meta(control, "uuid")
    assert found is not None, "it has just been recorded"
    return found


def read_settings(control: ControlDb) -> Mapping[str, Any]:
    """Return the values given by SET in this session, by dotted key."""
    return {key: orjson.loads(value) for key, value in control.query("SELECT key, value FROM settings")}


def check_queries(control: ControlDb) -> None:
    """Raise `OtherVersionError` for queries that a version without REGISTER QUERIES registered together."""
    older = "SELECT 1 FROM patterns WHERE json_extract(pattern, '$.parameters') IS NULL LIMIT 1"
    if control.query(older):
        raise OtherVersionError


def _migrate(control: ControlDb, *, create: bool) -> None:
    has_run, version = (control.path.parent / "checkpoint").exists(), _version(control)
    if has_run and version == 0:
        raise HomeError(f"{control.path} is missing or empty, although the session has run", hint=_DAMAGED)
    if version == 0 and not create:
        raise _no_session(control.path)
    if version < SCHEMA_VERSION:
        with control.transaction() as connection:
            bring_up(connection, _version(control), control.path.parent)
    if version > SCHEMA_VERSION:
        raise HomeError(
            f"{control.path} was written by a newer stqsh (layout {version})",
            hint="install that version, or use another session with --session NAME",
        )


def _no_session(path: Path) -> HomeError:
    return HomeError(
        f"there is no session in {path.parent}: {path.name} is missing or empty",
        hint="open the session first",
    )


def _version(control: ControlDb) -> int:
    return int(control.query("PRAGMA user_version")[0][0])
