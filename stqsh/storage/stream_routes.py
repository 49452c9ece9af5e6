"""The routings of streams after their initial ones: rows of the control log with packed tables.

The tables are blobs besides, named by the numbers of their rows, as workers read no log. Logs of slots name
tables by these numbers, so the blobs stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from stqsh.checksums import with_seal, without_seal
from stqsh.routing.table import RoutingTable
from stqsh.routing.table_payload import pack_table, unpack_table
from stqsh.spec.log import StreamRouted
from stqsh.spec.stream import StreamSpec
from stqsh.storage.blobs import Blobs
from stqsh.storage.control_log import ControlDb, append
from stqsh.storage.layouts import SEPARATE
from stqsh.storage.rows import LogRow

INITIAL = 0
"""Stands for the routing before the first REPARTITION; others have the numbers of their rows in the log."""
_BLOBS = "routes/"
BALANCE_ERROR = "balance_error"
"""Where the session's meta data have why streams cannot be balanced."""


class StreamRoute(NamedTuple):
    """A routing of a stream: the number of its row in the log, when it was logged, and what the row says."""

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


def read_table(control: ControlDb, seq: int) -> RoutingTable:
    """Return the table of a routing by the number of its row; raise `KeyError` if there is none."""
    rows = control.query("SELECT payload FROM log WHERE seq = ? AND kind = 'route'", seq)
    if not rows:
        raise KeyError(seq)
    return unpack_table(bytes(rows[0][0]))


class PublishedRoutes:
    """Sees to it that the tables of routings are blobs before a task needs them.

    Args:
        control: the control log.
        blobs: the session's blobs.
    """

    def __init__(self, control: ControlDb, blobs: Blobs) -> None:
        self._control, self._blobs, self._up_to = control, blobs, 0

    def publish(self, up_to: int) -> None:
        """Publish the tables of the log's rows up to one; those of earlier sessions are looked for once."""
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


@lru_cache(maxsize=16)
def published_table(blobs: Blobs, seq: int) -> RoutingTable:
    """Return the table of a routing by the number of its row, which never changes.

    Raises:
        DamagedFileError: the blob is gone, or not what was written.
    """
    sealed = memoryview(blobs.read(_blob(seq)))
    return unpack_table(without_seal(sealed.tobytes(), _blob(seq)))


def _blob(seq: int) -> str:
    return f"{_BLOBS}{seq:012d}.table"


def append_route(control: ControlDb, entry: StreamRouted, table: RoutingTable, text: str = "") -> LogRow:
    """Append a routing to the log; it takes effect with the next step."""
    return append(control, entry, text, pack_table(table))


def routes_kept(
    spec: StreamSpec,
    routes: Sequence[int],
    taken: Callable[[int], int | None],
    step: int,
    tick_us: int | None,
) -> tuple[int, ...]:
    """Return the routings by which records were dealt that are kept after a step; the last is in force.

    SSTD (section 5.2) keeps the mapping tables of older versions for as long as events are stored by them.
    They go out of use in their order, so that only those in use and one more are looked at.

    Args:
        spec: the stream.
        routes: its routings, oldest first.
        taken: returns a step after those of all records that were dealt before a routing, None if it is not
            known.
        step: the step after which that is asked.
        tick_us: the length of a tick, None before the first step.
    """
    for at in range(len(routes) - 1, 0, -1):
        if _have_expired(spec, taken(routes[at]), step, tick_us):
            return tuple(routes[at:])
    return tuple(routes)


def _have_expired(spec: StreamSpec, taken: int | None, step: int, tick_us: int | None) -> bool:
    """Return whether no record is kept any more that was dealt before a routing."""
    if taken == 1:
        return True  # no record was dealt before the first step
    kept_us = spec.keep_us if spec.is_event else spec.report_every_us
    if kept_us is None or taken is None or tick_us is None:
        return False
    # A record is at most one tick younger than its step, and goes in the step after its time is over.
    return (step - taken - 2) * tick_us > kept_us
