"""The routings of streams after their initial ones: rows of the control log with packed tables.

The tables are also stored as blobs, named by the numbers of their rows, because workers do not read the
control log. The logs of slots refer to tables by these numbers. A routing is forgotten once neither a log, a
repeated batch nor a kept record needs it, see `stqsh.engine.ingest.stream_preparer.RetiredRoutes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import json

from stqsh.checksums import with_seal, without_seal
from stqsh.routing.packages import MOST_PACKAGES
from stqsh.routing.table import RoutingTable
from stqsh.routing.table_payload import Move, pack_table, unpack_move, unpack_table
from stqsh.spec.log import StreamRouted
from stqsh.spec.stream import StreamSpec
from stqsh.storage.blobs import Blobs
from stqsh.storage.control_log import ControlDb, append, get_meta, set_meta
from stqsh.storage.layouts import SEPARATE
from stqsh.storage.progress import forget_step_before, step_taken
from stqsh.storage.queries.forgotten import forget_rows
from stqsh.storage.rows import LogRow

INITIAL = 0
"""The number of the routing before the first REPARTITION; others have the numbers of their log rows."""
_BLOBS = "routes/"
BALANCE_ERROR = "balance_error"
"""The metadata key of the reason why streams cannot be balanced."""
_BALANCE_LOOKS = "balance_looks"


def write_looks(control: ControlDb, looks: dict[int, str]) -> None:
    """Record what `balance` last found and did, by stream id, in words."""
    if looks != read_looks(control):
        set_meta(control, _BALANCE_LOOKS, json.encode(looks).decode())


def read_looks(control: ControlDb) -> dict[int, str]:
    """Return what `balance` last found and did, by stream id, in words."""
    found = get_meta(control, _BALANCE_LOOKS)
    return {} if found is None else json.decode(found, type=dict[int, str])


class StreamRoute(NamedTuple):
    """A routing of a stream: the number of its log row, the time of logging, and the row's content."""

    seq: int
    at_us: int
    entry: StreamRouted


def stream_routes(control: ControlDb, stream_id: int) -> list[StreamRoute]:
    """Return the routings of a stream, oldest first."""
    rows = control.query(
        f"SELECT seq, at_us, spec FROM log WHERE {SEPARATE} AND kind = 'route'"
        " AND json_extract(spec, '$.id') = ? ORDER BY seq",
        stream_id,
    )
    entries = ((seq, at_us, control.decoded(seq, "route", spec)) for seq, at_us, spec in rows)
    return [
        StreamRoute(seq, at_us, entry) for seq, at_us, entry in entries if isinstance(entry, StreamRouted)
    ]


def is_in_force(control: ControlDb, route: StreamRoute) -> bool:
    """Return whether a routing has taken effect and is the last package of its change."""
    return route.entry.is_complete and step_taken(control, route.seq) is not None


def all_routes(control: ControlDb) -> dict[int, list[int]]:
    """Return the numbers of the routings of each stream, by id, oldest first; dropped streams included."""
    found: dict[int, list[int]] = {}
    for seq, stream in control.query(
        f"SELECT seq, json_extract(spec, '$.id') FROM log WHERE {SEPARATE} AND kind = 'route' ORDER BY seq"
    ):
        found.setdefault(stream, []).append(seq)
    return found


def forget_routes(control: ControlDb, blobs: Blobs, routes: Sequence[int], up_to: int) -> None:
    """Delete routings to which nothing refers any more.

    A table is deleted before its row. If the process is killed between the two, the next engine publishes the
    table again (`PublishedRoutes`), and the routing is forgotten later; no blob is left without a row.

    Args:
        control: the control log.
        blobs: the session's blobs.
        routes: the numbers of the routings.
        up_to: the last row of the log that no batch takes again.
    """
    blobs.delete(map(_blob, routes))
    with control.transaction():
        for route in routes:
            forget_rows(control, "seq = ? AND kind = 'route'", (route,), up_to)
            forget_step_before(control, route)


def read_table(control: ControlDb, seq: int) -> RoutingTable:
    """Return the table of a routing by the number of its row; raise `KeyError` if there is none."""
    return unpack_table(_payload(control, seq))


