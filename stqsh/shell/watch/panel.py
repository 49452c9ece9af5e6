"""One query's part of the dashboard: a title with its rate in bars, then the rows of its answer."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from stqsh.client.read.watch import AnswerState
from stqsh.shell.live.update_filter import ALL, UpdateFilter
from stqsh.shell.terminal.fullscreen import Line
from stqsh.shell.writers.aligned_text import TextColumn, aligned, cells, cut_to
from stqsh.shell.writers.columns import selected_columns
from stqsh.spec.stats import SlotStats
from stqsh.units import group_digits

if TYPE_CHECKING:
    from stqsh.client.results import Updates


NEW_S = 3.0
"""The time for which a row is marked as new."""
RATE_S = 10.0
"""The time over which updates per second are averaged."""
_WIDEST = 30
_SPARK_LEAST, _SPARK_MOST = 8, 60


@dataclass
class QueryPanel:
    """Draws one query.

    Attributes:
        clock: Returns the time in seconds.
        standing: The latest answer.
        step: The step of that answer.
        wanted: The filter of rows.
        by_key: Whether rows are sorted by key instead of newest first.
        top: The first row shown.
        shift: The first column shown.
    """

    clock: Callable[[], float]
    standing: AnswerState
    step: int = 0
    wanted: UpdateFilter = ALL
    by_key: bool = False
    top: int = 0
    shift: int = 0
    _seen: deque[tuple[float, int, int]] = field(default_factory=deque, init=False)
    _looks: int = field(default=0, init=False)
    _rows: Updates | None = field(default=None, init=False)
    _rows_of: tuple[Any, ...] = field(default=(), init=False)

    def take(self, standing: AnswerState, step: int) -> None:
        """Adopt the answer after a step."""
        now = self.clock()
        self.standing, self.step = standing, step
        if self._looks == 1:
            self._seen.clear()  # updates in the first read of a long log are old, not new
        self._looks += 1
        self._seen.append((now, step, standing.total))
        while len(self._seen) > 1 and now - self._seen[1][0] >= RATE_S:
            self._seen.popleft()

    @property
    def rows(self) -> Updates | None:
        """The rows to show, by key, or reversed if the newest come first."""
        answer = self.standing.answer
        if answer is None:
            return None
        asked = (id(answer.table), self.wanted.text, self.by_key)
        if asked != self._rows_of:
            rows = UpdateFilter(0, self.wanted.text).of(answer)
            self._rows, self._rows_of = _by_key(rows) if self.by_key else rows, asked
        return self._rows

    @property
    def count(self) -> int:
        """The number of rows to show."""
        return 0 if self.rows is None else self.rows.table.num_rows

    def draw(self, width: int, height: int, *, has_focus: bool) -> list[Line]:
        """Return the panel in at most `height` lines: its title, a header, rows."""
        room = max(0, height - 2)
        self.top = max(0, min(self.top, self.count - room))
        lines = [self._title(width, room, has_focus=has_focus)]
        if height > 1:
            lines += self._table(width, room)
        return lines

    def _title(self, width: int, room: int, *, has_focus: bool) -> Line:
        name = f" {self.standing.query.name} "
        words = [self._size(room)]
        if self.standing.query.state != "active":
            words.append(str(self.standing.query.state))
        words += [word for word in (self.standing.accuracy, f"{rate_words(self._rate())} updates/s") if word]
        text = "  ".join(["", *words, ""])
        spark = width - len(name) - len(text) - 1
        line: Line = [("class:focus" if has_focus else "class:title", name), ("", text)]
        if spark >= _SPARK_LEAST:
            steps = steps_line(self.standing.sent, self.step, min(spark, _SPARK_MOST))
            line.append(("class:bar", steps))
        return line

    def _size(self, room: int) -> str:
        size = self.standing.size
        text = f"{group_digits(size)} row{'' if size == 1 else 's'}"
        if self.wanted.text:
            text = f"{group_digits(self.count)} of {text}"
        last = min(self.count, self.top + room)
        return (
            f"{text}, {group_digits(self.top + 1)} to {group_digits(last)}"
            if room < self.count and room
            else text
        )

    def _rate(self) -> float:
        """Return the updates per second over the last `RATE_S` seconds."""
        if len(self._seen) < 2:
            return 0.0
        (before, _, had), (now, _, has) = self._seen[0], self._seen[-1]
        return (has - had) / max(now - before, 1.0)

    def _new_after(self) -> int:
        """Return the step after which rows count as new."""
        now = self.clock()
        old = [step for at, step, _ in self._seen if now - at >= NEW_S]
        return old[-1] if old else self._seen[0][1] if self._seen else 0

    def _table(self, width: int, room: int) -> list[Line]:
        if self.rows is None or not self.count:
            return [[("class:dim", "  no row fits" if self.wanted.text else "  the answer is empty")]]
        shown = self._shown(self.rows, room)
        new = shown.table.column("step").to_numpy() > self._new_after()
        head, *lines = self._aligned(shown, width)
        made: list[Line] = [[("class:dim", f"  {head}")]]
        for line, is_new in zip(lines, new.tolist(), strict=True):
            made.append([("class:new", f"+ {line}")] if is_new else [("", f"  {line}")])
        return made

    def _shown(self, rows: Updates, room: int) -> Updates:
        """Return the rows on the screen, in order."""
        count, table = rows.table.num_rows, rows.table
        last = min(count, self.top + room)
        if self.by_key:
            return replace(rows, table=table.slice(self.top, last - self.top))
        places = pa.array(range(count - self.top - 1, count - last - 1, -1), pa.int64())
        return replace(rows, table=table.take(places))

    def _aligned(self, shown: Updates, width: int) -> list[str]:
        """Return header and rows, with as many columns as fit."""
        columns = selected_columns(shown, self.standing.query)
        self.shift = min(self.shift, len(columns) - 1)
        kept: list[TextColumn] = []
        room, left = width - 2, len(columns) - self.shift
        for column in columns[self.shift :]:
            name, *values = (_shortened(text) for text in (column.name, *column.readable()))
            text = TextColumn(name, values, column.is_numeric)
            if kept and text.width > room:
                break
            kept.append(text)
            room, left = room - text.width - 2, left - 1
        head, *lines = aligned(kept, [column.width for column in kept])
        return [f"{head}  → {left} more" if left else head, *lines]


def rate_words(rate: float) -> str:
    """Return a rate with one decimal below 100, and none above."""
    return f"{rate:.1f}" if rate < 100 else group_digits(rate)


def _shortened(text: str) -> str:
    return text if cells(text) <= _WIDEST else cut_to(text, _WIDEST)


def _by_key(rows: Updates) -> Updates:
    return replace(rows, table=rows.table.take(pc.sort_indices(rows.table.column("key"))))


LEVELS = "▁▂▃▄▅▆▇█"
_BAR = 8


def sparkline(values: Sequence[float]) -> str:
    """Return a bar character for each value, relative to the maximum; only zero has the lowest bar."""
    most = max(values, default=0)
    tops = len(LEVELS) - 1
    return "".join(LEVELS[math.ceil(value * tops / most) if value > 0 else 0] for value in values)


def steps_line(sent: Mapping[int, int], last: int, width: int) -> str:
    """Return a sparkline of the updates of the last `width` steps up to `last`."""
    first = max(1, last - width + 1)
    return sparkline([sent.get(step, 0) for step in range(first, last + 1)])


def slots_line(slots: Sequence[SlotStats], width: int) -> Line:
    """Return the records of the last batch by slot: as bars if they fit, else one character per slot."""
    if not slots:
        return [("class:dim", "no slot has reported its load yet")]
    loads = [slot.records for slot in slots]
    most = max(loads, default=0)
    line: Line = [("class:dim", "slots")]
    for slot, load in zip(slots, loads, strict=True):
        full = round(_BAR * load / most) if most else 0
        line += [
            ("", f"  {slot.slot} "),
            ("class:bar", "█" * full),
            ("class:dim", "▁" * (_BAR - full)),
            ("", f" {group_digits(load)}"),
        ]
    if sum(len(text) for _, text, *_ in line) <= width - len(_UNIT):
        return [*line, ("class:dim", _UNIT)]
    spread = f"  {group_digits(min(loads))} to {group_digits(most)}{_UNIT}"
    return [("class:dim", f"{len(slots)} slots  "), ("class:bar", sparkline(loads)), ("class:dim", spread)]


_UNIT = " records in the last batch"
