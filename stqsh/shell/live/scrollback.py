"""Scroll back in a TAIL: a full-screen view of the latest rows, including rows that were not shown live."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from prompt_toolkit.key_binding import KeyBindings

from stqsh.client.results import SnapshotMark
from stqsh.shell.live.update_filter import ALL, UpdateFilter, wanted
from stqsh.shell.terminal.fullscreen import Fullscreen, Line, TextEntry, leave
from stqsh.shell.terminal.screen import fitted
from stqsh.shell.writers.columns import head_columns
from stqsh.units import group_digits

if TYPE_CHECKING:
    from stqsh.client.results import Updates
    from stqsh.shell.writers.update_table import UpdateLines

KEPT = 50_000
"""The minimum number of rows that are kept, if as many have arrived."""
SIDEWAYS = 20
_STYLES = {"+": "ansigreen", "-": "ansired"}


@dataclass(slots=True)
class _Block:
    """A block of rows, or a mark, with the rows that match the latest filter."""

    item: Updates | SnapshotMark
    _wanted: UpdateFilter = ALL
    _fitting: Updates | None = None

    @property
    def rows(self) -> int:
        return 1 if isinstance(self.item, SnapshotMark) else self.item.table.num_rows

    def fitting(self, wanted: UpdateFilter) -> Updates | SnapshotMark | None:
        """Return the rows that match a filter; None if none does."""
        if isinstance(self.item, SnapshotMark):
            return None if wanted else self.item
        if self._fitting is None or self._wanted != wanted:
            self._wanted, self._fitting = wanted, wanted.of(self.item)
        return self._fitting if self._fitting.table.num_rows else None


class ScrollBuffer:
    """Keeps the latest rows: at least `KEPT` of them."""

    def __init__(self) -> None:
        self._blocks: deque[_Block] = deque()
        self.rows = 0

    def add(self, item: Updates | SnapshotMark) -> None:
        """Add rows or a mark, and drop the oldest ones."""
        self._blocks.append(_Block(item))
        self.rows += self._blocks[-1].rows
        while self.rows - self._blocks[0].rows >= KEPT:
            self.rows -= self._blocks.popleft().rows

    def window(
        self, wanted: UpdateFilter, offset: int, count: int
    ) -> tuple[list[Updates | SnapshotMark], int]:
        """Return `count` matching rows, oldest first, after skipping the `offset` newest ones.

        Returns:
            The rows, and the number of matching rows from the newest down to the oldest in the window. That
            number is less than `offset + count` only if there are no more rows.
        """
        found: list[Updates | SnapshotMark] = []
        passed = 0
        for block in reversed(self._blocks):
            item = block.fitting(wanted)
            if item is None:
                continue
            rows = 1 if isinstance(item, SnapshotMark) else item.table.num_rows
            begin, end = max(passed, offset) - passed, min(rows, offset + count - passed)
            if begin < end:
                found.append(_slice(item, rows - end, end - begin))
            passed += min(rows, end)
            if passed >= offset + count:
                break
        return found[::-1], passed


def _slice(item: Updates | SnapshotMark, start: int, length: int) -> Updates | SnapshotMark:
    if isinstance(item, SnapshotMark):
        return item
    return replace(item, table=item.table.slice(start, length))


@dataclass
class ScrollBack:
    """A `FullscreenView` of the rows that are kept.

    Attributes:
        kept: The rows.
        lines: Renders rows; their columns have the widths of the live view.
        wanted: The filter.
        waiting: Returns a text about the rows that have arrived since.
        offset: The number of rows below the visible ones.
        shift: The number of characters to the left of the visible ones.
        is_left: Whether the user wants to leave the TAIL, too.
    """

    kept: ScrollBuffer
    lines: UpdateLines
    wanted: UpdateFilter
    waiting: Callable[[], str]
    offset: int = 0
    shift: int = 0
    is_left: bool = False
    entry: TextEntry = field(init=False)
    _page: int = field(default=20, init=False)

    def __post_init__(self) -> None:
        self.entry = TextEntry("/", self._filter)

    def show(self, scheme: str, move: str) -> None:
        """Scroll until the user returns to the live rows; `move` is the key that opened the view."""
        if move in ("left", "right"):
            self._shift(move)
        else:
            self._move(move)
        Fullscreen(self, self._keys(), self.entry, scheme).run()

    def draw(self, width: int, height: int) -> list[Line]:
        """Return a header, the rows, and a status line with their position."""
        self._page = room = max(1, height - 2)
        shown, passed = self.kept.window(self.wanted, self.offset, room)
        if passed < self.offset + room:
            self.offset = max(0, passed - room)
            shown, passed = self.kept.window(self.wanted, self.offset, room)
        rows = [line for item in shown for line in self._drawn(item)]
        heading: Line = [("class:title", self.lines.heading[self.shift :])]
        empty: list[Line] = [[] for _ in range(room - len(rows))]
        return [heading, *rows, *empty, self._status(width)]

    def last(self, width: int, height: int) -> list[Line]:
        """Return no lines: the live rows continue below the earlier ones."""
        del width, height
        return []

    def _drawn(self, item: Updates | SnapshotMark) -> list[Line]:
        if isinstance(item, SnapshotMark):
            return [[("class:dim", self.lines.mark(item))]]
        rows, signs = self.lines.rows(item), head_columns(item).op.texts()
        return [[(_STYLES[sign], row[self.shift :])] for row, sign in zip(rows, signs, strict=True)]

    def _status(self, width: int) -> Line:
        if self.entry.is_open:
            return [("class:title", self.entry.shown)]
        only = f"only {self.wanted.words}" if self.wanted else ""
        below = f"{group_digits(self.offset)} below" if self.offset else "the newest"
        parts = [(60, "scrolled back"), (80, below), (70, self.waiting()), (50, only)]
        hints = [(90, "Esc goes on"), (40, "/ filters"), (30, "↑ ↓ PgUp PgDn Home End"), (20, "← → sideways")]
        return [("class:dim", fitted([*parts, *hints], width))]

    def _filter(self, typed: str) -> None:
        self.wanted, self.offset = wanted(typed, names=self.wanted.names), 0

    def _move(self, key: str) -> None:
        steps = {"up": 1, "down": -1, "pageup": self._page, "pagedown": -self._page}
        if key == "home":
            self.offset = self.kept.rows
        elif key in ("end", "escape") or (steps.get(key, 0) < 0 and self.offset == 0):
            leave()
        else:
            self.offset = max(0, self.offset + steps.get(key, 0))

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        def add(*names: str, act: Callable[[str], None]) -> None:
            for name in names:
                keys.add(name)(lambda event: act(str(event.key_sequence[0].key.value)))

        add("up", "down", "pageup", "pagedown", "home", "end", "escape", act=self._move)
        add("left", "right", act=self._shift)
        add("c-c", "<sigint>", act=self._leave_all)
        keys.add("/")(lambda event: self.entry.open(self.wanted.words))
        return keys

    def _shift(self, key: str) -> None:
        self.shift = max(0, self.shift + (SIDEWAYS if key == "right" else -SIDEWAYS))

    def _leave_all(self, key: str) -> None:
        self.is_left = True
        leave()
