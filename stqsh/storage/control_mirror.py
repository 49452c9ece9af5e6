"""The mirror of control.db in a session's storage, from which another host can restore the file.

Where the storage is not the home, the disk of the driver's host may be lost while the session continues on
another host. Triggers record which rows change. The changed rows are published as a piece before an offset
refers to statements and after a batch is delivered, together with the files of the update log that they list.
A piece with all rows replaces many pieces. The name of a piece contains the number of its last change, so if
two processes publish at the same time, the later one's rows win.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeAlias

import msgspec

from stqsh.checksums import with_seal, without_seal
from stqsh.errors import HomeError
from stqsh.fs import atomic_write, replacing
from stqsh.storage.blobs import Blobs
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.layouts import LAYOUTS, SCHEMA_VERSION

Value: TypeAlias = Any
"""The types of SQLite values: integer, float, text, bytes or None."""

_PIECES, _UPDATES = "control/", "updates/"
_WHOLE, _SOME = ".whole", ".some"
_MOST_PIECES = 64
"""The number of pieces after which a piece with all rows is published."""
_CHANGES = "mirrored"
_TABLES = (
    f"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('{_CHANGES}', 'sqlite_sequence')"
)
_LISTING = {"update_files": "{:012d}.", "update_base": "base-{:012d}."}
"""The tables that list files of the update log by batch, with the prefix of these files' names."""
_BATCH = {"update_files": 0, "update_base": 1}
"""The column of each of these tables that holds the batch."""


class MirrorPiece(msgspec.Struct, frozen=True, array_like=True):
    """Rows of control.db.

    Attributes:
        version: the layout of the tables.
        last: the number of the last row of the log at that time.
        rows: the table, the key and the columns of each row; None as columns for a deleted row.
    """

    version: int
    last: int
    rows: list[tuple[str, Value, tuple[Value, ...] | None]]


_PIECE = msgspec.msgpack.Decoder(MirrorPiece)


class ControlMirror:
    """Publishes the changes of a session's control.db.

    Args:
        home: the session's home.
        control: its control.db.
        blobs: its storage.
    """

    def __init__(self, home: SessionHome, control: ControlDb, blobs: Blobs) -> None:
        self._home, self._control, self._blobs = home, control, blobs
        self._keys = {table: _key_of(control, table) for (table,) in control.query(_TABLES)}
        self._pieces, self._are_noted = 0, False

    def _note_changes(self) -> None:
        """Install the triggers that record changes; if they were missing, have all rows published next."""
        triggers = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'mirror_%'"
        if self._control.query(triggers) == [(3 * len(self._keys),)]:
            return
        with self._control.transaction() as connection:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {_CHANGES}"
                " (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, key)"
            )
            for table, key in self._keys.items():
                for event, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
                    connection.execute(
                        f"CREATE TRIGGER IF NOT EXISTS mirror_{event}_{table} AFTER {event} ON {table} BEGIN"
                        f" INSERT INTO {_CHANGES} (name, key) VALUES ('{table}', {row}.{key}); END"
                    )
            connection.execute(f"INSERT INTO {_CHANGES} (name) VALUES ('')")  # so that a number exists
        self._pieces = _MOST_PIECES

    def publish(self) -> None:
        """Publish the changes since the last call, if there are any.

        Raises:
            StorageError: the storage still fails after all retries.
        """
        if not self._are_noted:
            self._note_changes()
            self._are_noted = True
        is_whole = self._pieces >= _MOST_PIECES
        with self._control.reading():
            [(number,)] = self._control.query(f"SELECT coalesce(max(id), 0) FROM {_CHANGES}")
            if not number:
                return
            rows = list(self._all() if is_whole else self._changed())
            last = self._control.query("SELECT seq FROM sqlite_sequence WHERE name = 'log'")
        piece = MirrorPiece(SCHEMA_VERSION, last[0][0] if last else 0, rows)
        self._put_updates(rows)
        name = f"{_PIECES}{number:016d}{_WHOLE if is_whole else _SOME}"
        self._blobs.put(name, [with_seal(msgspec.msgpack.encode(piece))])
        with self._control.transaction() as connection:
            connection.execute(f"DELETE FROM {_CHANGES} WHERE id <= ?", (number,))
        self._pieces = 0 if is_whole else self._pieces + 1
        if is_whole:
            self._blobs.delete(older for older in self._blobs.names(_PIECES) if older < name)
            listed = {file for row in rows for file in _files_of(row)}
            kept = self._blobs.names(_UPDATES)
            self._blobs.delete(file for file in kept if not file.startswith(tuple(listed)))

    def _all(self) -> Iterator[tuple[str, Value, tuple[Value, ...]]]:
        for table, key in self._keys.items():
            for value, *columns in self._control.query(f"SELECT {key}, * FROM {table}"):
                yield table, value, tuple(columns)

    def _changed(self) -> Iterator[tuple[str, Value, tuple[Value, ...] | None]]:
        changed = self._control.query(f"SELECT DISTINCT name, key FROM {_CHANGES} WHERE name != ''")
        for table, key in changed:
            found = self._control.query(f"SELECT * FROM {table} WHERE {self._keys[table]} = ?", key)
            yield table, key, found[0] if found else None

    def _put_updates(self, rows: Iterable[tuple[str, Value, tuple[Value, ...] | None]]) -> None:
        """Publish the files of the update log that the rows list."""
        begun = {file.removeprefix(_UPDATES) for row in rows for file in _files_of(row)}
        if not begun:
            return
        there = set(self._blobs.names(_UPDATES))
        for begin in sorted(begun):
            for path in self._home.updates.glob(f"{begin}*"):
                if (name := f"{_UPDATES}{path.name}") not in there:
                    self._blobs.put(name, [path.read_bytes()])


