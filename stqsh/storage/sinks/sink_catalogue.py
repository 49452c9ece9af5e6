"""CREATE SINK and DROP SINK as changes of the session, and look-ups of existing sinks."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from stqsh.spec.log import SinkDropped
from stqsh.spec.sink import SinkSpec
from stqsh.storage.control_log import ControlDb, append, to_text
from stqsh.storage.home import SessionHome
from stqsh.storage.layouts import IS_ALERT
from stqsh.storage.progress import read_progress
from stqsh.storage.rows import LogRow, SinkRow
from stqsh.storage.update_log.leases import keep_for_sink, kept_sinks, release_sink, without_folding

_SINK = "SELECT id, name, spec FROM sinks WHERE dropped_seq IS NULL"


def live_sinks(db: ControlDb) -> list[SinkRow]:
    """Return the sinks and alerts that are not dropped, in order of creation."""
    return db.remembered("sinks", lambda: [_sink(row) for row in db.query(f"{_SINK} ORDER BY id")])


def written_sinks(db: ControlDb) -> list[SinkRow]:
    """Return the live sinks without the alerts."""
    return [sink for sink in live_sinks(db) if not sink.spec.is_alert]


def live_alerts(db: ControlDb) -> list[SinkRow]:
    """Return the live alerts."""
    return [sink for sink in live_sinks(db) if sink.spec.is_alert]


def find_sink(db: ControlDb, name: str) -> SinkRow | None:
    """Return the live sink of that name."""
    rows = db.query(f"{_SINK} AND NOT {IS_ALERT} AND name = ?", name)
    return _sink(rows[0]) if rows else None


def find_alert(db: ControlDb, name: str) -> SinkRow | None:
    """Return the live alert of that name."""
    rows = db.query(f"{_SINK} AND {IS_ALERT} AND name = ?", name)
    return _sink(rows[0]) if rows else None


def create_sink(db: ControlDb, text: str, spec: SinkSpec) -> SinkRow:
    """Log a CREATE SINK and add the sink; the batches that it has to read are kept from now on."""
    home = SessionHome(db.path.parent)
    with without_folding(home), db.transaction() as connection:
        progress = read_progress(db)
        spec = replace(spec, batch=progress.batch, step=progress.step, at_us=progress.at_us())
        row = append(db, spec, text)
        spec = replace(spec, id=row.seq)
        connection.execute("INSERT INTO sinks VALUES (?, ?, ?, NULL)", (row.seq, spec.name, to_text(spec)))
        try:
            keep_for_sink(home, row.seq, spec.batch)
        except OSError:
            release_sink(home, row.seq)
            raise
    return SinkRow(row.seq, spec.name, spec)


def drop_sink(db: ControlDb, text: str, sink: SinkRow) -> LogRow:
    """Log a DROP SINK and remove the sink; its process notices this and stops writing."""
    with db.transaction() as connection:
        row = append(db, SinkDropped(sink.id, sink.name), text)
        connection.execute("UPDATE sinks SET dropped_seq = ? WHERE id = ?", (row.seq, sink.id))
    return row


def release_dropped(db: ControlDb) -> None:
    """Release the batches that are still kept for sinks that no longer exist.

    A client that dies at the end of DROP SINK or CREATE SINK leaves such a lease, and a sink that is being
    dropped may write its lease once more.
    """
    home = SessionHome(db.path.parent)
    if not kept_sinks(home) - _live_ids(db):
        return
    with without_folding(home):  # so that a concurrent CREATE SINK is seen completely or not at all
        for sink in kept_sinks(home) - _live_ids(db):
            release_sink(home, sink)


def _live_ids(db: ControlDb) -> set[int]:
    return {id_ for (id_,) in db.query("SELECT id FROM sinks WHERE dropped_seq IS NULL")}


def _sink(row: tuple[Any, ...]) -> SinkRow:
    sink_id, name, spec = row
    return SinkRow(sink_id, name, msgspec.json.decode(spec, type=SinkSpec))
