"""Statements of other systems and their equivalents here: hints for syntax errors."""

from __future__ import annotations

import re

_INSIDE = "INSIDE chooses by a region: SELECT * FROM taxis INSIDE CIRCLE(lon, lat, 500 m)"
_REGISTER = "a continuous query is made by REGISTER QUERY name AS SELECT …"
_PAGES = "there is no OFFSET: go on after the last key, WHERE key > 'last' ORDER BY key LIMIT 10"

_HABITS: tuple[tuple[str, str], ...] = (
    (r"(exit|quit)\b", r"\q leaves the shell, and ends a script; exit and quit do at the prompt"),
    (r"\.\w", r"commands begin with a backslash: \? lists them, \dt lists streams and tables"),
    (r"use\b|connect\b", r"\c NAME goes to another session, stqsh -s NAME opens one"),
    (r"show (databases|schemas|sessions)\b", r"stqsh sessions lists sessions, \c NAME goes to one"),
    (r"(list|ls)\b", "SHOW STREAMS, SHOW TABLES and SHOW QUERIES list what there is"),
    (r"(nearby|within|intersects|scan|fence)\b", _INSIDE),
    (
        r"set \w+ \S+ (point|object|bounds|hash)\b",
        "INSERT INTO stream VALUES (…) sends a record",
    ),
    (r"set (timing|pager|format)\b", r"these are commands: \timing on, \pager off, \format csv"),
    (r"set \S+ (to )?\w+", "a setting is changed by SET name = value"),
    (
        r"(update|delete|merge|truncate)\b",
        "records are not edited: a newer one of the key replaces it",
    ),
    (r"alter (?!query\b)", "definitions do not change: DROP it and CREATE it again; DUMP prints all of them"),
    (r"create (materialized|continuous|or|persistent)?\s*(view|query)\b", _REGISTER),
    (r"create (materialized|continuous)\b", _REGISTER),
    (
        r"create (or replace )?stream\b",
        "CREATE MOVING STREAM is for objects that move, CREATE EVENT STREAM for what happens once",
    ),
    (
        r"create table \w+\s*\([^()]*\)$",
        "a table is read from a file: CREATE TABLE name FROM FILE 'file.csv'; records come into streams",
    ),
    (r"drop \w+$", "say what it is: DROP STREAM, DROP QUERY, DROP REGION … name"),
    (r"select (top|limit|first) \d+", "LIMIT comes last: SELECT … FROM … LIMIT 5"),
    (r".*\blimit \d+ *(,|offset\b)", _PAGES),
    (
        r".*\bjoin\b",
        "a table is joined by its key: FROM taxis T, favourites F WHERE T.oid = F.oid",
    ),
    (r".*\b(interval\b|now *\()", "NOW has no parentheses, and a duration no quotes: ts > NOW - 10 min"),
    (r"select\b.*\bfrom \w+ (within|near|dwithin|intersects)\b", _INSIDE),
    (r".*\bilike\b", "LIKE heeds capitals: LOWER(status) LIKE 'f%'"),
    (r".*\bnearest \d+ to [a-z_]", "a key that is a text takes single quotes: NEAREST 3 TO 'ambulance'"),
    (r".*\bcontains [a-z_]", "the words take single quotes: CONTAINS 'taxi rain'"),
    (r"watch \w+ \w", "names are separated by commas: WATCH near, far"),
)
_READ = tuple((re.compile(pattern, re.IGNORECASE | re.DOTALL), hint) for pattern, hint in _HABITS)


def habit_hint(statement: str) -> str | None:
    """Return the equivalent here of a statement from another system; None if it is not known."""
    text = " ".join(statement.split())
    return next((hint for pattern, hint in _READ if pattern.match(text)), None)
