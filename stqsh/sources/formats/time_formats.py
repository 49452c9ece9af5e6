"""Read times that are not ISO 8601, according to the FORMAT options of a source."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.errors import OptionError
from stqsh.sources.formats.pyarrow_typing import Array, pc
from stqsh.spec.stream import Options

#: The options that all text formats have.
TIME_OPTIONS = ("timestamp", "zone")
#: How many units of numeric times make a second, by the option `timestamp`.
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
#: The names of these units in messages.
UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_NAIVE = pa.timestamp("us")
_UTC = pa.timestamp("us", tz="UTC")
_SOME_TIME = 1 << 50
#: Fractions of seconds in a pattern, as Python writes them.
_FRACTION = ".%f"
_DAY_US = 86_400_000_000
#: Arrow reads a day that does not exist in a month as one of the first 3 days of the next month; an offset
#: may shift it by a day.
_DAYS_BEYOND, _SHORTEST_MONTH = 4, 28
#: The day of the month, replaced by the ISO week, which strptime parses and ignores.
_WITHOUT_DAY = {
    **dict.fromkeys(("%d", "%e", "%Od", "%Oe"), "%V"),
    **dict.fromkeys(("%D", "%x"), "%m/%V/%y"),
    "%F": "%Y-%m-%V",
    "%c": "%a %b %V %H:%M:%S %Y",
}


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """The format of the TIMESTAMP columns of a source.

    Attributes:
        pattern: a pattern of strptime such as `'%m/%d/%Y %I:%M:%S %p'`; empty for ISO 8601 and numbers.
            `.%f` matches an optional fraction of a second.
        zone: the time zone of times without one.
        per_second: how many units of numeric times make a second, 1 for seconds.
    """

    pattern: str = ""
    zone: str = "UTC"
    per_second: int = 1

    @staticmethod
    def of(options: Options) -> TimeFormat:
        """Read the options `timestamp` (a pattern, or 's', 'ms', 'us', 'ns' for numbers) and `zone`.

        Raises:
            SourceError: the pattern has no '%', or there is no such zone.
        """
        pattern, zone = options.get("timestamp", ""), options.get("zone", "UTC")
        if not isinstance(pattern, str) or (pattern and pattern not in UNITS and "%" not in pattern):
            hint = "for instance timestamp => '%m/%d/%Y %H:%M:%S', or 'ms' for numbers"
            raise OptionError(f"timestamp must be a pattern, not {pattern!r}", "timestamp", hint=hint)
        per_second = UNITS.get(pattern, 1)
        return TimeFormat("" if pattern in UNITS else pattern, _checked_zone(zone), per_second)

    @property
    def wording(self) -> str:
        """Return the expected form of a value, for reasons in dead letters."""
        if self.pattern:
            return f"not a time of the form {self.pattern}"
        unit = next(UNIT_NAMES[unit] for unit, per_second in UNITS.items() if per_second == self.per_second)
        return f"not a time (ISO 8601, or {unit} since the epoch)"

    def parse(self, text: Array) -> Array:
        """Parse text (n,) by the pattern into UTC; null where it does not match.

        A local time that occurs twice because clocks are set back means the earlier one; one that does not
        exist is moved to the time of the change.
        """
        if _FRACTION in self.pattern:
            return self._parse_fractions(text)
        found = pc.strptime(text, self.pattern, "us", error_is_null=True)
        overflown = self._overflown(text, found)
        if overflown.any():
            found = pc.if_else(pa.array(overflown), None, found)
        return self.in_utc(found)

    def _parse_fractions(self, text: Array) -> Array:
        """Parse text (n,) by a pattern with fractions of seconds, which Arrow cannot; truncate to µs."""
        whole = replace(self, pattern=self.pattern.replace(_FRACTION, ""))
        digits = pc.struct_field(pc.extract_regex(text, r":\d{2}[.,](?P<digits>\d{1,9})"), "digits")
        seconds = whole.parse(pc.replace_substring_regex(text, r"(:\d{2})[.,]\d{1,9}", r"\1"))
        micros = pc.utf8_slice_codeunits(pc.utf8_rpad(digits, 6, "0"), 0, 6).cast(pa.int64())
        found: Array = pc.add(seconds.cast(pa.int64()), pc.coalesce(micros, pa.scalar(0, pa.int64())))
        return found.cast(_UTC)

    def _overflown(self, text: Array, found: Array) -> NDArray[np.bool_]:
        """Mark days that do not exist in their month, such as the 30th of February, which Arrow accepts.

        The texts are parsed again without their days, as times on the first of the month, and compared.
        """
        day = pc.day(found)
        early = pc.or_(pc.less_equal(day, _DAYS_BEYOND), pc.greater_equal(day, _SHORTEST_MONTH))
        doubtful = pc.fill_null(pc.and_(early, pc.match_substring_regex(text, "29|30|31")), False)
        out = np.array(doubtful.to_numpy(zero_copy_only=False), np.bool_)
        rows = np.flatnonzero(out)
        if len(rows):
            firsts = pc.strptime(text.take(rows), _without_day(self.pattern), "us", error_is_null=True)
            out[rows] = _are_beyond_months(found.take(rows), firsts)
        return out

    def in_utc(self, naive: Array) -> Array:
        """Convert times (n,) to UTC; those without a zone are in the source's zone."""
        if naive.type.tz is None and self.zone != "UTC":
            naive = pc.assume_timezone(naive, self.zone, ambiguous="earliest", nonexistent="latest")
        return naive.cast(_UTC)


def _without_day(pattern: str) -> str:
    """Return a pattern that parses the day of the month and ignores it.

    >>> _without_day("%D %H%%d")
    '%m/%V/%y %H%%d'
    """
    return re.sub("%[EO]?.", lambda found: _WITHOUT_DAY.get(found[0], found[0]), pattern)


def _are_beyond_months(times: Array, firsts: Array) -> NDArray[np.bool_]:
    """Return which times (n,) have a day that does not exist, given the same times on the first of the month.

    Both may be shifted by the same zone, so the month is taken 14 days after `firsts`.
    """
    begins = pc.fill_null(firsts.cast(pa.int64()), 0).to_numpy()
    days = (times.cast(pa.int64()).to_numpy() - begins) // _DAY_US
    months = (begins + 14 * _DAY_US).view("datetime64[us]").astype("datetime64[M]")
    lengths = (months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")
    is_known = firsts.is_valid().to_numpy(zero_copy_only=False)
    return np.asarray(is_known & (days >= lengths.astype(np.int64)), np.bool_)


def _checked_zone(zone: Any) -> str:
    try:
        pc.assume_timezone(pa.array([_SOME_TIME], pa.int64()).cast(_NAIVE), zone)
    except (pa.ArrowInvalid, TypeError):
        hint = "for instance zone => 'America/New_York'"
        raise OptionError(f"there is no time zone {zone!r}", "zone", hint=hint) from None
    return str(zone)
