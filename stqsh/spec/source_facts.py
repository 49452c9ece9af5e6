"""Facts about a source's records: number, times, extent, density, and unreadable records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stqsh.spec.stream import Bounds
from stqsh.units import SECOND_US, format_instant

MUCH = 0.1
"""The share of records set aside above which a warning is issued."""
_RATES = ((1, "a second"), (60, "a minute"), (3_600, "an hour"), (86_400, "a day"), (31_557_600, "a year"))
_SPANS = ((31_557_600, "years"), (86_400, "days"), (3_600, "hours"), (60, "min"), (1, "s"))
_REASON_SHOWN = 200
_CALM, _BUSIEST = 20, 50_000
"""The minimum records per second that are worth watching, and the maximum to play."""
_SHORTEST_S, _LONGEST_S = 20.0, 180.0
"""The minimum time to play all records, and the maximum if that is not too fast."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The facts about a source, measured on all of its records or on a sample.

    Attributes:
        records: the number of readable records; rounded if it is estimated.
        dead: the number of unreadable records, which are set aside.
        is_exact: whether all records were read; a sample gives estimates.
        objects: the number of different keys; None for events, and if only a sample was read.
        repeats: the share of the read records whose key occurs in an earlier one.
        first_us, last_us: the earliest and the latest event time read, µs; None without records; `last_us` is
            also None if a sample lacks the ends of files.
        busy_s: the seconds of event time excluding stretches without records; an estimate if a sample was
            read.
        extent: x1, y1, x2, y2 around the places; None without places.
        leaves_out: whether a few places are far outside `extent`.
        reason: why the first unreadable record cannot be read; "" if all can.
        is_planar: whether places are plane coordinates.
    """

    records: int
    dead: int = 0
    is_exact: bool = True
    objects: int | None = None
    repeats: float = 0.0
    first_us: int | None = None
    last_us: int | None = None
    busy_s: float = 0.0
    extent: Bounds | None = None
    leaves_out: bool = False
    reason: str = ""
    is_planar: bool = False

    @property
    def dead_share(self) -> float:
        """The share of unreadable records."""
        return self.dead / max(self.records + self.dead, 1)

    @property
    def span_s(self) -> float:
        """The seconds of event time from the first record to the last; 0 if unknown."""
        if self.first_us is None or self.last_us is None:
            return 0.0
        return (self.last_us - self.first_us) / SECOND_US

    @property
    def playing_s(self) -> float:
        """The seconds of event time that a PLAY plays, because it skips empty stretches."""
        return min(self.busy_s, self.span_s) if self.span_s else self.busy_s

    @property
    def per_second(self) -> float | None:
        """The records per second of event time; None if all have the same time."""
        return self.records / self.span_s if self.span_s > 0 else None


def playing_pace(all_facts: Sequence[SourceFacts]) -> float | None:
    """Return a pace at which changes are visible on a map; None if all records have the same time.

    It plays all records within minutes, few records sooner, and no faster than an engine can process them.
    The pace is computed from the time with records, because a PLAY skips the rest.

    >>> playing_pace([SourceFacts(24_000, first_us=0, last_us=400_000 * 10**6, busy_s=360_000.0)])
    2000.0
    """
    records = sum(facts.records for facts in all_facts)
    busy_s = max((facts.playing_s for facts in all_facts), default=0.0)
    if busy_s <= 0:
        return None
    seconds = min(max(records / _CALM, _SHORTEST_S), _LONGEST_S)
    exact = max(1.0, busy_s / max(seconds, records / _BUSIEST))
    power = 10.0 ** math.floor(math.log10(exact))
    return min((power * step for step in (1, 2, 5, 10)), key=lambda near: abs(math.log(near / exact)))


def facts_lines(facts: SourceFacts) -> tuple[str, ...]:
    """Return the facts as text lines: the records, and those set aside, if any.

    >>> print(*facts_lines(SourceFacts(1200, 3, True, 20, 0.9, 0, 600_000_000, (9.9, 49.9, 10.1, 50.1),
    ...     reason="lat: 'n' is not a valid DOUBLE")), sep="\\n")
    1,200 records of 20 objects, 2 a second, from 1970-01-01T00:00:00Z to 1970-01-01T00:10:00Z (10 min)
    longitude 9.9 to 10.1, latitude 49.9 to 50.1
    3 of 1,203 records are set aside: lat: 'n' is not a valid DOUBLE
    """
    lines = [f"{records_text(facts)}{_joined(pace_text(facts))}{_joined(span_text(facts), ', from ')}"]
    lines += filter(None, [extent_text(facts), set_aside_text(facts)])
    return tuple(lines)


def records_text(facts: SourceFacts) -> str:
    """Return the number of records and of objects as text."""
    noun = "record" if facts.records == 1 else "records"
    objects = ""
    if facts.objects is not None:
        objects = f" of {facts.objects:,} object{'' if facts.objects == 1 else 's'}"
    return f"{_about(facts)}{facts.records:,} {noun}{objects}"


def span_text(facts: SourceFacts) -> str:
    """Return the time span of the records and its length as text; "" without records."""
    first, last = format_instant(facts.first_us), format_instant(facts.last_us)
    if first is None:
        return ""
    if last is None:
        return f"{first} on"
    return f"{first} to {last} ({_length(facts.span_s)})"


def extent_text(facts: SourceFacts) -> str:
    """Return the extent of the records as text; "" without places."""
    if facts.extent is None:
        return ""
    x, y = ("x", "y") if facts.is_planar else ("longitude", "latitude")
    x1, y1, x2, y2 = (f"{value:.7g}" for value in facts.extent)
    few = "; a few are far outside" if facts.leaves_out else ""
    return f"{x} {x1} to {x2}, {y} {y1} to {y2}{few}"


def pace_text(facts: SourceFacts) -> str:
    """Return the records per second of event time, or per longer unit, as text; "" without a rate."""
    if facts.per_second is None:
        return ""
    per, words = next((rate for rate in _RATES if facts.per_second * rate[0] >= 1), _RATES[-1])
    return f"{_short(facts.per_second * per)} {words}"


def set_aside_text(facts: SourceFacts) -> str:
    """Return the number of records set aside and the reason for the first as text; "" if none is."""
    if not facts.dead:
        return ""
    count = facts.records + facts.dead
    reason = facts.reason[:_REASON_SHOWN]
    if not facts.records:
        all_ = "the only record is" if count == 1 else f"all {_about(facts)}{count:,} records are"
        return f"{all_} set aside: {reason}"
    verb = "is" if facts.dead == 1 else "are"
    return f"{_about(facts)}{facts.dead:,} of {count:,} records {verb} set aside: {reason}"


def _about(facts: SourceFacts) -> str:
    return "" if facts.is_exact else "about "


def _joined(text: str, by: str = ", ") -> str:
    return f"{by}{text}" if text else ""


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _length(seconds: float) -> str:
    """Return a length of time in the largest unit that it contains at least twice.

    >>> _length(600), _length(7200), _length(0.5)
    ('10 min', '2 hours', '0.5 s')
    """
    unit, name = next((span for span in _SPANS if seconds >= 2 * span[0]), _SPANS[-1])
    return f"{_short(seconds / unit)} {name}"
