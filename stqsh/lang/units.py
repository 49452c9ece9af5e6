"""Units of durations, lengths and speeds: their names, and what they amount to.

Durations come to microseconds, lengths to metres, speeds to metres a second.
"""

from __future__ import annotations

import math
import re
from typing import Literal as OneOf
from typing import NamedTuple

Dimension = OneOf["duration", "length", "speed"]


class Unit(NamedTuple):
    """A unit: what it measures, its size, and the other names it goes by."""

    dimension: Dimension
    size: float
    aliases: tuple[str, ...] = ()


UNITS: dict[str, Unit] = {
    "ms": Unit("duration", 1_000, ("millisecond", "milliseconds")),
    "s": Unit("duration", 1_000_000, ("sec", "secs", "second", "seconds")),
    "min": Unit("duration", 60_000_000, ("mins", "minute", "minutes")),
    "hours": Unit("duration", 3_600_000_000, ("h", "hr", "hrs", "hour")),
    "days": Unit("duration", 86_400_000_000, ("day",)),
    "m": Unit("length", 1.0, ("metre", "metres", "meter", "meters")),
    "km": Unit("length", 1_000.0, ("kilometre", "kilometres", "kilometer", "kilometers")),
    "miles": Unit("length", 1_609.344, ("mi", "mile")),
    "m/s": Unit("speed", 1.0),
    "km/h": Unit("speed", 1 / 3.6, ("kmh", "kph")),
    "mph": Unit("speed", 0.44704),
}
"""The units by the names that they are printed with."""

CANONICAL: dict[str, str] = {
    name: canonical for canonical, unit in UNITS.items() for name in (canonical, *unit.aliases)
}
"""Every name of a unit, in small letters, to the name that it is printed with."""

EXAMPLES: dict[Dimension, str] = {"duration": "30 s", "length": "500 m", "speed": "60 km/h"}
KMH_PER_MS = 3.6
_MOST_US = 2.0**62
_AGO = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s+ago\s*", re.IGNORECASE)


def micros(number: float, unit: str) -> int:
    """A duration in whole microseconds; `unit` is a key of UNITS."""
    return round(number * UNITS[unit].size)


def metres(number: float, unit: str) -> float:
    """A length in metres; `unit` is a key of UNITS."""
    return number * UNITS[unit].size


def metres_a_second(number: float, unit: str) -> float:
    """A speed in metres a second; 60 km/h is 60 / 3.6, the nearest double to it."""
    return number / KMH_PER_MS if unit == "km/h" else number * UNITS[unit].size


def parse_ago(text: str) -> int | None:
    """The microseconds in `10 mins ago`, None where the text is no such thing."""
    match = _AGO.fullmatch(text)
    unit = CANONICAL.get(match[2].lower()) if match else None
    if match is None or unit is None or UNITS[unit].dimension != "duration":
        return None
    return micros(float(match[1]), unit) if fits(float(match[1]), unit) else None


def fits(number: float, unit: str) -> bool:
    """Whether a quantity can be kept: a finite number of metres, or microseconds that fit 64 bits."""
    in_base = number * UNITS[unit].size
    return in_base < (_MOST_US if UNITS[unit].dimension == "duration" else math.inf)
