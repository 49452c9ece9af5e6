"""Numbers as bars of characters: a sparkline over time, and the slots' loads side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from stqsh.shell.terminal.fullscreen import Line
from stqsh.spec.stats import SlotStats
from stqsh.units import group_digits

LEVELS = "▁▂▃▄▅▆▇█"
_BAR = 8


def sparkline(values: Sequence[float]) -> str:
    """Return a character for each value, by its share of the greatest; only zero has the lowest bar."""
    most = max(values, default=0)
    tops = len(LEVELS) - 1
    return "".join(LEVELS[math.ceil(value * tops / most) if value > 0 else 0] for value in values)


def steps_line(sent: Mapping[int, int], last: int, width: int) -> str:
    """Return a sparkline of the updates of the last `width` steps up to `last`."""
    first = max(1, last - width + 1)
    return sparkline([sent.get(step, 0) for step in range(first, last + 1)])


def slots_line(slots: Sequence[SlotStats], width: int) -> Line:
    """Return the records of the last batch by slot: as bars where there is room, else a character a slot."""
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