def read_goal(control: ControlDb, seq: int) -> RoutingTable:
    """Return the table that is in force after the last package of a routing's change.

    Raises:
        KeyError: there is no such routing.
    """
    move = read_move(control, seq)
    return read_table(control, seq) if move is None or move.goal is None else move.goal


def read_move(control: ControlDb, seq: int) -> Move | None:
    """Return what the change to a routing moves; None if that is not known.

    Raises:
        KeyError: there is no such routing.
    """
    return unpack_move(_payload(control, seq))


def _payload(control: ControlDb, seq: int) -> bytes:
    rows = control.query("SELECT payload FROM log WHERE seq = ? AND kind = 'route'", seq)
    if not rows:
        raise KeyError(seq)
    return bytes(rows[0][0])


class PublishedRoutes:
    """Publishes the tables of routings as blobs before a task needs them.

    Args:
        control: the control log.
        blobs: the session's blobs.
    """

    def __init__(self, control: ControlDb, blobs: Blobs) -> None:
        self._control, self._blobs, self._up_to = control, blobs, 0

    def publish(self, up_to: int) -> None:
        """Publish the tables in the log's rows up to `up_to` that are not published yet."""
        if up_to <= self._up_to:
            return
        rows = self._control.query(
            f"SELECT seq FROM log WHERE {SEPARATE} AND kind = 'route' AND seq > ? AND seq <= ?",
            self._up_to,
            up_to,
        )
        known = set(self._blobs.names(_BLOBS)) if rows else set()
        for (seq,) in rows:
            if _blob(seq) not in known:
                [(payload,)] = self._control.query("SELECT payload FROM log WHERE seq = ?", seq)
                self._blobs.put(_blob(seq), [with_seal(payload)])
        self._up_to = up_to


@lru_cache(maxsize=2 * MOST_PACKAGES)
def published_table(blobs: Blobs, seq: int) -> RoutingTable:
    """Return the table of a routing by the number of its row; a table never changes.

    Raises:
        DamagedFileError: the blob is missing or differs from what was written.
    """
    sealed = memoryview(blobs.read(_blob(seq)))
    return unpack_table(without_seal(sealed.tobytes(), _blob(seq)))


def _blob(seq: int) -> str:
    return f"{_BLOBS}{seq:012d}.table"


def append_route(
    control: ControlDb,
    entry: StreamRouted,
    table: RoutingTable,
    text: str = "",
    move: Move | None = None,
) -> LogRow:
    """Append a routing to the log; it takes effect with the next step.

    Args:
        control: the control log.
        entry: the row's content.
        table: its table.
        text: the statement that requested it.
        move: what the change moves, if known.
    """
    return append(control, entry, text, pack_table(table, move))


def routes_kept(
    spec: StreamSpec,
    routes: Sequence[int],
    taken: Callable[[int], int | None],
    step: int,
    tick_us: int | None,
) -> tuple[int, ...]:
    """Return the routings whose records are still kept after a step; the last one is in force.

    SSTD (section 5.2) keeps the mapping tables of older versions for as long as it stores events dealt by
    them. Routings expire in order, so only those in use and one more are checked.

    Args:
        spec: the stream.
        routes: its routings, oldest first.
        taken: returns a step after that of every record dealt before a routing, None if unknown.
        step: the step.
        tick_us: the length of a tick, None before the first step.
    """
    for at in range(len(routes) - 1, 0, -1):
        if _have_expired(spec, taken(routes[at]), step, tick_us):
            return tuple(routes[at:])
    return tuple(routes)


def _have_expired(spec: StreamSpec, taken: int | None, step: int, tick_us: int | None) -> bool:
    """Return whether every record dealt before a routing has expired."""
    if taken == 1:
        return True  # no record was dealt before the first step
    kept_us = spec.keep_us if spec.is_event else spec.report_every_us
    if kept_us is None or taken is None or tick_us is None:
        return False
    # A record is at most one tick younger than its step, and is removed in the step after it expires.
    return (step - taken - 2) * tick_us > kept_us
