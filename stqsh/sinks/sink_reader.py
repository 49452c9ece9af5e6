"""Read a sink's updates in parts: first the initial answers, then the updates of each batch.

The division into parts depends on the log alone, so a repeated part has the same content.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.client.connection import Connection
from stqsh.client.read.subscription import UpdateReader
from stqsh.client.results import Updates
from stqsh.spec.sink import SinkSpec
from stqsh.storage.rows import SinkRow
from stqsh.storage.sinks.sink_position import SinkPosition
from stqsh.storage.update_log.files import LogCompactedError, logged_files, read_base
from stqsh.storage.update_log.order import ordered
from stqsh.storage.update_log.reader import UpdateLog, UpdateTable, key_ranks

_WANTED = 1_000
"""How many ids of dropped queries are kept, in addition to a quarter of those that a sink writes."""


@dataclass(frozen=True, slots=True)
class SinkPart:
    """Updates that a sink writes together, in order.

    Attributes:
        batch: the batch; for the initial answers, the last batch that they include.
        step: the first step of the batch.
        number: the number of the part within its batch, from 0.
        updates: runs of updates of one stream each.
        reached: the position after the part.
    """

    batch: int
    step: int
    number: int
    updates: tuple[Updates, ...]
    reached: SinkPosition

    @property
    def rows(self) -> int:
        """The number of updates."""
        return sum(one.table.num_rows for one in self.updates)


class SinkReader:
    """Reads the log for one sink; `rows` is the maximum number of updates in a part."""

    def __init__(self, connection: Connection, sink: SinkRow, rows: int) -> None:
        self._connection, self._spec, self._rows = connection, sink.spec, rows
        self._wanted = WantedQueries(connection, sink.spec)
        self._log = UpdateLog(connection.db, connection.book.key_of)

    def parts(self, position: SinkPosition, up_to: int) -> Iterator[SinkPart]:
        """Yield the parts after a position, up to a batch.

        A part without updates only moves the position.

        Raises:
            LogCompactedError: the log is folded beyond the position.
            DamagedFileError: a file of the log is damaged.
        """
        if not position.begun:
            begun = replace_position(
                position, after=self._spec.batch, parts=0, begun=True, step=self._spec.step
            )
            for part in self._cut(self._answers(), position, begun):
                yield part
                position = part.reached
        reader = UpdateReader(self._connection, position.after, self._wanted)
        for file in logged_files(self._connection.db, position.after, up_to):
            self._wanted.refresh()
            updates = list(reader.poll(file.batch))
            # Also at the beginning, where `after` is -1.
            if read_base(self._connection.db).batch > position.after:
                raise LogCompactedError
            done = replace_position(position, after=file.batch, parts=0)
            for part in self._cut(updates, position, done):
                yield part
                position = part.reached

    def _cut(self, updates: list[Updates], base: SinkPosition, done: SinkPosition) -> Iterator[SinkPart]:
        """Yield the parts of a batch after `base`; the position after the last part is `done`."""
        pieces = list(_pieces(updates, self._rows, whole_steps=self._spec.is_alert))
        step = int(pieces[0][0].table.column("step")[0].as_py()) if pieces else done.step
        written = base.updates
        for number, piece in enumerate(pieces or [[]]):
            if number < base.parts:
                continue
            count = sum(one.table.num_rows for one in piece)
            last = max((int(one.table.column("step")[-1].as_py()) for one in piece), default=done.step)
            written += count
            is_last = number + 1 >= len(pieces)
            reached = done if is_last else replace_position(base, parts=number + 1)
            reached = replace_position(reached, updates=written, step=max(last, base.step))
            yield SinkPart(done.after, step, number, tuple(piece), reached)

    def _answers(self) -> list[Updates]:
        """Return the initial answers, as rows that enter the answers in that step."""
        spec = self._spec
        if spec.batch < 0 or spec.at_us is None:
            return []
        self._wanted.refresh()
        found: dict[tuple[int, str], list[pa.Table]] = {}
        for tables in self._log.read(-1, spec.batch, self._wanted):
            for one in tables:  # keys of aggregates have another type
                relation = one.stream_id, str(one.table.schema.field("key").type)
                found.setdefault(relation, []).append(one.table)
        standing = [
            UpdateTable(spec.batch, stream, _standing(parts, spec.step, spec.at_us))
            for (stream, _), parts in sorted(found.items())
        ]
        self._connection.book.refresh()
        book, lookups = self._connection.book, self._connection.lookups
        tables = [one for one in standing if one.table.num_rows]
        return [
            Updates(table, book.stream(stream), book.queries, snapshot=True, lookups=lookups)
            for stream, table in (ordered(tables, book.names) if tables else ())
        ]


class WantedQueries:
    """Selects the query ids that a sink writes; `refresh` adds queries registered since."""

    def __init__(self, connection: Connection, spec: SinkSpec) -> None:
        self._connection, self._spec, self._newest, self._most = connection, spec, 0, _WANTED
        self._ids: NDArray[np.int64] = np.empty(0, np.int64)

    def refresh(self) -> None:
        """Read the queries registered since the last call, and occasionally all of them."""
        if len(self._ids) > self._most:
            self._ids, self._newest = self._ids[:0], 0
            self._read()
            self._most = len(self._ids) * 5 // 4 + _WANTED
        else:
            self._read()

    def _read(self) -> None:
        """Read the queries after the newest known one.

        Subscriptions belong to their clients, so they are included only if named.
        """
        rows = self._connection.db.query(
            "SELECT id, name, owner FROM queries WHERE id > ? ORDER BY id", self._newest
        )
        names = set(self._spec.queries)
        new = [id_ for id_, name, owner in rows if (name in names if names else owner is None)]
        if rows:
            self._newest = rows[-1][0]
            self._ids = np.concatenate([self._ids, np.array(new, np.int64)])

    def __call__(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which ids are wanted."""
        wanted: NDArray[np.bool_] = np.isin(ids, self._ids)
        return wanted


