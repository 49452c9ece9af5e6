"""The layouts of control.db: what each version adds, and the migration of older homes."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

import orjson

from stqsh.storage.output_files import archive_of

_LAYOUT_1 = """
CREATE TABLE log (seq INTEGER PRIMARY KEY AUTOINCREMENT, at_us INTEGER NOT NULL, kind TEXT NOT NULL,
  text TEXT NOT NULL, spec TEXT NOT NULL, payload BLOB);
CREATE TABLE streams (id INTEGER PRIMARY KEY, name TEXT NOT NULL, spec TEXT NOT NULL, dropped_seq INTEGER);
CREATE TABLE queries (id INTEGER PRIMARY KEY, name TEXT NOT NULL, stream_id INTEGER NOT NULL,
  spec TEXT NOT NULL, state TEXT NOT NULL, seq INTEGER NOT NULL, size INTEGER NOT NULL DEFAULT 0,
  since_us INTEGER NOT NULL, owner TEXT);
CREATE TABLE stream_status (id INTEGER PRIMARY KEY, state TEXT NOT NULL, rows INTEGER NOT NULL DEFAULT 0,
  dead INTEGER NOT NULL DEFAULT 0, message TEXT NOT NULL DEFAULT '', progress REAL NOT NULL DEFAULT 0);
CREATE TABLE progress (one INTEGER PRIMARY KEY CHECK (one = 1), batch INTEGER NOT NULL, step INTEGER NOT NULL,
  base_tick INTEGER, tick_us INTEGER, seq INTEGER NOT NULL, run_done INTEGER NOT NULL,
  ended INTEGER NOT NULL, wall_us INTEGER NOT NULL, stats TEXT NOT NULL);
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE INDEX query_by_name ON queries (name);
CREATE UNIQUE INDEX stream_names ON streams (name) WHERE dropped_seq IS NULL;
CREATE UNIQUE INDEX query_names ON queries (name) WHERE state IN ('active', 'paused');
"""
_LAYOUT_2 = """
CREATE TABLE tables (id INTEGER PRIMARY KEY, name TEXT NOT NULL, spec TEXT NOT NULL, dropped_seq INTEGER);
CREATE TABLE areas (id INTEGER PRIMARY KEY, name TEXT NOT NULL, spec TEXT NOT NULL, dropped_seq INTEGER);
CREATE UNIQUE INDEX table_names ON tables (name) WHERE dropped_seq IS NULL;
CREATE UNIQUE INDEX area_names ON areas (name) WHERE dropped_seq IS NULL;
ALTER TABLE stream_status ADD COLUMN duplicates INTEGER NOT NULL DEFAULT 0;
"""
_LAYOUT_3 = """
CREATE TABLE patterns (id INTEGER PRIMARY KEY, spec TEXT NOT NULL, pattern TEXT NOT NULL);
ALTER TABLE queries ADD COLUMN pattern INTEGER;
"""
_LAYOUT_4 = """
CREATE TABLE sizes (bucket INTEGER PRIMARY KEY, content BLOB NOT NULL);
"""
_LAYOUT_5 = """
CREATE TABLE update_files (batch INTEGER PRIMARY KEY, size INTEGER NOT NULL, checksum TEXT,
  total INTEGER NOT NULL);
CREATE TABLE update_base (one INTEGER PRIMARY KEY CHECK (one = 1), batch INTEGER NOT NULL,
  step INTEGER NOT NULL, size INTEGER NOT NULL, checksum TEXT, total INTEGER NOT NULL);
"""
_LAYOUT_6 = """
ALTER TABLE stream_status ADD COLUMN seal TEXT NOT NULL DEFAULT '';
"""
_LAYOUT_7 = """
CREATE TABLE sinks (id INTEGER PRIMARY KEY, name TEXT NOT NULL, spec TEXT NOT NULL, dropped_seq INTEGER);
CREATE UNIQUE INDEX sink_names ON sinks (name) WHERE dropped_seq IS NULL;
"""
_LAYOUT_8 = """
CREATE TABLE taken (seq INTEGER PRIMARY KEY, step INTEGER);
INSERT INTO taken SELECT seq, NULL FROM progress;
"""
PASSING = "kind IN ('drop', 'pause_query', 'resume_query', 'alter_query', 'found', 'ask', 'memory')"
"""An SQL condition: log rows that are useless once they have taken effect and their query is gone."""
_LAYOUT_9 = """
CREATE INDEX passing ON log (kind, json_extract(spec, '$.id'))
  WHERE kind IN ('drop', 'pause_query', 'resume_query', 'found', 'ask', 'memory');
"""
PLAYING = "kind IN ('run', 'play', 'pause', 'drop_stream')"
"""An SQL condition: log rows that determine what plays; clients read them again and again."""
_LAYOUT_10 = f"""
CREATE INDEX playing ON log (kind) WHERE {PLAYING};
"""
SEPARATE = "kind IN ('route', 'register_alike')"
"""An SQL condition: log rows that are few and large, and are read without their neighbours."""
_LAYOUT_11 = f"""
CREATE INDEX separate ON log (kind) WHERE {SEPARATE};
"""
LIVE = "state IN ('active', 'paused')"
"""An SQL condition: queries that are neither dropped nor ended."""
IS_ALERT = "json_extract(spec, '$.target.type') = 'alert'"
"""An SQL condition: sinks that are alerts."""
_LAYOUT_12 = """
CREATE TABLE turns (batch INTEGER PRIMARY KEY, after INTEGER NOT NULL, seq INTEGER NOT NULL,
  only_commands INTEGER NOT NULL, offsets TEXT NOT NULL);
