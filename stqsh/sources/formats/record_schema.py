"""The description of a source's records: columns, roles and ticks."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from stqsh.errors import OptionError, SourceError
from stqsh.sources.formats.time_formats import TimeFormat
from stqsh.spec.chunk import columns_schema
from stqsh.spec.expression import LiteralExpr
from stqsh.spec.query_stream import DROP_COLUMN
from stqsh.spec.stream import ColumnSpec, DerivedColumn, Options, StreamSpec, TableSpec


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """The part of a StreamSpec or TableSpec that parsing needs; picklable for workers.

    Attributes:
        columns: (name, type) as declared.
        key, x, y, time: names of columns; a table has only a key and empty other roles; rows of a one-time
            query have none of the four.
        order: "time" or "arrival".
        event: whether records are never replaced, and kept for `keep_us` (None: for ever).
        keep_bytes: the most bytes of events that are kept; None for any number.
        times: the format of TIMESTAMP columns.
        places: the location columns of rows that may be anywhere, or have no place.
        numbers_rows: whether the key is the row's number, which is not a column of the files.
        derived: the columns that are computed from others, in the order of their computation.
        extent: the column of the extents of objects; None if they are points.
    """

    columns: tuple[ColumnSpec, ...]
    key: str
    x: str = ""
    y: str = ""
    time: str = ""
    geodetic: bool = True
    tick_us: int = 1_000_000
    order: str = "time"
    event: bool = False
    keep_us: int | None = None
    keep_bytes: int | None = None
    times: TimeFormat = field(default_factory=TimeFormat)
    numbers_rows: bool = False
    places: tuple[str, str] | None = None
    derived: tuple[DerivedColumn, ...] = ()
    extent: str | None = None

    @staticmethod
    def of(spec: StreamSpec) -> RecordSchema:
        """Return the schema of a stream. Raises `SourceError` for invalid time options."""
        return RecordSchema(
            spec.columns,
            *spec.roles,
            not spec.planar,
            spec.tick_us,
            spec.order,
            spec.is_event,
            spec.keep_us,
            spec.keep_bytes,
            TimeFormat.of(spec.source.options),
            spec.numbers_rows,
            derived=spec.derived,
            extent=spec.extent,
        )

    @property
    def in_files(self) -> RecordSchema:
        """Return the schema of the source's content: without the row's number and derived columns."""
        if not self.numbers_rows and not self.derived:
            return self
        others = {column.name for column in self.derived} | ({self.key} if self.numbers_rows else set())
        columns = tuple(column for column in self.columns if column.name not in others)
        time = "" if self.time in others else self.time
        key = "" if self.key in others else self.key
        x, y = ("", "") if {self.x, self.y} & others else (self.x, self.y)
        key = time if self.numbers_rows else key
        extent = None if self.extent in others else self.extent
        return replace(self, columns=columns, key=key, x=x, y=y, time=time, derived=(), extent=extent)

    @property
    def without_drops(self) -> RecordSchema:
        """Return the schema of a query stream's rows from a source that has no column to drop queries."""
        never = DerivedColumn(DROP_COLUMN, LiteralExpr(None, "BOOLEAN"), "NULL")
        return replace(self, derived=(*self.derived, never))

    @property
    def may_lack_drops(self) -> bool:
        """Whether these are rows of a query stream, whose source may lack the column to drop queries."""
        return DROP_COLUMN in self.in_files.names and not self.located

    @property
    def planar(self) -> bool:
        """Return whether places are plane coordinates."""
        return not self.geodetic

    @staticmethod
    def of_table(spec: TableSpec) -> RecordSchema:
        """Return the schema of a table. Raises `SourceError` for invalid time options."""
        times = TimeFormat.of(spec.source.options)
        return RecordSchema(spec.columns, spec.key, times=times, derived=spec.derived)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the declared names in order."""
        return tuple(name for name, _ in self.columns)

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the declared columns."""
        return columns_schema(self.columns)

    @property
    def located(self) -> bool:
        """Return whether records have places; those of streams have."""
        return bool(self.x)

    def position(self, name: str) -> int:
        """Return the index of a declared column."""
        return self.names.index(name)


def near(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with names similar to `name`, None if there are none."""
    by_lower = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(by_lower[lower] for lower in found)}?" if found else None


def match_names(wanted: Iterable[str], present: list[str], origin: str) -> list[int]:
    """Return the index of each wanted name among those present, preferring exact case.

    Raises:
        SourceError: a name is missing; the message contains the origin and similar names.
    """
    wanted = list(wanted)
    places = {name: place for place, name in reversed(list(enumerate(present)))}
    lower = {name.lower(): place for name, place in reversed(places.items())}
    found = [places.get(name, lower.get(name.lower(), -1)) for name in wanted]
    for name, place in zip(wanted, found, strict=True):
        if place < 0:
            hint = near(name, present) or f"its columns are {', '.join(present[:20])}"
            raise SourceError(f"no column {name} in {origin}", hint=hint)
    return found


def check_options(options: Options, known: Iterable[str], what: str) -> None:
    """Check that all options are known.

    Raises:
        OptionError: an option is unknown; the message contains similar names.
    """
    known = list(known)
    for name in options:
        if name not in known:
            hint = near(name, known) or f"there are {', '.join(known)}"
            raise OptionError(f"{what} has no option {name}", name, is_unknown=True, hint=hint)
