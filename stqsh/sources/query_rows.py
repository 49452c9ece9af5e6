"""Apply the rows of a query stream: each registers, changes, replaces or drops the query with its name.

A part of the source is applied in one transaction of control.db, together with the position after it and the
counts, so a process that is killed has applied all of a part or nothing. What it appends to the log are the
rows of REGISTER, ALTER and DROP in the order of the source, with the numbers that single statements would
get: planner, slots and recovery do not know of query streams, and how a source is cut into parts changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import groupby, islice
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.lang.binder.altering import altered
from stqsh.lang.binder.parameters import Hole
from stqsh.lang.binder.regions import go_on
from stqsh.sources.dead_letters import DeadLetter, letter_lines, remove_live_letters, write_live_letters
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.live.protocol import Position
from stqsh.sources.parameter_checks import reach_beyond, value_checks
from stqsh.sources.session_regions import SessionRegions
from stqsh.spec.log import QueryChanged
from stqsh.spec.query_stream import DROP_COLUMN, QueryStreamSpec
from stqsh.storage.catalogue import query_by_id, stream_by_id
from stqsh.storage.catalogue_writer import Registered, log_alteration, log_change, register
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.queries.bulk_register import MOST, names_in_use, register_rows
from stqsh.storage.queries.query_streams import (
    QueryStreamRow,
    StreamedQuery,
    known_queries,
    note_applied,
    note_streamed,
    query_stream_by_id,
)
from stqsh.storage.queries.query_templates import NAMES, QueryTemplate, TemplateRows, literal
from stqsh.storage.rows import QueryRow

_LAST = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'log'"


class SourceRows(NamedTuple):
    """Rows of a query stream, in order.

    Attributes:
        records: the rows with the columns of the query stream, (n,).
        place: their origin, as shown in dead letters: `topic/3`, `http`, `insert`.
        lines: their places there, int64 (n,).
        dead: the rows that could not be read.
    """

    records: pa.RecordBatch
    place: str
    lines: NDArray[np.int64]
    dead: list[DeadLetter]

    @staticmethod
    def of(records: pa.RecordBatch, place: str, dead: list[DeadLetter]) -> SourceRows:
        """Return rows that are numbered from 1."""
        return SourceRows(records, place, np.arange(1, records.num_rows + 1), dead)


class Applied(NamedTuple):
    """What rows did: how many queries they registered, altered, replaced and dropped; and the dead rows.

    `dead` maps the index of a row to the reason why it changes nothing. Rows that repeat what their query is
    like, and those that drop a query that is not there, are in no count.
    """

    registered: int
    altered: int
    replaced: int
    dropped: int
    dead: Mapping[int, str]

    def text(self) -> str:
        """Return the counts as a part of a sentence.

        >>> Applied(2, 0, 1, 0, {}).text()
        '2 queries registered, 1 replaced'
        """
        words = ("registered", "altered", "replaced", "dropped")
        given = [(count, word) for count, word in zip(self[:4], words, strict=True) if count]
        if not given:
            return "no query changed"
        (first, word), *others = given
        noun = "1 query" if first == 1 else f"{first:,} queries"
        return ", ".join([f"{noun} {word}", *(f"{count:,} {word}" for count, word in others)])


class BadRowError(Exception):
    """A row that makes no valid query, where one has to: its line, and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line, self.reason = line, reason


class OtherPositionError(Exception):
    """The rows were read from another position than the one up to which rows were applied."""