def forget_mirror(control: ControlDb) -> None:
    """Stop recording changes for a mirror, in a session without one or with a new one."""
    triggers = control.query("SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'mirror_%'")
    with control.transaction() as connection:
        for (name,) in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(f"DROP TABLE IF EXISTS {_CHANGES}")


def mirror_of(home: SessionHome, control: ControlDb, blobs: Blobs) -> ControlMirror | None:
    """Return the mirror of a session's control.db in its storage; None if the storage is the home itself."""
    return None if blobs.at_home else ControlMirror(home, control, blobs)


def restore_control(home: SessionHome, blobs: Blobs) -> bool:
    """Restore control.db and the update log of a new home from their mirror; return whether a mirror exists.

    Raises:
        DamagedFileError: a piece is missing or damaged.
        HomeError: the mirror was made by a newer version.
    """
    names = blobs.names(_PIECES)
    whole = [name for name in names if name.endswith(_WHOLE)]
    if not whole:
        return False
    pieces = [_read(blobs, name) for name in names[names.index(whole[-1]) :]]
    if (version := max(piece.version for piece in pieces)) > SCHEMA_VERSION:
        raise HomeError(
            f"the session in {blobs.uri} was written by a newer stqsh (layout {version})",
            hint="install that version",
        )
    number = int(names[-1].removeprefix(_PIECES).partition(".")[0])
    listed: dict[tuple[str, Value], list[str]] = {}
    for row in (row for piece in pieces for row in piece.rows):
        listed[row[:2]] = _files_of(row)
    home.updates.mkdir(mode=0o700, exist_ok=True)
    begun = tuple(file for files in listed.values() for file in files)
    for name in blobs.names(_UPDATES):
        if name.startswith(begun):
            atomic_write(home.path / name, memoryview(blobs.read(name)))
    with replacing(home.control_db, private=True) as hidden, closing(sqlite3.connect(hidden)) as made:
        _fill(made, version, pieces, number)
    return True


def _fill(made: sqlite3.Connection, version: int, pieces: Sequence[MirrorPiece], number: int) -> None:
    """Create the tables of a layout and fill them with the rows of pieces; `number` is the last change's."""
    for layout in LAYOUTS[:version]:
        made.executescript(layout)
    keys = {table: _primary_key(made, table) for (table,) in made.execute(_TABLES).fetchall()}
    for table in keys:
        made.execute(f"DELETE FROM {table}")
    for table, key, columns in (row for piece in pieces for row in piece.rows):
        if columns is None:
            made.execute(f"DELETE FROM {table} WHERE {keys[table]} = ?", (key,))
        else:
            made.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(columns))})", columns)
    made.execute(f"CREATE TABLE {_CHANGES} (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, key)")
    made.execute("DELETE FROM sqlite_sequence")
    last = max(piece.last for piece in pieces)
    made.executemany("INSERT INTO sqlite_sequence VALUES (?, ?)", [("log", last), (_CHANGES, number)])
    made.execute(f"PRAGMA user_version = {version}")
    made.commit()


def _read(blobs: Blobs, name: str) -> MirrorPiece:
    return _PIECE.decode(without_seal(memoryview(blobs.read(name)).tobytes(), name))


def _files_of(row: tuple[str, Value, tuple[Any, ...] | None]) -> list[str]:
    """Return the name prefixes of the blobs that a row lists."""
    table, _, columns = row
    if columns is None or table not in _LISTING:
        return []
    batch = columns[_BATCH[table]]
    return [_UPDATES + _LISTING[table].format(batch)]


def _key_of(control: ControlDb, table: str) -> str:
    return _primary_key(control.connection(), table)


def _primary_key(connection: sqlite3.Connection, table: str) -> str:
    [key] = [name for _, name, *_, is_key in connection.execute(f"PRAGMA table_info({table})") if is_key]
    return str(key)