"""
_LAYOUT_13 = """
CREATE TABLE archive_files (name TEXT PRIMARY KEY, stream INTEGER NOT NULL, batch INTEGER NOT NULL,
  day TEXT NOT NULL, events INTEGER NOT NULL, since_us INTEGER NOT NULL, last_us INTEGER NOT NULL,
  size INTEGER NOT NULL, is_counted INTEGER NOT NULL) WITHOUT ROWID;
"""
_LAYOUT_14 = f"""
DROP INDEX passing;
CREATE INDEX passing ON log (kind, json_extract(spec, '$.id')) WHERE {PASSING};
"""
_LAYOUT_15 = """
CREATE TABLE query_streams (id INTEGER PRIMARY KEY, name TEXT NOT NULL, spec TEXT NOT NULL,
  dropped_seq INTEGER, position TEXT NOT NULL DEFAULT '{}', parts INTEGER NOT NULL DEFAULT 0,
  rows INTEGER NOT NULL DEFAULT 0, dead INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX query_stream_names ON query_streams (name) WHERE dropped_seq IS NULL;
CREATE TABLE streamed (query INTEGER PRIMARY KEY, stream INTEGER NOT NULL, content TEXT NOT NULL);
CREATE INDEX streamed_by_stream ON streamed (stream);
"""
_LAYOUT_16 = ""  # queries have members, a result and a timing: see `stqsh.spec.older_queries`
LAYOUTS = (
    _LAYOUT_1,
    _LAYOUT_2,
    _LAYOUT_3,
    _LAYOUT_4,
    _LAYOUT_5,
    _LAYOUT_6,
    _LAYOUT_7,
    _LAYOUT_8,
    _LAYOUT_9,
    _LAYOUT_10,
    _LAYOUT_11,
    _LAYOUT_12,
    _LAYOUT_13,
    _LAYOUT_14,
    _LAYOUT_15,
    _LAYOUT_16,
)
"""The SQL that each version adds to the one before; opening an older home applies what it lacks."""
SCHEMA_VERSION = len(LAYOUTS)


def bring_up(connection: sqlite3.Connection, version: int, home: Path) -> None:
    """Migrate a home's control.db from an older layout to the current one, in the open transaction."""
    for number, layout in enumerate(LAYOUTS[version:], start=version + 1):
        for statement in filter(str.strip, layout.split(";")):
            connection.execute(statement)
        if number == 5:
            _list_update_files(connection, home / "updates")
        if number == 13:
            _list_archives(connection)
        if number == 16:
            _compose_queries(connection)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _compose_queries(connection: sqlite3.Connection) -> None:
    """Upgrade all queries, whose parts were not separate."""
    from stqsh.spec.older_queries import UPGRADES, upgraded  # the structs of queries: only for older homes

    connection.create_function("upgraded", 2, upgraded, deterministic=True)
    kinds = ", ".join(f"'{kind}'" for kind in UPGRADES)
    connection.execute(f"UPDATE log SET spec = upgraded(kind, spec) WHERE kind IN ({kinds})")
    connection.execute("UPDATE queries SET spec = upgraded('register', spec) WHERE spec <> ''")
    connection.execute(
        "UPDATE patterns SET spec = upgraded('register', spec), pattern = upgraded('template', pattern)"
    )
    connection.execute("UPDATE query_streams SET spec = upgraded('create_query_stream', spec)")


def _list_update_files(connection: sqlite3.Connection, updates: Path) -> None:
    """List the files of an update log written before files were listed; their checksums are unknown."""
    files = {path.name: path.stat().st_size for path in updates.glob("*") if path.is_file()}
    totals: Counter[str] = Counter()
    for name, size in files.items():
        totals[name.partition(".")[0]] += size
    (last,) = connection.execute("SELECT coalesce(max(batch), -1) FROM progress").fetchone()
    base = -1
    if "base" in files:
        base, step = orjson.loads((updates / "base").read_bytes())
        name = f"base-{base:012d}"
        connection.execute(
            "INSERT INTO update_base VALUES (1, ?, ?, ?, NULL, ?)",
            (base, step, files.get(f"{name}.arrow", 0), totals[name]),
        )
    connection.executemany(
        "INSERT INTO update_files VALUES (?, ?, NULL, ?)",
        [
            (int(name[:12]), size, totals[name[:12]])
            for name, size in files.items()
            if name[:12].isdigit() and name[12:] == ".arrow" and base < int(name[:12]) <= last
        ],
    )


def _list_archives(connection: sqlite3.Connection) -> None:
    """List the archive files written before they were listed, up to the last batch."""
    (last,) = connection.execute("SELECT coalesce(max(batch), -1) FROM progress").fetchone()
    streams = connection.execute(
        "SELECT id, name, json_extract(spec, '$.archive'), json_extract(spec, '$.time') FROM streams"
        " WHERE dropped_seq IS NULL AND json_extract(spec, '$.archive') IS NOT NULL"
    ).fetchall()
    for stream, name, folder, time in streams:
        from stqsh.storage.archive_reader import measure_file  # pyarrow: only for sessions with an archive

        for batch, day, path in archive_of(Path(folder), name):
            if batch <= last:
                events, since_us, last_us = measure_file(path, time)
                connection.execute(
                    "INSERT INTO archive_files VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)",
                    (
                        f"{stream}/{batch}/{day}",
                        stream,
                        batch,
                        day,
                        events,
                        since_us,
                        last_us,
                        path.stat().st_size,
                    ),
                )