def apply_rows(
    db: ControlDb,
    home: SessionHome,
    stream: QueryStreamRow,
    rows: SourceRows,
    position: Position | None = None,
    *,
    valid: Literal["none", "one", "all"] = "none",
) -> Applied:
    """Apply rows of a query stream, and record the position after them.

    Args:
        db: the session's control log.
        home: the session's home, for dead letters.
        stream: the query stream, as it was when its source was read.
        rows: the rows.
        position: the position in the source after the rows; None for a source that waits for its rows.
        valid: how many of the rows have to be valid; otherwise nothing changes.

    Raises:
        BadRowError: fewer rows are valid; it is the first row that is not.
        OtherPositionError: other rows were applied since the source was read.
        StqshError: the query stream, or what it uses, has been dropped.
    """
    changes = _Changes(db, stream, rows.records)
    with db.transaction():
        now = query_stream_by_id(db, stream.id)
        if position is not None and now.position != stream.position:
            raise OtherPositionError(stream.name)
        done = changes.apply()
        letters = [*rows.dead, *_letters(rows, done.dead)]
        letters.sort(key=lambda letter: (letter.file, letter.line))
        count = rows.records.num_rows + len(rows.dead)
        if letters and (valid == "all" or (valid == "one" and len(letters) == count)):
            raise BadRowError(letters[0].line, letters[0].reason)
        _write_letters(home, now, letters)
        after = now.position if position is None else position
        note_applied(db, now, after, rows=count, dead=len(letters))
    return done


def _write_letters(home: SessionHome, stream: QueryStreamRow, letters: list[DeadLetter]) -> None:
    """Write the dead letters of the next part, in place of those that a killed process left of it."""
    folder = home.stream(stream.id)
    if letters:
        write_live_letters(folder, stream.parts, letter_lines(letters))
    else:
        remove_live_letters(folder, stream.parts)


class _Changes:
    """Turns rows into log rows, in order; consecutive new queries are registered together."""

    def __init__(self, db: ControlDb, stream: QueryStreamRow, records: pa.RecordBatch) -> None:
        self._db, self._stream, self._records = db, stream, records
        self._template = template_of(stream.spec)
        key = stream.spec.rows.key
        names = records.column(key).cast(pa.string())
        parameters = list(dict.fromkeys(self._template.parameters))
        columns = [records.column(name) for name in parameters]
        self._rows = pa.RecordBatch.from_arrays([names, *columns], names=[NAMES, *parameters])
        self._wanted = TemplateRows(self._template, self._rows, 0)
        self._names: list[Any] = names.to_pylist()
        drops = records.column(DROP_COLUMN).to_pylist()
        self._drops = [drop is True for drop in drops]
        self._beyond = reach_beyond(self._template, self._rows, self._members_beyond())
        self.dead = self._bad_rows()
        self._contents = _contents(records)
        self._known: dict[str, StreamedQuery] = {}
        self._new: dict[str, int] = {}
        self._counts = [0, 0, 0, 0]

    def apply(self) -> Applied:
        """Apply all rows."""
        self._over = stream_by_id(self._db, self._stream.spec.stream_id).spec
        self._known = known_queries(self._db, self._names)
        taken = names_in_use(self._db, self._names)
        used = {name for name, is_used in zip(self._names, taken.tolist(), strict=True) if is_used}
        others = used - self._known.keys()
        for row, name in enumerate(self._names):
            if row in self.dead:
                continue
            if name in self._new:
                self._register()
            query = self._known.get(name)
            if name in others or (query is not None and query.stream != self._stream.id):
                self.dead[row] = f"the name {name} is in use"
            elif self._drops[row]:
                self._drop(name, query, 3)
            elif query is None:
                self._new[name] = row
                self._counts[0] += 1
            elif query.content != self._contents[row]:
                self._replace(name, query, row)
        self._register()
        registered, changed, replaced, dropped = self._counts
        return Applied(registered, changed, replaced, dropped, self.dead)

    def _replace(self, name: str, query: StreamedQuery, row: int) -> None:
        """Alter a query if ALTER can make it so, else drop it and register it again."""
        self._register()
        before, wanted = query_by_id(self._db, query.id), self._wanted.spec(row)
        if self._beyond[row]:
            wanted = go_on(wanted, self._over, SessionRegions(self._db))
        after = altered(before.spec, wanted, self._over)
        if after is None:
            self._drop(name, query, 2)
            self._new[name] = row
            return
        log_alteration(self._db, "", before, after)
        self._note([query.id], [row])
        self._counts[1] += 1

    def _drop(self, name: str, query: StreamedQuery | None, count: int) -> None:
        if query is None:
            return
        self._register()
        log_change(self._db, "drop", "", QueryChanged(query.id, name, self._stream.spec.stream_id))
        del self._known[name]
        self._counts[count] += 1

    def _register(self) -> None:
        """Register the new queries, and thereby keep their place in the log before what follows."""
        places = list(self._new.values())
        self._new = {}
        if len(places) == 1:  # a block of one query costs more
            self._note([register_row(self._db, self._wanted, places[0]).id], places)
            return
        for beyond, rows in groupby(places, key=lambda row: bool(self._beyond[row])):
            if beyond:
                for row in rows:
                    self._note([register_row(self._db, self._wanted, row).id], [row])
                continue
            while some := list(islice(rows, MOST)):
                left_out = register_rows(self._db, self._template, self._rows.take(pa.array(some)))
                assert not left_out.any(), "names in use were sorted out in this transaction"
                [(last,)] = self._db.query(_LAST)
                self._note(range(last + 1 - len(some), last + 1), some)

    def _note(self, ids: Any, rows: list[int]) -> None:
        contents = [self._contents[row] for row in rows]
        note_streamed(self._db, self._stream.id, ids, contents)
        for id_, row, content in zip(ids, rows, contents, strict=True):
            self._known[self._names[row]] = StreamedQuery(id_, self._stream.id, content)

    def _bad_rows(self) -> dict[int, str]:
        """Return the reasons of the rows that make no valid query and are not to drop one."""
        template = self._template
        columns = {name: self._rows.column(name) for name in self._rows.schema.names if name != NAMES}
        dead = {row: "the name is missing" for row, name in enumerate(self._names) if not name}
        checks = [*value_checks(template, columns)]
        failing = np.logical_or.reduce([check.failing for check in checks])
        for row in np.flatnonzero(failing).tolist():
            if row not in dead and not self._drops[row]:
                dead[row] = next(check.reason(row) for check in checks if check.failing[row])
        return dead

    def _members_beyond(self) -> dict[Hole, frozenset[str]]:
        """For each hole that names a member of a set, return the members over the 180th meridian."""
        holes = (hole for _, hole in self._template.holes)
        beyond = zip(holes, self._stream.spec.beyond, strict=True)
        return {hole: frozenset(members) for hole, members in beyond if members}


