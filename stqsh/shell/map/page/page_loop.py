"""The life of a page: each new state is handed on until the user leaves the map, or the engine stops."""

from __future__ import annotations

import time
from collections.abc import Callable

from stqsh.shell.map.page.page_state import PageStates
from stqsh.shell.map.poll_rate import PollRate
from stqsh.storage.engine_info import is_alive, read_engine
from stqsh.units import format_instant

POLL_S = 0.1
LEAST_S = 0.5
"""States follow each other no more often than that: nobody looks more often."""
STOPPED = "the session's engine has stopped; this is the last state"


def follow(states: PageStates, take: Callable[[bytes], None]) -> str:
    """Hand each new state on until the engine has stopped, or Ctrl-C; why there are no more of them.

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
    """What a page says once its map was left."""
    return f"the map was left at {now()}; this is the last state"


def now() -> str:
    """The time as a page tells it, to the second."""
    return str(format_instant(time.time_ns() // 10**9 * 10**6))


def _engine_runs(states: PageStates) -> bool:
    engine = read_engine(states.feed.link.home)
    return engine is not None and is_alive(engine)