def replace_position(position: SinkPosition, **changes: object) -> SinkPosition:
    """Return a position with other values; pending files are never copied."""
    return msgspec.structs.replace(position, **{"placed": (), **changes})


def _standing(parts: list[pa.Table], step: int, at_us: int) -> pa.Table:
    """Return the rows that remain in the answers after a stream's updates, as updates of one step."""
    log = pa.concat_tables(parts, promote_options="default")
    query, keys = log.column("query").to_numpy(), key_ranks(log.column("key"))
    order = np.lexsort((log.column("op").to_numpy(), log.column("step").to_numpy(), keys, query))
    changes = (np.diff(query[order], append=-1) != 0) | (np.diff(keys[order], append=-1) != 0)
    last = log.take(order[np.flatnonzero(changes)])
    last = last.filter(pa.array(last.column("op").to_numpy() > 0))
    for place, (name, value) in enumerate((("step", step), ("at_us", at_us))):
        last = last.set_column(place, name, pa.repeat(pa.scalar(value, pa.int64()), last.num_rows))
    return last


def _pieces(updates: list[Updates], rows: int, *, whole_steps: bool) -> Iterator[list[Updates]]:
    """Yield updates in pieces of at most `rows`; with `whole_steps`, more if a single step has more."""
    piece: list[Updates] = []
    room = rows
    for one in updates:
        start = 0
        while start < one.table.num_rows:
            taken = min(room, one.table.num_rows - start)
            if whole_steps:
                steps = one.table.column("step").to_numpy()
                taken = int(np.searchsorted(steps, steps[start + taken - 1], "right")) - start
            piece.append(replace(one, table=one.table.slice(start, taken)))
            start, room = start + taken, room - taken
            if room <= 0:
                yield piece
                piece, room = [], rows
    if piece:
        yield piece