def register_row(db: ControlDb, rows: TemplateRows, row: int) -> QueryRow:
    """Register the query of one row by itself; its region may cross the 180th meridian.

    Raises:
        StqshError: the name is in use, or another client has since dropped what the query uses.
    """
    spec = rows.spec(rows.first + row)
    stream = stream_by_id(db, spec.stream_id).spec
    text = rows.statement(spec.name, spec.text)
    return register(db, Registered(text, go_on(spec, stream, SessionRegions(db))))


def template_of(spec: QueryStreamSpec) -> QueryTemplate:
    """Return the template of a query stream."""
    return _template(bytes(spec.template))


@lru_cache(16)
def _template(text: bytes) -> QueryTemplate:
    return QueryTemplate.from_json(text)


def schema_of(spec: QueryStreamSpec) -> RecordSchema:
    """Return the schema of a query stream's rows."""
    return RecordSchema.of(spec.rows)


def _contents(records: pa.RecordBatch) -> list[str]:
    """Return each row as a list of literals, as INSERT INTO takes it."""
    columns = [column.to_pylist() for column in records.columns[:-1]]
    return [f"({', '.join(map(literal, row))}, NULL)" for row in zip(*columns, strict=True)]


def _letters(rows: SourceRows, dead: Mapping[int, str]) -> Iterator[DeadLetter]:
    for row, reason in dead.items():
        [values] = rows.records.slice(row, 1).to_pylist()
        given = {name: value for name, value in values.items() if value is not None}
        text = orjson.dumps(given, default=str).decode()
        yield DeadLetter(rows.place, int(rows.lines[row]), reason, text)
