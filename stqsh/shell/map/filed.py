"""MAP … TO 'file.html': the page is written anew with each step for as long as the map is open."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.errors import StqshError
from stqsh.session.process import is_alive, read_engine
from stqsh.session.units import iso
from stqsh.shell.map.pace import Pace
from stqsh.shell.map.page import page
from stqsh.shell.map.state import States
from stqsh.shell.status import grouped

if TYPE_CHECKING:
    from stqsh.session.maps.feed import MapFeed
    from stqsh.shell.screen import Screen

POLL_S = 0.1
LEAST_S = 0.5
"""The file is written no more often than that: nobody looks more often."""
STOPPED = "the session's engine has stopped; this is the last state"


def write_page(feed: MapFeed, screen: Screen) -> str:
    """Write a map's page until Ctrl-C, or until the engine has stopped; what to say then.

    Raises `StqshError` where the file cannot be written, else as `MapFeed.look`.
    """
    assert feed.file is not None, "asked for where there is one"
    path, states = Path(feed.file).expanduser(), States(feed)
    if feed.once:
        states.next()
        _write(path, states.last(f"one picture, taken at {_now()}"))
        return f"map of {feed.stream.name} after step {states.step} written to {path}"
    try:
        why = _keep_writing(path, states, screen)
    except KeyboardInterrupt:
        why = left_text()
    except SystemExit:  # a TERM signal
        _write(path, states.last(left_text()))
        raise
    finally:
        screen.close()
    _write(path, states.last(why))
    ends = (
        "the session's engine has stopped"
        if why == STOPPED
        else f"left the map of {feed.stream.name}; it goes on"
    )
    return f"{ends}; the last state, of step {states.step}, stays in {path}"


def _keep_writing(path: Path, states: States, screen: Screen) -> str:
    """Write each new state; why there are no more of them."""
    written, has_run, pace = 0, False, Pace(POLL_S)
    while True:
        pace.begin()
        is_running = engine_runs(states)
        has_run = has_run or is_running
        state = states.next()
        if state is not None:
            _write(path, state)
            written += 1
            screen.status(
                f"{path}  step {grouped(states.step)}  written {grouped(written)} times  Ctrl-C ends it",
                now=True,
            )
        if has_run and not is_running:
            return STOPPED
        time.sleep(pace.rest_s(None if state is None else LEAST_S))


def left_text() -> str:
    """What a page says once its map was left."""
    return f"the map was left at {_now()}; this is the last state"


def _now() -> str:
    return str(iso(time.time_ns() // 10**9 * 10**6))


def engine_runs(states: States) -> bool:
    """Whether the session's engine is there."""
    engine = read_engine(states.feed.link.home)
    return engine is not None and is_alive(engine)


def _write(path: Path, state: bytes | None) -> None:
    """Replace the file in one go, so that a browser sees a whole page. Raises `StqshError`."""
    if state is None:
        return
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        hidden.write_bytes(page(state))
        hidden.replace(path)
    except OSError as error:
        hidden.unlink(missing_ok=True)
        raise StqshError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from error
