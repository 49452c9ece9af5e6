"""The routings of streams after their initial ones: rows of the control log with packed tables."""

from __future__ import annotations

from typing import NamedTuple

from stqsh.routing.table import RoutingTable
from stqsh.spec.log import StreamRouted
from stqsh.storage.control_log import ControlDb, append
from stqsh.storage.rows import LogRow

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
        "SELECT seq, at_us FROM log WHERE kind = 'route' AND json_extract(spec, '$.id') = ? ORDER BY seq",
        stream_id,
    )
    at_us = dict(rows)
    entries = control.entries_after(min(at_us, default=1) - 1, ["route"]) if at_us else []
    return [
        StreamRoute(seq, at_us[seq], entry)
        for seq, entry in entries
        if seq in at_us and isinstance(entry, StreamRouted)
    ]


def read_table(control: ControlDb, seq: int) -> RoutingTable:
    """Return the table of a routing by the number of its row; raise `KeyError` if there is none."""
    rows = control.query("SELECT payload FROM log WHERE seq = ? AND kind = 'route'", seq)
    if not rows:
        raise KeyError(seq)
    return RoutingTable.unpacked(bytes(rows[0][0]))


def append_route(control: ControlDb, entry: StreamRouted, table: RoutingTable, text: str = "") -> LogRow:
    """Append a routing to the log; it takes effect with the next step."""
    return append(control, entry, text, table.packed())
