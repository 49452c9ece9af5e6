"""The loop of a page: pass on each new state until the user leaves the map or the engine stops."""

from __future__ import annotations

import time
from collections.abc import Callable

from stqsh.shell.map.page.page_state import PageStates
from stqsh.shell.map.poll_rate import PollRate
from stqsh.storage.engine_info import is_alive, read_engine
from stqsh.units import format_instant

POLL_S = 0.1
LEAST_S = 0.5
"""The minimum time between two states: users do not look more often."""
STOPPED = "the session's engine has stopped; this is the last state"


def follow(states: PageStates, take: Callable[[bytes], None]) -> str:
    """Pass each new state to `take` until the engine stops or the user leaves; return the reason for the end.

    Raises what `MapFeed.look` and `take` raise.
    """
    has_run, pace = False, PollRate(POLL_S)
    try:
        while True:
            pace.begin()
            is_running = _engine_runs(states)
            has_run = has_run or is_running
            state = states.next()
            if state is not None:
                take(state)
            if has_run and not is_running:
                return STOPPED
            time.sleep(pace.rest_s(None if state is None else LEAST_S))
    except KeyboardInterrupt:
        return left_text()


def left_text() -> str:
    """Return the text that a page shows after its map was closed."""
    return f"the map was left at {now()}; this is the last state"


def now() -> str:
    """Return the time in the form that pages use, to the second."""
    return str(format_instant(time.time_ns() // 10**9 * 10**6))


def _engine_runs(states: PageStates) -> bool:
    engine = read_engine(states.feed.connection.home)
    return engine is not None and is_alive(engine)
