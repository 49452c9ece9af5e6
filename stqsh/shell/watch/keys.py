"""The actions of keys on the dashboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.key_binding import KeyBindings

from stqsh.shell.live.update_filter import UpdateFilter, wanted

if TYPE_CHECKING:
    from stqsh.shell.watch.dashboard import Dashboard

_FAR = 10**9


def board_keys(board: Dashboard) -> KeyBindings:
    """Return the keys of a dashboard; those for one query apply to the one in focus."""
    keys = KeyBindings()

    def add(name: str, act: Callable[[], None]) -> None:
        keys.add(name)(lambda event: act())

    add("tab", lambda: turn(board, 1))
    add("s-tab", lambda: turn(board, -1))
    add("enter", lambda: zoom(board, to=not board.is_zoomed))
    add("escape", lambda: zoom(board, to=False))
    add("space", lambda: pause(board))
    add("s", lambda: sort(board))
    add("/", lambda: board.entry.open(board.panels[board.focus].wanted.text if board.panels else ""))
    add("up", lambda: scroll(board, -1))
    add("down", lambda: scroll(board, 1))
    add("pageup", lambda: scroll(board, -board.page))
    add("pagedown", lambda: scroll(board, board.page))
    add("home", lambda: scroll(board, -_FAR))
    add("end", lambda: scroll(board, _FAR))
    add("left", lambda: shift(board, -1))
    add("right", lambda: shift(board, 1))
    return keys


def turn(board: Dashboard, by: int) -> None:
    """Move the focus to another query."""
    if board.panels:
        board.focus = (board.focus + by) % len(board.panels)


def zoom(board: Dashboard, *, to: bool) -> None:
    """Show one query alone, or all of them."""
    board.is_zoomed = to


def pause(board: Dashboard) -> None:
    """Pause the dashboard, or continue."""
    board.is_paused = not board.is_paused


def sort(board: Dashboard) -> None:
    """Sort rows by key, or the newest first."""
    if board.panels:
        panel = board.panels[board.focus]
        panel.by_key, panel.top = not panel.by_key, 0


def only(board: Dashboard, typed: str) -> None:
    """Show only rows with a text, in all queries."""
    for panel in board.panels:
        panel.wanted, panel.top = UpdateFilter(0, wanted(typed).text), 0


def scroll(board: Dashboard, rows: int) -> None:
    """Scroll down by some rows."""
    if board.panels:
        panel = board.panels[board.focus]
        panel.top = max(0, panel.top + rows)


def shift(board: Dashboard, columns: int) -> None:
    """Scroll to the right by some columns."""
    if board.panels:
        panel = board.panels[board.focus]
        panel.shift = max(0, panel.shift + columns)
