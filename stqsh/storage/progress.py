"""The engine's records in control.db: progress, ended queries, answer sizes, looked-up records.

Deliver calls these functions between batches. Spark may repeat a batch after a crash: `record_batch` writes
all records of a batch in one transaction, and does nothing for a batch that is already recorded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from stqsh.spec.log import RecordsFound, SnapshotAsked
from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stats import BatchStats
from stqsh.storage.archive_files import ArchiveFile, list_archived
from stqsh.storage.catalogue import SIZES_A_BUCKET
from stqsh.storage.control_log import ControlDb, append, get_meta, set_meta, to_text
from stqsh.storage.layouts import LIVE
from stqsh.storage.rows import Progress, StreamStatus
from stqsh.storage.update_log.files import LoggedFile, list_file

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]


_LATEST = "latest_us of {}"
"""The metadata key of the latest record time of a live stream; contains the stream's id."""
_LATEST_BEFORE = "latest step before {}"
"""The metadata key of the step of that time when a routing took effect; contains the routing's number."""
_STATS = msgspec.json.Decoder(BatchStats)


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Records looked up for new focal objects; `payload` is a packed RecordBatch of the declared columns.

    `up_to` is the sequence number of the last REGISTER whose keys were looked up.
    """

    stream_id: int
    up_to: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class BatchEffects:
    """The effects of a batch on the catalogue and the log.

    Attributes:
        ended: the ids of the queries that ended.
        grown: int64 (n,) query ids, unique and ascending, and int64 (n,) rows gained or lost.
        found: the results of look-ups.
        asks: second questions of snapshots.
        order: a new shedding order to the slots.
        logged: the batch's file of the update log, None if the batch made no updates.
        taken: for live streams: the id, the number of records taken, and the number of dead letters.
        latest_us: for live streams with records: the latest time of a record, by stream id.
        archived: the batch's archive files.
    """

    ended: Iterable[int] = ()
    grown: tuple[Array, Array] | None = None
    found: Iterable[FoundRecords] = ()
    asks: Iterable[SnapshotAsked] = ()
    order: SheddingOrder | None = None
    logged: LoggedFile | None = None
    taken: Iterable[tuple[int, int, int]] = ()
    latest_us: Mapping[int, int] = field(default_factory=dict)
    archived: Iterable[ArchiveFile] = ()


def record_batch(control: ControlDb, progress: Progress, effects: BatchEffects | None = None) -> bool:
    """Write a batch's progress and effects in one transaction.

    Returns:
        `False` if they are already recorded; then only the update log and archive files are listed again,
        because the repeated batch has replaced them.
    """
    effects = effects or BatchEffects()
    with control.transaction():
        if effects.logged is not None:
            list_file(control, effects.logged)
        list_archived(control, effects.archived)
        before = read_progress(control)
        if before.batch >= progress.batch:
            return False
        if progress.seq > before.seq:
            _record_taken(control, progress.seq, before.step + 1)
            _note_steps_before_routings(control, before, progress.seq)
        for stream, latest_us in effects.latest_us.items():
            _note_latest(control, stream, latest_us)
        mark_ended(control, effects.ended)
        count_taken(control, effects.taken)
        if effects.grown is not None:
            record_growth(control, *effects.grown)
        for found in effects.found:
            append_found(control, found)
        for ask in effects.asks:
            append(control, ask)
        if effects.order is not None:
            append(control, effects.order)
        record_progress(control, progress)
    return True


def _record_taken(control: ControlDb, seq: int, step: int) -> None:
    """Record the step in which the log's commands up to a row took effect."""
    with control.transaction() as connection:
        connection.execute("INSERT OR REPLACE INTO taken VALUES (?, ?)", (seq, step))


def _note_latest(control: ControlDb, stream: int, latest_us: int) -> None:
    """Record the latest time of a live stream's records, which may be ahead of the clock."""
    key = _LATEST.format(stream)
    if latest_us > int(get_meta(control, key) or latest_us - 1):
        set_meta(control, key, str(latest_us))


