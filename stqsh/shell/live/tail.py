"""The live view of TAIL, SUBSCRIBE and RUN: updates scroll, a status line shows that the stream is alive.

A thread reads the updates (`Prefetch`), a `ScrollBuffer` keeps them for scrolling back, and a `Screen` draws
as many as fit on a terminal. Space pauses, `/` filters, arrows scroll back, `q` and Ctrl-C leave.
"""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stqsh.client.results import SnapshotMark
from stqsh.shell.live.prefetch import Prefetch
from stqsh.shell.live.scrollback import ScrollBack, ScrollBuffer
from stqsh.shell.live.update_filter import ALL, UpdateFilter, wanted
from stqsh.shell.messages import print_message
from stqsh.shell.status import NO_STEP, alive_text, first_batch_text, shedding_part
from stqsh.shell.terminal.fullscreen import TextEntry
from stqsh.shell.terminal.raw_keys import PressedKey, RawKeys
from stqsh.shell.terminal.screen import Screen, fitted
from stqsh.shell.writers.opening import write_item
from stqsh.shell.writers.update_table import UpdateLines
from stqsh.units import counted, group_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stqsh.client.read.subscription import OnIdle, Subscription
    from stqsh.client.results import Updates
    from stqsh.shell.live.prefetch import Item, Source
    from stqsh.shell.writers.writer import Writer
    from stqsh.storage.home import SessionHome

LOOK_S = 0.03
"""The longest time that a key or an update waits to be handled."""
PATIENCE_S = 0.7
"""The time after which the status line reports that the log is being read."""
_BACK = ("up", "pageup", "home", "left", "right")
_DATE = re.compile(r"\d{4}-\d\d-\d\dT")


def watch(following: Subscription, screen: Screen, scheme: str = "auto") -> str:
    """Show a query's updates until it ends or the user leaves; return the message for the user."""
    view = LiveView(screen, following.query.name, following.connection.home, scheme=scheme)
    view.warning = lambda: following.accuracy_text
    following.on_notice = view.notices.append
    try:
        view.follow(source_of(following))
        text = f"{following.query.name} has ended" if following.options.limit is None else ""
    except KeyboardInterrupt:
        text = left_text(following)
    finally:
        following.close()
    return text


def source_of(following: Subscription) -> Source:
    """Return a query's updates as a source of a `Prefetch`."""

    def source(on_idle: OnIdle) -> Iterable[Item]:
        following.on_idle = on_idle
        return following

    return source


def drain(following: Subscription, writer: Writer) -> str:
    """Write a query's updates without a live view, and warnings to standard error; return the message."""
    following.on_notice = print_message
    try:
        for item in following:
            write_item(writer, item)
    except KeyboardInterrupt:
        return left_text(following)
    finally:
        following.close()
    return ""


def left_text(following: Subscription) -> str:
    """Return the effect of leaving a query."""
    name = following.query.name
    return f"left {name}; it is dropped" if following.temporary else f"left {name}; it goes on"


