"""control.db: the control log and related tables, shared by several processes.

The shell appends statements, the engine's data source reads them, and Deliver records the engine's progress.
SQLite in WAL mode lets readers and the single writer work concurrently. Every change is one IMMEDIATE
transaction, so a reader sees a statement together with its effect on the catalogue, or neither.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import orjson
from msgspec.structs import replace

from stqsh.errors import HomeError, OtherVersionError
from stqsh.fs import force, is_durable
from stqsh.spec.log import LogEntry, LogKind, decode_entry, kind_of
from stqsh.spec.query import QuerySpec
from stqsh.spec.query_stream import QueryStreamSpec
from stqsh.spec.sink import SinkSpec
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec
from stqsh.storage.layouts import SCHEMA_VERSION, bring_up
from stqsh.storage.rows import LogRow

if TYPE_CHECKING:
    from stqsh.storage.queries.query_templates import TemplateRows

BUSY_TIMEOUT_S = 30.0
_RETRY_S = 0.01
_TEMPLATES = 8
"""How many templates of forgotten queries are kept, plus as many as there are other templates."""
_JUST_READ = "just read"
_MOST_REMEMBERED = 1000
"""How many results of reads a thread remembers."""
_SYNCHRONOUS = {False: "NORMAL", True: "FULL"}
_INCREMENTAL = 2
"""SQLite's number for the mode in which free pages can be released a few at a time."""
_FREE_PAGES, _PAGES_AT_ONCE, _PAGES_ANEW = 1000, 500, 10_000
"""Pages of 4 KB: fewest free ones worth releasing, number per transaction, and most that are rewritten."""
_DAMAGED = "put the session's folder back from a backup, or begin another session with --session NAME"
_REMEDIES = {
    "full": "make room, or give another place with STQSH_HOME or session.home_root in the profile",
    "locked": f"another program has held it for {BUSY_TIMEOUT_S:.0f} s; try again, or end that one",
    "readonly": "give the file other permissions, or another place with STQSH_HOME",
    "not a database": _DAMAGED,
    "malformed": _DAMAGED,
    "decode": _DAMAGED,
}
"""How to remedy SQLite errors, by words in their messages."""
_NEXT = "SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'log'"
"""The number of the log's next row, which is fixed within a write transaction."""
_DEFINITIONS = (StreamSpec, TableSpec, AreaSpec, SinkSpec, QuerySpec, QueryStreamSpec)
"""The entries that define something, whose id is the number of their row."""


_Read = TypeVar("_Read")


def wall_clock_us() -> int:
    """Return the wall clock in microseconds since the epoch."""
    return time.time_ns() // 1000