def _note_steps_before_routings(control: ControlDb, before: Progress, seq: int) -> None:
    """Record the latest step of earlier records for each routing that takes effect up to a row of the log."""
    new = "SELECT seq, json_extract(spec, '$.id') FROM log WHERE kind = 'route' AND seq > ? AND seq <= ?"
    for route, stream in control.query(new, before.seq, seq):
        if (latest := _latest_step(control, before, stream)) is not None:
            set_meta(control, _LATEST_BEFORE.format(route), str(latest))


def _latest_step(control: ControlDb, progress: Progress, stream: int) -> int | None:
    """Return the step of the latest record time of a live stream so far; None if there are no records."""
    latest_us = get_meta(control, _LATEST.format(stream))
    if latest_us is None or progress.base_tick is None or progress.tick_us is None:
        return None
    return int(latest_us) // progress.tick_us - progress.base_tick + 1


def step_after_dealt(control: ControlDb, stream: int, route: int, takes: int | None = None) -> int | None:
    """Return a step after that of every record dealt before a routing; None if unknown.

    It is the step in which the routing takes effect, unless records of a live stream are ahead of the clock.
    It is None for all but the last package of a change, so that earlier routings retire together.

    Args:
        control: the session's control.db.
        stream: the stream's id.
        route: the number of the routing's row.
        takes: the step in which it takes effect, while the batch that applies it is being planned.
    """
    if _has_more_packages(control, route):
        return None
    taken, noted = takes or step_taken(control, route), get_meta(control, _LATEST_BEFORE.format(route))
    latest = None if noted is None else int(noted)
    if latest is None and takes is not None:
        latest = _latest_step(control, read_progress(control), stream)
    return taken if taken is None or latest is None else max(taken, latest + 1)


def _has_more_packages(control: ControlDb, route: int) -> bool:
    """Return whether a routing is not the last package of its change, see `StreamRouted`."""
    found = control.query(
        "SELECT 1 FROM log WHERE seq = ? AND kind = 'route'"
        " AND json_extract(spec, '$.package') + 1 < json_array_length(spec, '$.cuts')",
        route,
    )
    return bool(found)


def forget_step_before(control: ControlDb, route: int) -> None:
    """Delete the latest step of the records before a routing that is forgotten.

    Joins an open transaction.
    """
    with control.transaction() as connection:
        connection.execute("DELETE FROM meta WHERE key = ?", (_LATEST_BEFORE.format(route),))


def step_taken(control: ControlDb, seq: int) -> int | None:
    """Return the step in which the command with this number took effect, None if it has not.

    None is also returned for commands from before these steps were recorded; see `unknown_until`.
    """
    rows = control.query("SELECT step FROM taken WHERE seq >= ? ORDER BY seq LIMIT 1", seq)
    return rows[0][0] if rows else None


def steps_taken(control: ControlDb) -> Callable[[int], int | None]:
    """Return a function with the result of `step_taken`, for many commands."""
    rows = control.query("SELECT seq, step FROM taken ORDER BY seq")
    numbers = [seq for seq, _ in rows]

    def step_of(seq: int) -> int | None:
        at = bisect_left(numbers, seq)
        return rows[at][1] if at < len(rows) else None

    return step_of


def unknown_until(control: ControlDb) -> int:
    """Return the number of the last command whose step an older version did not record, 0 if none."""
    return int(control.query("SELECT coalesce(max(seq), 0) FROM taken WHERE step IS NULL")[0][0])


def read_progress(control: ControlDb) -> Progress:
    """Return the engine's progress, with zero values before its first batch; cheap enough for polling."""
    rows = control.query(
        "SELECT batch, step, base_tick, tick_us, seq, run_done, ended, wall_us, stats FROM progress"
    )
    if not rows:
        return Progress()
    batch, step, base_tick, tick_us, seq, run_done, ended, wall_us, stats = rows[0]
    known = _STATS.decode(stats)
    return Progress(batch, step, base_tick, tick_us, seq, run_done, bool(ended), wall_us, known)