@dataclass
class LiveView:
    """Draws as many updates and marks as fit on a screen, and handles keys.

    Attributes:
        screen: Where it draws.
        name: The name in the status line.
        home: The session's home.
        one_query: Whether only updates of a single query can arrive.
        keys: The source of pressed keys.
        scheme: The setting shell.scheme.
        warning: Returns the status line's remark on the answer.
        notices: Messages from the reading thread, to be shown above the next updates.
    """

    screen: Screen
    name: str
    home: SessionHome
    one_query: bool = True
    keys: RawKeys = field(default_factory=RawKeys)
    scheme: str = "auto"
    warning: Callable[[], str] = field(default=str, init=False)
    notices: deque[str] = field(default_factory=deque, init=False)
    is_paused: bool = field(default=False, init=False)
    wanted: UpdateFilter = field(default=ALL, init=False)
    _came: int = field(default=0, init=False)
    _fitted: int = field(default=0, init=False)
    _began: float = field(default_factory=time.monotonic, init=False)

    def __post_init__(self) -> None:
        self._kept = ScrollBuffer()
        self._entry = TextEntry("/", self._filter)
        self._fit()

    def _fit(self) -> None:
        """Adopt the terminal's current width."""
        self._width = self.screen.width
        self._lines = UpdateLines(self.screen.target(one_query=self.one_query))

    def follow(self, source: Source) -> None:
        """Show the items of a source until it ends.

        Raises:
            KeyboardInterrupt: The user leaves.
            StqshError: The error that the source raised, such as `EngineDeadError`.
        """
        with closing(Prefetch(source)) as feed, self.keys:
            try:
                while not (feed.is_over and not self.is_paused):
                    self._look(feed)
                _show_notices(self.notices, self.screen)
                feed.take()  # raises the error that ended it
            finally:
                self.screen.close()

    def _look(self, feed: Prefetch[Item]) -> None:
        """Show the arrived items, then handle the keys."""
        if self.screen.width != self._width:
            self._fit()
        if not self.is_paused:
            items = feed.take()  # first, because a notice precedes its subject
            _show_notices(self.notices, self.screen)
            for item in items:
                self._show(item)
        self._status(feed)
        for press in self.keys.pressed(LOOK_S):
            self._press(press, feed)

    def _show(self, item: Item) -> None:
        """Store updates or a mark, and draw those that match the filter; if room is short, the latest."""
        self._kept.add(item)
        if isinstance(item, SnapshotMark):
            if not self.wanted:
                self.screen.lines([self._lines.mark(item)])
            return
        self._came += item.table.num_rows
        fitting = self.wanted.of(item)
        self._fitted += fitting.table.num_rows
        self._draw(fitting)

    def _draw(self, updates: Updates) -> None:
        count = updates.table.num_rows
        room = max(0, min(count, self.screen.sample.room()))
        self.screen.sample.take(room, count - room)
        if room:
            self.screen.lines(self._lines.lines(replace(updates, table=updates.table.slice(count - room))))

    def _press(self, press: PressedKey, feed: Prefetch[Item]) -> None:
        if self._entry.is_open:
            self._entry.press(*press)
        elif press.key == " ":
            self.is_paused = not self.is_paused
        elif press.key == "/":
            self._entry.open(self.wanted.words)
        elif press.key in ("q", "c-c", "c-d"):
            raise KeyboardInterrupt
        elif press.key in _BACK:
            self._scroll_back(press.key, feed)
        self._status(feed, now=True)

    def _filter(self, typed: str) -> None:
        """Show only matching rows from now on, below the last of the earlier rows."""
        new = wanted(typed, names=not self.one_query)
        if new == self.wanted:
            return
        self.wanted = new
        fitting, _ = self._kept.window(new, 0, sys.maxsize) if new else ([], 0)
        self._fitted = sum(item.table.num_rows for item in fitting if not isinstance(item, SnapshotMark))
        self.screen.lines([self._lines.remark(f"-- only {new.words}" if new else "-- all updates again")])
        before, _ = self._kept.window(new, 0, max(0, self.screen.height - 3)) if new else ([], 0)
        for item in before:
            if not isinstance(item, SnapshotMark):
                self._draw(item)

    def _scroll_back(self, move: str, feed: Prefetch[Item]) -> None:
        target = replace(self.screen.target(one_query=self.one_query), colour=False, width=None)
        lines = UpdateLines(target, is_narrow=self._lines.is_narrow)
        only = replace(self.wanted, names=not self.one_query)
        back = ScrollBack(self._kept, lines, only, lambda: waiting_text(feed))
        self.screen.pause()
        back.show(self.scheme, move)
        if back.is_left:
            raise KeyboardInterrupt

    def _status(self, feed: Prefetch[Item], *, now: bool = False) -> None:
        """Redraw the status line."""
        progress = feed.progress
        if self._entry.is_open:
            self.screen.status(self._entry.shown, now=now)
        elif progress is None:
            if time.monotonic() - self._began > PATIENCE_S:
                hints = "  ".join(text for _, text in self._hints()[-1:])
                self.screen.status(f"{self.name}  reading the update log…  {hints}")
        else:
            width, parts = self.screen.width - 1, self._words(feed)
            if sum(len(text) + 2 for _, text in parts if text) - 2 > width:
                parts = [(weight, _DATE.sub("", text)) for weight, text in parts]
            self.screen.status(fitted(parts, width), now=now)

    def _words(self, feed: Prefetch[Item]) -> list[tuple[int, str]]:
        """Return the parts of the status line, with their weights."""
        assert feed.progress is not None, "asked where there is one"
        count = counted(self._came, "update")
        if self.wanted:
            count = f"only {self.wanted.words}: {group_digits(self._fitted)} of {count}"
        sheds = shedding_part(feed.progress)
        step, *rest = (part for part in alive_text(self.home, feed.progress).split("  ") if part != sheds)
        if step == NO_STEP:
            step = first_batch_text(time.monotonic() - self._began)
        weights = [50] + [30] * (len(rest) - 2) + [45]
        return [
            (70, self.name),
            (80, f"paused, {waiting_text(feed)}" if self.is_paused else ""),
            (85, self.warning()),
            (65, sheds),
            # Before the first step there is no other information.
            (60 if feed.progress.step else 90, step),
            *zip(weights, rest, strict=False),
            (75, count),
            *self._hints(),
        ]

    def _hints(self) -> list[tuple[int, str]]:
        if not self.keys.there:
            return [(90, "Ctrl-C leaves")]
        space = (78, "space goes on") if self.is_paused else (35, "space pauses")
        return [space, (12, "/ filters"), (11, "↑ back"), (90, "q leaves")]


def _show_notices(notices: deque[str], screen: Screen) -> None:
    """Show messages above the status line, once each."""
    while notices:
        screen.message(notices.popleft())


def waiting_text(feed: Prefetch[Item]) -> str:
    """Return the number of updates that have arrived but are not shown yet, as a text."""
    return f"{group_digits(feed.waiting)}{'+' if feed.is_full else ''} waiting"
