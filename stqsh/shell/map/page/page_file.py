"""MAP … TO 'file.html': rewrite the page after each step while the map is open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.errors import StqshError
from stqsh.fs import atomic_write
from stqsh.shell.map.page.page_loop import STOPPED, follow, left_text, now
from stqsh.shell.map.page.page_state import PAGE_BEGIN, PageStates, page
from stqsh.storage.output_files import check_replaceable
from stqsh.units import group_digits

if TYPE_CHECKING:
    from stqsh.client.map.scene import MapFeed
    from stqsh.shell.terminal.screen import Screen


def write_page(feed: MapFeed, screen: Screen) -> str:
    """Write a map's page until Ctrl-C, or until the engine has stopped; return the message for the user.

    Raises:
        StqshError: The file cannot be written, or the session cannot be read.
    """
    assert feed.file is not None, "asked for where there is one"
    path = Path(feed.file).expanduser()
    try:
        check_replaceable(path, PAGE_BEGIN, "a map's page")
    except OSError as error:
        raise _cannot_write(path, error) from error
    states = PageStates(feed)
    if feed.once:
        states.next()
        _write(path, states.last(f"one picture, taken at {now()}"), states.tiles)
        return f"map of {feed.stream.name} after step {states.step} written to {path}"

    def take(state: bytes) -> None:
        _write(path, state, states.tiles)
        screen.status(f"{path}  step {group_digits(states.step)}  Ctrl-C ends it", now=True)

    try:
        why = follow(states, take)
    except SystemExit:  # a TERM signal
        _write(path, states.last(left_text()), states.tiles)
        raise
    finally:
        screen.close()
    last = states.last(why)
    _write(path, last, states.tiles)
    left = f"left the map of {feed.stream.name}; it goes on"
    ends = "the session's engine has stopped" if why == STOPPED else left
    if last is None:
        return f"{ends}; {path} was not written yet"
    return f"{ends}; the last state, of step {states.step}, stays in {path}"


def _cannot_write(path: Path, error: OSError) -> StqshError:
    reason = (error.strerror or str(error)).lower()
    return StqshError(f"cannot write {path}: {reason}", hint="TO 'file.html' names another place")


def _write(path: Path, state: bytes | None, tiles: str) -> None:
    """Replace the file atomically, so that a browser never sees half a page. Raises `StqshError`."""
    if state is None:
        return
    try:
        atomic_write(path, page(state, tiles))
    except OSError as error:
        raise _cannot_write(path, error) from error
