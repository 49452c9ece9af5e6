"""Pace: which step is due by the wall clock, for streams that play at one."""

from __future__ import annotations

from dataclasses import dataclass

from stqsh.engine.planning.offset import Offset, PlayState
from stqsh.engine.planning.stream_inputs import StreamInput, first_tick


@dataclass(frozen=True)
class _PlayOrigin:
    """From where a PLAY is counted: its number in the log, the wall clock in µs, the step."""

    seq: int
    us: int
    step: int


class PlaybackPace:
    """Counts steps by the wall clock from when this process first saw a PLAY."""

    def __init__(self) -> None:
        self._origin: _PlayOrigin | None = None

    def step(self, offset: Offset, play: PlayState, feeds: list[StreamInput], now_us: int) -> int | None:
        """Give the step that streams have reached; None without a pace.

        Where no stream is under way, time leaps to the first record of those that begin.
        """
        if play.pace is None or offset.tick_us is None:
            return None
        begins = next_beginning(offset, feeds)
        if self._origin is None or self._origin.seq != play.seq or begins > offset.step + 1:
            self._origin = _PlayOrigin(play.seq, now_us, max(offset.step, begins - 1))
        return self._origin.step + 1 + int((now_us - self._origin.us) * play.pace // offset.tick_us)

    def due_us(self, taken: Offset, play: PlayState) -> int | None:
        """Give when the last step of a batch was due by the wall clock; None without a pace."""
        if play.pace is None or self._origin is None or taken.tick_us is None:
            return None
        return self._origin.us + int((taken.step - self._origin.step - 1) * taken.tick_us / play.pace)


def next_beginning(offset: Offset, feeds: list[StreamInput]) -> int:
    """Give the step of the first record that any stream will ever bring; 0 while one is under way."""
    if any(feed.row and (feed.left or not feed.store.complete) for feed in feeds):
        return 0
    tick = first_tick(feed for feed in feeds if not feed.row)
    return 0 if tick is None else offset.step_of(tick)
