"""The dashboard of WATCH: the session's state on top, a panel for each query, keys at the bottom."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from prompt_toolkit.key_binding import KeyBindings

from stqsh.shell.live.prefetch import Prefetch
from stqsh.shell.live.update_filter import UpdateFilter, wanted
from stqsh.shell.status import alive_text
from stqsh.shell.terminal.fullscreen import Fullscreen, Line, TextEntry
from stqsh.shell.terminal.screen import fitted
from stqsh.shell.watch.panel import QueryPanel, slots_line
from stqsh.units import counted

if TYPE_CHECKING:
    from stqsh.client.read.watch import AnswerState, WatchFeed
    from stqsh.storage.home import SessionHome
    from stqsh.storage.rows import Progress, QueryRow


Look = tuple["Progress", tuple["AnswerState", ...]]
_LEAST = 3
"""A panel with less room than a title, a header and a row shows only its title."""


def show_dashboard(watching: WatchFeed, scheme: str) -> str:
    """Show the dashboard until the user leaves it; return the message for the user.

    Raises:
        EngineDeadError: The engine has stopped.
        SourceError: A stream cannot be read.
    """
    with closing(Prefetch(lambda on_idle: watching.standings())) as feed:
        board = Dashboard(watching.connection.home, feed.latest)
        Fullscreen(board, board_keys(board), board.entry, scheme).run()
    return left_text([panel.standing.query for panel in board.panels] or watching.queries)


def left_text(queries: Sequence[QueryRow]) -> str:
    """Return a message about the queries that continue after the dashboard is left."""
    live = [query.name for query in queries if query.live]
    gone = [f"{query.name} has ended" for query in queries if query.state == "ended"]
    gone += [f"{query.name} was dropped" for query in queries if query.state == "dropped"]
    goes_on = [f"{', '.join(live)} {'goes' if len(live) == 1 else 'go'} on"] if live else []
    return "; ".join(["left WATCH", *goes_on, *gone])


@dataclass
class Dashboard:
    """A `FullscreenView` of queries.

    Attributes:
        home: The session's home.
        look: Returns the latest state, None before the first.
        clock: Returns the time in seconds.
        panels: A panel for each query.
        focus: The number of the panel that receives the keys.
        is_zoomed: Whether only that panel is shown.
        is_paused: Whether new states are ignored.
        entry: The entry for a filter.
        page: The number of rows that fit in the panel.
    """

    home: SessionHome
    look: Callable[[], Look | None]
    clock: Callable[[], float] = time.monotonic
    panels: list[QueryPanel] = field(default_factory=list)
    focus: int = 0
    is_zoomed: bool = False
    is_paused: bool = False
    entry: TextEntry = field(init=False)
    _progress: Progress | None = field(default=None, init=False)
    _seen: Look | None = field(default=None, init=False)
    page: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        self.entry = TextEntry("/", partial(only, self))

    def draw(self, width: int, height: int) -> list[Line]:
        """Return the lines of the screen."""
        self._take()
        body = self.last(width, height - 1)
        empty: list[Line] = [[] for _ in range(height - 1 - len(body))]
        return [*body, *empty, self._footer(width)]

    def last(self, width: int, height: int) -> list[Line]:
        """Return the lines without hints on keys and without empty lines."""
        if self._progress is None:
            return [[("class:dim", "reading the answers…")]]
        lines = [self._top(width), slots_line(self._progress.stats.slots, width)]
        for number, room in self._rooms(height - len(lines)):
            has_focus = number == self.focus and len(self.panels) > 1
            if number == self.focus:
                self.page = max(1, room - 2)
            lines += self.panels[number].draw(width, room, has_focus=has_focus)
        return lines

    @property
    def _focused(self) -> QueryPanel:
        return self.panels[self.focus]

    def _take(self) -> None:
        """Adopt the latest state, unless the dashboard is paused."""
        found = self.look()
        if found is None or found is self._seen or (self.is_paused and self.panels):
            return
        self._seen = found
        self._progress, standings = found
        if not self.panels:
            self.panels = [QueryPanel(self.clock, standing) for standing in standings]
        for panel, standing in zip(self.panels, standings, strict=True):
            panel.take(standing, self._progress.step)

    def _rooms(self, height: int) -> list[tuple[int, int]]:
        """Return the visible panels, each with its number of lines."""
        if self.is_zoomed:
            return [(self.focus, height)]
        needs = [2 + max(1, panel.count) for panel in self.panels]
        if len(needs) * _LEAST > height:
            return _one_open(len(needs), self.focus, height)
        return list(enumerate(shared(needs, height)))

    def _top(self, width: int) -> Line:
        assert self._progress is not None, "drawn where there is one"
        alive = alive_text(self.home, self._progress).split("  ")
        parts = [(60 if place == 0 else 30 - place, text) for place, text in enumerate(alive)]
        paused = f"  paused, {counted(self._missed(), 'update')} since" if self.is_paused else ""
        return [
            ("class:title", self.home.name),
            ("", "  " + fitted(parts, width - len(self.home.name) - len(paused) - 2)),
            ("class:title", paused),
        ]

    def _missed(self) -> int:
        """Return the number of updates since the dashboard was paused."""
        found = self.look()
        now = sum(standing.total for standing in found[1]) if found else 0
        return now - sum(panel.standing.total for panel in self.panels)

    def _footer(self, width: int) -> Line:
        if self.entry.is_open:
            return [("class:title", self.entry.shown)]
        words = [
            (90, "q leaves"),
            (80, "space goes on" if self.is_paused else "space pauses"),
            (70 if len(self.panels) > 1 else 5, "Tab next query"),
            (60, "/ filters"),
            (50, "↑ ↓ scroll"),
            (40, "Enter all queries" if self.is_zoomed else "Enter one query"),
            (30, "s newest first" if self.panels and self._focused.by_key else "s by key"),
            (20, "← → columns"),
        ]
        return [("class:dim", fitted(words, width))]


def shared(needs: Sequence[int], height: int) -> list[int]:
    """Divide lines among panels: each gets what it needs, but at most an equal share of what remains."""
    # Serve the smallest need first: what it leaves of its equal share goes to the larger needs.
    rooms = [0] * len(needs)
    left, open_ = height, sorted(range(len(needs)), key=lambda number: (needs[number], number))
    while open_:
        number = open_.pop(0)
        rooms[number] = min(needs[number], left // (len(open_) + 1))
        left -= rooms[number]
    return rooms


def _one_open(count: int, focus: int, height: int) -> list[tuple[int, int]]:
    """Return one-line titles, those nearest to the focus, and the remaining lines for the panel in focus."""
    titles = max(0, min(count - 1, height - _LEAST))
    first = max(0, min(focus - titles // 2, count - 1 - titles))
    return [
        (number, height - titles if number == focus else 1) for number in range(first, first + titles + 1)
    ]


_FAR = 10**9


def board_keys(board: Dashboard) -> KeyBindings:
    """Return the keys of a dashboard; keys for one query apply to the panel in focus."""
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
    """Toggle the order of rows: by key, or newest first."""
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
