"""Instants and durations as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = (
    (86_400_000_000, "days"),
    (3_600_000_000, "hours"),
    (60_000_000, "min"),
    (1_000_000, "s"),
    (1000, "ms"),
)


def iso(at_us: int | None) -> str | None:
    """An instant in ISO 8601, UTC with `Z`, with fractions of a second only where there are any."""
    if at_us is None:
        return None
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat().replace("+00:00", "Z")


def duration(us: int | None) -> str | None:
    """A duration in the largest unit that gives a whole number ("30 s", "72 hours"), as STQL writes it."""
    if us is None:
        return None
    unit, name = next(((unit, name) for unit, name in _UNITS if us and us % unit == 0), (1000, "ms"))
    return f"{us // unit if us % unit == 0 else us / unit} {name}"


def age(us: int) -> str:
    """How long ago something was, roughly: "12 s", "3 min", "5 hours", "2 days"."""
    unit, name = next(((unit, name) for unit, name in _UNITS if us >= unit), (1000, "ms"))
    return f"{us // unit} {name}"