class ControlDb:
    """The control.db of a session home; usable by several threads, each with its own connection.

    Args:
        home: the session's directory.
        create: whether to create the database of a new session. Only code that starts a session sets it: a
            process that expects an existing database must not create an empty one in its place.
        clock: returns the wall-clock time in microseconds; tests pass their own.

    Raises:
        HomeError: the file is missing, cannot be opened, or was written by a newer stqsh; methods raise it
            whenever the file cannot be used.
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
            found.execute("PRAGMA auto_vacuum = INCREMENTAL")  # for a new file; others keep their mode
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
        """Return a number that changes when another connection changes the file; costs less than any read."""
        return int(self.query("PRAGMA data_version")[0][0])

    def remembered(self, key: Hashable, read: Callable[[], _Read]) -> _Read:
        """Return what `read` returned for a key, reading again only after a change of the session.

        Another connection's commit ends all that this thread remembers, and so does the end of a transaction
        of its own, unless that one changes only queries. So `read` may read anything but queries and the log.
        """
        known = self._known()
        if key not in known:
            if len(known) >= _MOST_REMEMBERED:
                known.clear()
            known[key] = read()
        found: _Read = known[key]
        return found

    def just_read(self, key: Hashable, read: Callable[[], _Read]) -> _Read:
        """Return what `read` returned for a key, if nothing was written and no other key read since."""
        known, now = self._known(), (key, self.connection().total_changes)
        if known.get(_JUST_READ, (None, None))[0] != now:
            known[_JUST_READ] = now, read()
        found: _Read = known[_JUST_READ][1]
        return found

    def _known(self) -> dict[Hashable, Any]:
        """Return what this thread remembers, nothing if another connection has changed the file.

        Within a transaction no other connection writes, so the file is asked for its version only once.
        """
        local = self._local
        if not getattr(local, "is_checked", False):
            version = self.version()
            if version != getattr(local, "version", None):
                local.version, local.known = version, {}
            local.is_checked = getattr(local, "is_writing", False)
        known: dict[Hashable, Any] = local.known
        return known

    def _forget(self) -> None:
        """Forget what this thread remembers."""
        self._local.version, self._local.is_checked, self._local.known = None, False, {}

    def transaction(self, *, queries_only: bool = False) -> AbstractContextManager[sqlite3.Connection]:
        """Run the body in one IMMEDIATE transaction; an inner transaction joins the outer one.

        Args:
            queries_only: whether the body changes nothing but queries and the log.
        """
        connection = self.connection()
        if not connection.in_transaction:
            return self._whole_transaction(queries_only=queries_only)
        return nullcontext(connection) if queries_only else self._joined_transaction(connection)

    @contextmanager
    def _whole_transaction(self, *, queries_only: bool) -> Iterator[sqlite3.Connection]:
        self._local.is_checked, is_kept = False, False
        try:
            with self._as_home_errors(), _within(self.connection(), "BEGIN IMMEDIATE") as connection:
                self._local.is_writing = True
                yield connection
            is_kept = queries_only
        finally:
            self._local.is_writing = self._local.is_checked = False
            if not is_kept:
                self._forget()

    @contextmanager
    def _joined_transaction(self, connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        try:
            yield connection
        finally:
            self._forget()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Run the body in one read-only transaction, so that all its reads see the same state."""
        with self._as_home_errors(), _within(self.connection(), "BEGIN"):
            yield

    def set_durable(self, durable: bool) -> None:
        """Set whether every transaction is synced to disk, for this thread's connection and later ones."""
        self._is_durable = durable
        self.connection().execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durable]}")

    def force(self) -> None:
        """Sync committed data to disk, so that the rows visible now survive a power failure.

        Only the WAL file beside the database is synced. SQLite itself syncs the database before it empties
        the WAL. Opening and closing the database file here would release SQLite's locks on it.
        """
        with suppress(FileNotFoundError):
            force(self.path.with_name(f"{self.path.name}-wal"))

    @contextmanager
    def _as_home_errors(self) -> Iterator[None]:
        """Convert SQLite's errors about the file into `HomeError`."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise _home_error(self.path, error) from error

    def decoded(self, seq: int, kind: LogKind, spec: str) -> LogEntry:
        """Decode the content of a log row.

        Raises:
            HomeError: the row is damaged.
            OtherVersionError: the row was written by a version that cannot be read any more.
        """
        try:
            return decode_entry(kind, spec)
        except msgspec.DecodeError as error:
            raise HomeError(f"row {seq} of the log in {self.path} is damaged", hint=_DAMAGED) from error

    def template_rows(self, last: int) -> TemplateRows:
        """Return the queries that were registered together, by the id of the last one."""
        from stqsh.storage.queries.query_templates import TemplateRows  # pyarrow: only when needed

        found = self._templates.get(last)
        if found is None:
            [(template, payload)] = self.query(
                "SELECT pattern, payload FROM patterns JOIN log ON seq = id WHERE id = ?", last
            )
            found = TemplateRows.read(template, payload, last)
            if len(self._templates) >= self._most_templates:  # drop templates whose rows are forgotten
                there = {id_ for (id_,) in self.query("SELECT id FROM patterns")}
                self._templates = {id_: rows for id_, rows in list(self._templates.items()) if id_ in there}
                self._most_templates = 2 * len(self._templates) + _TEMPLATES
            self._templates[last] = found
        return found

    def give_back(self) -> int:
        """Shrink the file if most of it is free; return by how many bytes.

        Pages are released in short transactions, so other writers can continue in between. The file of an
        older version cannot be shrunk in steps: it is rewritten if little of it is in use, and can be shrunk
        afterwards.
        """
        [(pages,)], [(free,)] = self.query("PRAGMA page_count"), self.query("PRAGMA freelist_count")
        if free < _FREE_PAGES or 2 * free < pages:
            return 0
        connection = self.connection()
        with self._as_home_errors():
            if self.query("PRAGMA auto_vacuum") == [(_INCREMENTAL,)]:
                for _ in range(0, free, _PAGES_AT_ONCE):
                    # `execute` would release only one page because it steps only to the first row.
                    connection.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")
            elif pages - free <= _PAGES_ANEW:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        [(left,)], [(size,)] = self.query("PRAGMA page_count"), self.query("PRAGMA page_size")
        return int((pages - left) * size)

    def close(self) -> None:
        """Close this thread's connection; each other thread closes its own on its next access.

        SQLite crashes with a segmentation fault if a connection is closed while another thread reads from it.
        """
        self._is_closed = True
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is not None:
            found.close()


@contextmanager
def _within(connection: sqlite3.Connection, begin: str) -> Iterator[sqlite3.Connection]:
    """Run the body in a transaction, or in the one already open; an error in the body rolls it back."""
    if connection.in_transaction:
        yield connection
        return
    try:
        # SQLite ignores Ctrl-C while it waits for other writers: it is handled once this has begun.
        connection.execute(begin)
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk may already have ended it
            connection.execute("ROLLBACK")
        raise


def _home_error(path: Path, error: sqlite3.DatabaseError) -> HomeError:
    hint = next((hint for words, hint in _REMEDIES.items() if words in str(error)), None)
    return HomeError(f"cannot use {path}: {error}", hint=hint)


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch a connection to WAL mode, waiting as long as for any other statement.

    While another process switches a new file, SQLite fails at once, because its timeout does not apply here.
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
    """Return a value as the JSON of log and catalogue; raise `TypeError` if JSON cannot represent it."""
    return msgspec.json.encode(value).decode()


def append(control: ControlDb, entry: LogEntry, text: str = "", payload: bytes | None = None) -> LogRow:
    """Append a row to the control log and return it; joins an open transaction.

    The id of a new stream, table, region or query is the number of its row.
    """
    at_us = control.clock()
    with control.transaction(queries_only=True) as connection:
        seq = None  # SQLite gives the next number
        if isinstance(entry, _DEFINITIONS):
            [seq] = connection.execute(_NEXT).fetchone()
            entry = replace(entry, id=seq)
        inserted = connection.execute(
            "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)",
            (seq, at_us, kind_of(entry), text, to_text(entry), payload),
        )
        assert inserted.lastrowid is not None
    return LogRow(inserted.lastrowid, at_us, entry, text, payload)


class Logged(NamedTuple):
    """A row of the log as it is written: its number, time, and content as JSON."""

    seq: int
    at_us: int
    spec: str


def append_all(control: ControlDb, entries: Sequence[tuple[str, LogEntry]]) -> list[Logged]:
    """Append rows to the log, each with its text; a definition gets the number of its row as its id."""
    at_us = control.clock()
    with control.transaction(queries_only=True) as connection:
        [first] = connection.execute(_NEXT).fetchone()
        logged = [
            Logged(
                number,
                at_us,
                to_text(replace(entry, id=number) if isinstance(entry, _DEFINITIONS) else entry),
            )
            for number, (_, entry) in enumerate(entries, first)
        ]
        rows = [
            (row.seq, at_us, kind_of(entry), text, row.spec, None)
            for row, (text, entry) in zip(logged, entries, strict=True)
        ]
        connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", rows)
    return logged


def entries_after(control: ControlDb, seq: int, kinds: Collection[LogKind]) -> list[tuple[int, LogEntry]]:
    """Return the number and content of the log's rows of some kinds after `seq`, in order."""
    marks = ", ".join("?" * len(kinds))
    rows = control.query(
        f"SELECT seq, kind, spec FROM log WHERE seq > ? AND kind IN ({marks}) ORDER BY seq", seq, *kinds
    )
    return [(number, control.decoded(number, kind, spec)) for number, kind, spec in rows]