def record_progress(control: ControlDb, progress: Progress) -> None:
    """Replace the progress row."""
    with control.transaction() as connection:
        connection.execute(
            "INSERT OR REPLACE INTO progress VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                progress.batch,
                progress.step,
                progress.base_tick,
                progress.tick_us,
                progress.seq,
                progress.run_done,
                int(progress.ended),
                progress.wall_us,
                to_text(progress.stats),
            ),
        )


def count_taken(control: ControlDb, taken: Iterable[tuple[int, int, int]]) -> None:
    """Add to the counts of live streams; each item is the stream's id, records, dead letters."""
    with control.transaction() as connection:
        connection.executemany(
            "INSERT INTO stream_status (id, state, rows, dead) VALUES (?, 'live', ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET rows = rows + excluded.rows, dead = dead + excluded.dead",
            list(taken),
        )


def mark_ended(control: ControlDb, query_ids: Iterable[int]) -> None:
    """Mark live queries as ended (their FOR has passed); their answers are empty from then on."""
    with control.transaction() as connection:
        connection.executemany(
            f"UPDATE queries SET state = 'ended', size = 0 WHERE id = ? AND {LIVE}",
            [(query,) for query in query_ids],
        )


def record_growth(control: ControlDb, queries: Array, deltas: Array) -> None:
    """Add to the sizes of queries' answers, in rows; query ids (n,) are unique and ascending.

    The sizes are in the table `sizes`, `SIZES_A_BUCKET` query ids a row, as uint32. Changing 100 000 rows of
    the table of queries took 0.4 s of a batch; this takes 0.012 s.
    """
    import numpy as np  # only when there is growth to record, because the shell imports this module, too

    if not len(queries):
        return
    buckets, starts = np.unique(queries // SIZES_A_BUCKET, return_index=True)
    with control.transaction() as connection:
        for bucket, start, stop in zip(buckets.tolist(), starts, [*starts[1:], len(queries)], strict=True):
            row = connection.execute("SELECT content FROM sizes WHERE bucket = ?", (bucket,)).fetchone()
            content = np.zeros(SIZES_A_BUCKET, "<u4") if row is None else np.frombuffer(row[0], "<u4").copy()
            places = queries[start:stop] % SIZES_A_BUCKET
            content[places] = content[places].astype(np.int64) + deltas[start:stop]
            connection.execute("INSERT OR REPLACE INTO sizes VALUES (?, ?)", (bucket, content.tobytes()))


def append_found(control: ControlDb, found: FoundRecords) -> int:
    """Append looked-up records to the control log, which the planner reads; return the row's number."""
    return append(control, RecordsFound(found.stream_id, found.up_to), payload=found.payload).seq


def set_stream_status(control: ControlDb, status: StreamStatus) -> None:
    """Record how far the preparation of a stream or table has got."""
    with control.transaction() as connection:
        connection.execute(
            "INSERT OR REPLACE INTO stream_status"
            " (id, state, rows, dead, message, progress, duplicates, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            astuple(status),
        )


def retry_stalled_streams(control: ControlDb) -> None:
    """Make the engine retry all stalled streams; it does so when it reads the next row of the log."""
    for status in stream_statuses(control).values():
        if status.state == "stalled":
            set_stream_status(control, replace(status, state="endless", message=""))


def stream_statuses(control: ControlDb) -> dict[int, StreamStatus]:
    """Return the preparation status of each stream and table that has one, by id."""
    sql = "SELECT id, state, rows, dead, message, progress, duplicates, seal FROM stream_status"
    return control.remembered(sql, lambda: {row[0]: StreamStatus(*row) for row in control.query(sql)})
