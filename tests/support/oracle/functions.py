"""Functions, CAST and CASE over plain values; None is NULL."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FITS = range(-(2**63), 2**63)


def call(name: str, values: list[Any]) -> Any:
    """The value of a function."""
    given = [value for value in values if value is not None]
    match name:
        case "COALESCE":
            return given[0] if given else None
        case "LEAST":
            return min(given, default=None)
        case "GREATEST":
            return max(given, default=None)
        case "CONCAT":
            return "".join(given)
        case "NULLIF":
            return None if None not in values and values[0] == values[1] else values[0]
    return None if len(given) < len(values) else _STRICT[name](*values)


def cast(value: Any, source: str, wanted: str) -> Any:
    """A value in another type; None where it has none."""
    if value is None:
        return None
    if wanted == "STRING":
        return text(value, source)
    if source == "STRING":
        return _of_text(value.strip(), wanted)
    if wanted == "BOOLEAN":
        return value != 0
    number = round(value) if wanted in ("BIGINT", "INT") else float(value)
    return number if wanted != "INT" or -(2**31) <= number < 2**31 else None


def text(value: Any, kind: str) -> str:
    """A value as text."""
    if kind == "TIMESTAMP":
        shown = moment(value).isoformat().removesuffix("+00:00")
        return (shown.rstrip("0") if "." in shown else shown) + "Z"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def moment(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)


def _of_text(value: str, wanted: str) -> Any:
    if wanted == "BOOLEAN":
        words = {"true": True, "t": True, "yes": True, "1": True, "on": True, "y": True}
        return words.get(value.lower(), {"0": False, "no": False, "f": False, "n": False}.get(value.lower()))
    if not value.isascii():
        return None
    try:
        number = int(value) if wanted in ("BIGINT", "INT") else float(value)
    except ValueError:
        return None
    if wanted == "INT" and not -(2**31) <= number < 2**31:
        return None
    return None if isinstance(number, int) and number not in _FITS else number


def _rounded(value: Any, digits: int = 0) -> Any:
    exact = Decimal(value if isinstance(value, int) else repr(value))
    found = exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return int(found) if isinstance(value, int) else float(found)


def _part(values: str, begin: int, count: int) -> str | None:
    end = begin + count
    return None if count < 0 else "".join(c for i, c in enumerate(values, 1) if begin <= i < end)


def _each(change: Callable[[str], str]) -> Callable[[str], str]:
    """Change characters one by one, each to one."""
    return lambda whole: "".join("ẞ" if change(c) == "SS" else change(c) for c in whole)


def _truncated(unit: str, us: int) -> int:
    when = moment(us)
    begins = {
        "minute": when.replace(second=0, microsecond=0),
        "hour": when.replace(minute=0, second=0, microsecond=0),
    }
    day = when.replace(hour=0, minute=0, second=0, microsecond=0)
    begins |= {
        "day": day,
        "week": day - timedelta(days=day.weekday()),
        "month": day.replace(day=1),
        "year": day.replace(day=1, month=1),
    }
    return (begins[unit] - _EPOCH) // timedelta(microseconds=1)


_STRICT: dict[str, Callable[..., Any]] = {
    "ABS": abs,
    "CEIL": lambda x: x if isinstance(x, int) else float(math.ceil(x)),
    "FLOOR": lambda x: x if isinstance(x, int) else float(math.floor(x)),
    "TRUNC": lambda x: x if isinstance(x, int) else float(int(x)),
    "SIGN": lambda x: type(x)((x > 0) - (x < 0)),
    "SQRT": lambda x: None if x < 0 else math.sqrt(x),
    "ROUND": _rounded,
    "LENGTH": len,
    "UPPER": _each(str.upper),
    "LOWER": _each(str.lower),
    "REVERSE": lambda s: s[::-1],
    "TRIM": lambda s, characters=" ": s.strip(characters) if characters else s,
    "SUBSTRING": _part,
    "LEFT": lambda s, n: s[:n],
    "RIGHT": lambda s, n: s[max(len(s) - n, 0) :] if n > 0 else s[-n:] if n else "",
    "REPLACE": lambda s, old, new: s.replace(old, new) if old else s,
    "STRPOS": lambda s, part: s.find(part) + 1,
    "STARTS_WITH": lambda s, part: s.startswith(part),
    "DATE": lambda us: moment(us).date().isoformat(),
    "DATE_TRUNC": _truncated,
    "TIME_BUCKET": lambda width, us: us // width * width,
    "EPOCH": lambda us: us / 1_000_000,
    "YEAR": lambda us: moment(us).year,
    "QUARTER": lambda us: (moment(us).month + 2) // 3,
    "MONTH": lambda us: moment(us).month,
    "WEEK": lambda us: moment(us).isocalendar().week,
    "DAY": lambda us: moment(us).day,
    "DOY": lambda us: moment(us).timetuple().tm_yday,
    "DOW": lambda us: moment(us).isoweekday() % 7,
    "ISODOW": lambda us: moment(us).isoweekday(),
    "HOUR": lambda us: moment(us).hour,
    "MINUTE": lambda us: moment(us).minute,
    "SECOND": lambda us: moment(us).second,
}