def read_log(
    control: ControlDb, after: int = 0, up_to: int | None = None, *, whole: bool = True
) -> list[LogRow]:
    """Return the log's rows with `after < seq <= up_to` (to the end without `up_to`), in order.

    Texts and payloads, which may be large, are omitted unless `whole` is true.

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
    """Return the sequence number of the log's last row, 0 if the log is empty; costs one index look-up."""
    return int(control.query("SELECT coalesce(max(seq), 0) FROM log")[0][0])


def get_meta(control: ControlDb, key: str) -> str | None:
    """Return a value stored for the whole session, for instance the name of its profile."""
    rows = control.query("SELECT value FROM meta WHERE key = ?", key)
    return str(rows[0][0]) if rows else None


def keeps_heads_in_spark(control: ControlDb) -> bool:
    """Return whether a session's slots are on a cluster, where Spark keeps their heads."""
    return (get_meta(control, "state") or "").startswith("spark")


def set_meta(control: ControlDb, key: str, value: str) -> None:
    """Store a value for the whole session."""
    with control.transaction() as connection:
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def session_uuid(control: ControlDb) -> str:
    """Return the session's uuid, which names its files in shared storage; it is created on first use."""
    with control.transaction() as connection:
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('uuid', ?)", (str(uuid.uuid4()),))
    found = get_meta(control, "uuid")
    assert found is not None, "it has just been recorded"
    return found


def read_settings(control: ControlDb) -> Mapping[str, Any]:
    """Return the values given by SET in this session, by dotted key."""
    return {key: orjson.loads(value) for key, value in control.query("SELECT key, value FROM settings")}


def check_queries(control: ControlDb) -> None:
    """Raise `OtherVersionError` for queries registered together by a version without REGISTER QUERIES."""
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
