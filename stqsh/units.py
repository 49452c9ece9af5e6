"""Units of durations, lengths, speeds and sizes: parse, convert and print them.

Durations are whole microseconds, lengths metres, speeds metres per second, sizes bytes (powers of 1024).
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Literal as OneOf
from typing import NamedTuple

Dimension = OneOf["duration", "length", "speed", "size"]


class Unit(NamedTuple):
    """A unit: what it measures, its size, and its other names."""

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
    "kB": Unit("size", 1 << 10, ("kib",)),
    "MB": Unit("size", 1 << 20, ("mib",)),
    "GB": Unit("size", 1 << 30, ("gib",)),
    "TB": Unit("size", 1 << 40, ("tib",)),
}
"""The units by their printed names."""

CANONICAL: dict[str, str] = {
    name: canonical for canonical, unit in UNITS.items() for name in (canonical.lower(), *unit.aliases)
}
"""Maps every name of a unit, in lower case, to its printed name."""

EXAMPLES: dict[Dimension, str] = {
    "duration": "30 s",
    "length": "500 m",
    "speed": "60 km/h",
    "size": "2 GB",
}
KMH_PER_MS = 3.6
_MOST = 2.0**62
_AGO = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s+ago\s*", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DURATIONS = [(round(UNITS[name].size), name) for name in ("days", "hours", "min", "s", "ms")]
"""Units of time in microseconds, largest first."""

_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE_NAMES = {"": "B", "k": "kB", "m": "MB", "g": "GB", "t": "TB"}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE)


SECOND_US = 1_000_000
"""The microseconds of a second."""


def microseconds(number: float, unit: str) -> int:
    """Return a duration in whole microseconds; `unit` is a key of UNITS.

    >>> microseconds(1.5, "min")
    90000000
    """
    return round(number * UNITS[unit].size)


def size_in_bytes(number: float, unit: str) -> int:
    """Return a size in whole bytes; `unit` is a key of UNITS.

    >>> size_in_bytes(1.5, "kB")
    1536
    """
    return round(number * UNITS[unit].size)


def metres(number: float, unit: str) -> float:
    """Return a length in metres; `unit` is a key of UNITS.

    >>> metres(2, "miles")
    3218.688
    """
    return number * UNITS[unit].size


def metres_per_second(number: float, unit: str) -> float:
    """Return a speed in metres per second; 60 km/h is 60 / 3.6, the nearest double to it.

    >>> metres_per_second(36, "km/h")
    10.0
    """
    return number / KMH_PER_MS if unit == "km/h" else number * UNITS[unit].size


def parse_ago(text: str) -> int | None:
    """Return the microseconds in a text such as `10 mins ago`; None for any other text.

    >>> parse_ago("10 mins ago")
    600000000
    >>> parse_ago("10 km ago")
    """
    match = _AGO.fullmatch(text)
    unit = CANONICAL.get(match[2].lower()) if match else None
    if match is None or unit is None or UNITS[unit].dimension != "duration":
        return None
    return microseconds(float(match[1]), unit) if is_representable(float(match[1]), unit) else None


def is_representable(number: float, unit: str) -> bool:
    """Return whether a quantity is a finite number of metres, or of microseconds or bytes that fit 64 bits.

    >>> is_representable(1e300, "km"), is_representable(1e300, "days")
    (True, False)
    """
    in_base = number * UNITS[unit].size
    return in_base < (_MOST if UNITS[unit].dimension in ("duration", "size") else math.inf)


def parse_duration(text: str) -> int:
    """Return the microseconds of a duration such as `30 s` or `250 ms`.

    Raises:
        ValueError: The text is not a duration; the message describes what is expected.

    >>> parse_duration("30 s"), parse_duration("250 ms")
    (30000000, 250000)
    """
    match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([a-z]+)", text.strip().lower())
    unit = CANONICAL.get(match[2], "") if match else ""
    if match is None or not unit or UNITS[unit].dimension != "duration":
        raise ValueError("a duration such as '30 s'")
    if not is_representable(float(match[1]), unit):
        raise ValueError("a shorter duration")
    return microseconds(float(match[1]), unit)


def parse_size(text: str) -> int:
    """Return the bytes of a size such as `64 MB`, `2g` or `512 kB`.

    Raises:
        ValueError: The text has no unit, or is not a size; the message describes what is expected.

    >>> parse_size("64 MB"), parse_size("0.5k")
    (67108864, 512)
    """
    match = _SIZE.fullmatch(text.strip())
    size = round(float(match[1]) * _SIZES[match[2].lower()]) if match and (match[2] or match[3]) else 0
    if size < 1:
        raise ValueError("a size such as '64 MB'")
    return size


def format_size(size: float) -> str:
    """Return a number of bytes with its unit, such as `64 MB`, to two decimals.

    >>> format_size(1_500_000), format_size(100)
    ('1.43 MB', '100 B')
    """
    letter = next((letter for letter, unit in reversed(_SIZES.items()) if size >= unit), "")
    text = f"{size / _SIZES[letter]:.2f}".rstrip("0").rstrip(".")
    return f"{text} {_SIZE_NAMES[letter]}"


def format_instant(at_us: int | None) -> str | None:
    """Return an instant as ISO 8601 in UTC (`Z`), with a fraction of a second only if needed.

    >>> format_instant(1_202_000_000_500_000)
    '2008-02-03T00:53:20.5Z'
    """
    if at_us is None:
        return None
    text = (_EPOCH + timedelta(microseconds=at_us)).isoformat().removesuffix("+00:00")
    return f"{text.rstrip('0')}Z" if "." in text else f"{text}Z"


def format_duration(us: int | None) -> str | None:
    """Return a duration in the largest unit that gives a whole number ("30 s"), as STQL writes it.

    >>> format_duration(90_000_000), format_duration(7_200_000_000), format_duration(86_400_000_000)
    ('90 s', '2 hours', '1 day')
    """
    if us is None:
        return None
    unit, name = next(((unit, name) for unit, name in _DURATIONS if us and us % unit == 0), (1000, "ms"))
    return _counted(us // unit if us % unit == 0 else us / unit, name)


def format_age(us: int) -> str:
    """Return an approximate age: "12 s", "3 min", "5 hours", "2 days".

    >>> format_age(200_000_000)
    '3 min'
    """
    unit, name = next(((unit, name) for unit, name in _DURATIONS if us >= unit), (1000, "ms"))
    return _counted(us // unit, name)


def _counted(count: float, name: str) -> str:
    return f"{count} {name[:-1] if count == 1 and name in ('hours', 'days') else name}"


def group_digits(number: float) -> str:
    """Return a whole number with its digits grouped by three, such as `4 212`.

    >>> group_digits(1_234_567)
    '1 234 567'
    """
    return f"{number:,.0f}".replace(",", " ")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 update` or `4 212 updates`.

    >>> counted(1, "update"), counted(4212, "update")
    ('1 update', '4 212 updates')
    """
    return f"{group_digits(number)} {noun}" + ("" if number == 1 else "s")


def number_text(number: float) -> str:
    """Return a number for a legend: all digits of a whole number, four digits of others.

    >>> number_text(12_345), number_text(2.71828)
    ('12 345', '2.718')
    """
    return group_digits(number) if isinstance(number, int) else f"{number:.4g}"
