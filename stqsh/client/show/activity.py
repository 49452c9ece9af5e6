"""Describe whether streams play, at which pace, and what they wait for."""

from __future__ import annotations

from dataclasses import dataclass

from stqsh.client.connection import Connection
from stqsh.spec.log import StreamPaused, StreamPlayed
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import entries_after
from stqsh.storage.progress import stream_statuses
from stqsh.storage.rows import Progress, StreamRow, StreamStatus
from stqsh.units import format_age

SAID_S = 10.0
"""How long the skip of a stretch without records is reported, in seconds of the wall clock."""
_SHORT_S = 2.0
"""Waits for the next record up to this long, in seconds of the wall clock, are not reported."""


@dataclass(frozen=True)
class PlayOrders:
    """The play orders in force.

    Attributes:
        last: the last PLAY or PAUSE of each stream, by id.
        pace: the pace of all playing streams, set by the last PLAY; None for full speed.
    """

    last: dict[int, StreamPlayed | StreamPaused]
    pace: float | None

    @staticmethod
    def of(connection: Connection) -> PlayOrders:
        """Read the play orders from the session's log."""
        last: dict[int, StreamPlayed | StreamPaused] = {}
        pace: str | float | None = None
        for _, entry in entries_after(connection.db, 0, ("play", "pause")):
            if isinstance(entry, StreamPlayed | StreamPaused):
                last[entry.id] = entry
            if isinstance(entry, StreamPlayed):
                pace = entry.pace
        return PlayOrders(last, None if isinstance(pace, str) else float(pace or 1))

    @property
    def pace_text(self) -> str:
        """The pace in words, such as `at 600x`."""
        return "at full speed" if self.pace is None else f"at {self.pace:.12g}x"

    def plays(self, stream: StreamRow) -> bool:
        """Return whether the last order for a stream is PLAY."""
        return isinstance(self.last.get(stream.id), StreamPlayed)

    def text(self, stream: StreamRow) -> str:
        """Describe whether a stream plays, such as `playing at 600x` or `paused`."""
        if self.plays(stream):
            return "playing" if stream.spec.is_live else f"playing {self.pace_text}"
        return "paused" if stream.id in self.last else "standing still"


def activity(connection: Connection, progress: Progress) -> str:
    """Describe whether the session advances, such as `playing at 600x; next record in 9 s`."""
    if _is_running(connection, progress):
        return "running"
    if progress.ended:
        return "at their end"
    orders, streams = PlayOrders.of(connection), live_streams(connection.db)
    playing = [stream for stream in streams if orders.plays(stream)]
    if not playing:
        return "standing still"
    at = orders.text(next((stream for stream in playing if not stream.spec.is_live), playing[0]))
    still = [stream.name for stream in streams if not orders.plays(stream)]
    paused = f"{still[0]}{f' and {len(still) - 1} more' if still[1:] else ''} not" if still else ""
    return "; ".join(filter(None, [at, paused, wait_text(progress)]))


def stream_activities(connection: Connection, progress: Progress) -> dict[int, str]:
    """Describe each stream, by id: whether it plays and at which pace, or that it has ended."""
    statuses, orders = stream_statuses(connection.db), PlayOrders.of(connection)
    is_running = _is_running(connection, progress)
    found = {}
    for stream in live_streams(connection.db):
        if _is_at_end(progress, stream, statuses.get(stream.id)):
            found[stream.id] = "at its end"
        else:
            found[stream.id] = "running" if is_running else orders.text(stream)
    return found


def play_text(connection: Connection, stream: StreamRow) -> str:
    """Describe the effect of a logged PLAY: `stream taxis plays at 600x`."""
    if stream.spec.is_live:
        return f"stream {stream.name} plays"
    orders, playback = PlayOrders.of(connection), connection.progress().stats.playback
    text = f"stream {stream.name} plays {orders.pace_text}"
    if playback is None or orders.pace is None or not playback.is_skipped(orders.pace):
        return text
    return f"{text}; next record in {format_age(playback.next_us or 0)}; skipping"


def wait_text(progress: Progress) -> str:
    """Return what a playing session waits for, or that it just skipped a stretch without records; else ""."""
    playback, tick_us = progress.stats.playback, progress.tick_us
    if playback is None or tick_us is None or not progress.stats.playing or progress.stats.running:
        return ""
    since_s = (progress.step - playback.gap_end) * tick_us / playback.pace / 1e6
    if playback.gap_us and since_s < SAID_S:
        return f"skipped {format_age(playback.gap_us)} without records"
    wait_us = (playback.next_us or 0) / playback.pace
    return f"next record in {format_age(round(wait_us))}" if wait_us > _SHORT_S * 1e6 else ""


def _is_at_end(progress: Progress, stream: StreamRow, status: StreamStatus | None) -> bool:
    if stream.spec.is_live or status is None or status.state != "ready":
        return False
    return progress.seq >= stream.id and progress.stats.rows.get(stream.id, 0) >= status.rows


def _is_running(connection: Connection, progress: Progress) -> bool:
    """Return whether a RUN is under way or waits for the engine."""
    [(last,)] = connection.db.query("SELECT coalesce(max(seq), 0) FROM log WHERE kind = 'run'")
    return int(last) > progress.run_done
