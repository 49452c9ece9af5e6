"""Where a batch stands: what its `clock` chunk says of steps, ends and backlogs."""

from __future__ import annotations

from stqsh.engine.planning.offset import Offset
from stqsh.engine.planning.stream_inputs import StreamInput, last_tick, records_until
from stqsh.storage.rows import Spec


def clock_content(first: Offset, last: Offset, feeds: list[StreamInput]) -> Spec:
    """Say where a batch stands: the content of its `clock` chunk, for the slots and for Deliver."""
    end = last_step(last, feeds) if last.base_tick is not None else None
    return {
        "first_step": first.step + 1,
        "last_step": last.step,
        "base_tick": last.base_tick,
        "tick_us": last.tick_us,
        "seq": last.seq,
        "asked": last.asked if last.asked > first.asked else 0,
        "run_done": last.run_done,
        "ended": end is not None and last.step >= end and not any(feed.left for feed in feeds),
        "running": last.run is not None,
        "playing": bool(last.play and last.play.streams),
        "rows": {str(stream): row for stream, row in last.rows.items()},
        "backlog": records_behind(last, feeds),
        "due_us": last.due_us,
        "room": last.room,
    }


def records_behind(offset: Offset, feeds: list[StreamInput]) -> int:
    """Count the records of the steps that were due and not taken, as far as they are there."""
    if not offset.behind or offset.base_tick is None:
        return 0
    taking = feeds if offset.run else [feed for feed in feeds if is_playing(offset, feed.stream_id)]
    return records_until(taking, offset.tick_of(offset.step + offset.behind))


def is_playing(offset: Offset, stream: int) -> bool:
    """Say whether a stream runs on by itself."""
    return offset.play is not None and stream in offset.play.streams


def last_step(offset: Offset, feeds: list[StreamInput]) -> int | None:
    """Give the step at which finite streams end, None if one has no end; the clock has started."""
    end = last_tick(feeds)
    if end is None:
        return None if feeds else offset.step
    return max(offset.step_of(end), 0)
