"""The columns of a stream or table, and their roles: key, location and time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from stqsh.errors import StqshError
from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.statements import ColumnDefinition, CreateStream, FileSource
from stqsh.lang.errors import BindError, near, or_list
from stqsh.lang.types import KEY_TYPES, NUMBERS, a_type
from stqsh.spec.stream import MOST_COLUMNS

Columns = Sequence[Sequence[str]]
"""The name and type of each column."""

USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "key": (
        "oid", "id", "key", "object_id", "vehicle_id", "taxi_id", "icao24", "mmsi", "device_id", "uid",
        "user_id", "track_id", "tripid", "trip_id", "individual_local_identifier", "tag_local_identifier",
        "objectid", "vehicleid", "deviceid", "eventid", "caseid", "imei", "uuid", "guid", "callsign",
        "track", "object", "vehicle", "taxi", "bus", "train", "ship", "vessel", "boat", "device", "animal",
        "individual", "schiff", "fahrzeug", "kennung", "plate", "medallion", "nr", "nummer", "name",
    ),
    "x": (
        "lon", "lng", "long", "longitude", "x", "laenge", "l\u00e4nge", "laengengrad", "l\u00e4ngengrad",
        "longitud", "lon_deg", "longitude_deg", "decimallongitude", "point_x", "coord_x", "xcoord",
    ),
    "y": (
        "lat", "latitude", "y", "breite", "breitengrad", "latitud", "lat_deg", "latitude_deg",
        "decimallatitude", "point_y", "coord_y", "ycoord",
    ),
    "time": (
        "ts", "time", "timestamp", "datetime", "date_time", "t", "when", "event_time", "unix", "epoch",
        "unixtime", "unix_time", "epoch_ms", "timestamp_ms", "zeit", "zeitpunkt", "zeitstempel", "utc",
        "base_date_time", "fecha_hora", "horodatage", "datum_zeit", "date", "datum", "fecha",
    ),
}  # fmt: skip
"""Usual names of each role's column, the most specific first."""

_USUAL_ENDS: Mapping[str, tuple[str, ...]] = {
    "key": ("id", "key", "uuid", "identifier"),
    "x": ("lon", "lng", "long", "longitude", "x"),
    "y": ("lat", "latitude", "y"),
    "time": (
        "timestamp", "datetime", "date_time", "ts", "unix", "epoch", "utc", "time", "zeit", "dt", "at",
        "date", "datum",
    ),
}  # fmt: skip
"""Usual last words of such names, as in `ais_pos_timestamp`, the most specific first."""
_OF_NUMBERS = ("timestamp", "ts", "unix", "epoch")
"""Last words for which a numeric column contains times; `travel_time`, for example, does not."""

_FITTING: Mapping[str, frozenset[str]] = {
    "key": KEY_TYPES,
    "x": NUMBERS,
    "y": NUMBERS,
    "time": NUMBERS | {"TIMESTAMP"},
}
_CLAUSES = {"key": "KEY column", "x": "LOCATION (x, y)", "y": "LOCATION (x, y)", "time": "TIME column"}
_WORDS = {"key": "key", "x": "location", "y": "location", "time": "time"}
_SEPARATORS = {";": ";", "\t": "\\t", "|": "|"}
"""Other separators between a file's columns, in the notation of the option."""


class ColumnRoles(NamedTuple):
    """The column of each role, the roles that were guessed, and whether the key is the row's number."""

    key: str
    x: str
    y: str
    time: str
    guessed: tuple[str, ...]
    numbers_rows: bool = False


def listed_columns(
    name: Name, columns: tuple[ColumnDefinition, ...], inferred: Columns | None
) -> list[tuple[str, str]]:
    """Return name and type of each column, in order.

    If no columns of the source are listed, these are the `inferred` ones, and derived ones follow.

    Raises:
        BindError: two columns have the same name, or there are too many.
        StqshError: no columns are known.
    """
    is_listed = any(column.value is None for column in columns)
    if not is_listed and inferred is None:
        raise StqshError(f"the columns of {name.text} are not known", hint="list them after its name")
    listed = [] if is_listed else [(found, kind) for found, kind in inferred or ()]
    seen = {found for found, _ in listed}
    for column in columns:
        if column.name in seen:
            hint = None if is_listed else "the source has one of that name; choose another"
            raise BindError(f"two columns are called {column.name!r}", column.span, hint=hint)
        seen.add(column.name)
    listed += [(column.name, column.type) for column in columns]
    if len(listed) > MOST_COLUMNS:
        raise BindError(
            f"{name.text} has {len(listed):,} columns, and a stream or table has {MOST_COLUMNS:,} at most",
            name.span,
            hint="list those that are needed after its name",
        )
    return listed


def with_corner(
    stream: CreateStream, extent: Name, columns: list[tuple[str, str]]
) -> tuple[CreateStream, list[tuple[str, str]]]:
    """Return a statement and its columns with a location: the first corner of each object's extent.

    Two columns for it follow the column of extents.

    Raises:
        BindError: there is no such column, or it is no text, or the statement has another LOCATION.
    """
    if stream.location is not None:
        raise BindError("LOCATION is given twice", stream.location[0].span)
    name = _existing(extent, columns)
    at, kind = next((at, kind) for at, (column, kind) in enumerate(columns, start=1) if column == name)
    if kind != "STRING":
        hint = "LOCATION (x, y) takes two columns of numbers"
        raise BindError(
            f"{name} is {a_type(kind)}, and has no extents", extent.span, expected=("STRING",), hint=hint
        )
    taken = {column.lower() for column, _ in columns}
    pairs = (
        (("x", "y"), ("corner_x", "corner_y"))
        if stream.geometry == "PLANAR"
        else (("lon", "lat"), ("corner_lon", "corner_lat"))
    )
    axes = next((pair for pair in pairs if not taken & set(pair)), None)
    if axes is None:
        raise BindError(
            f"the columns {' and '.join(pairs[-1])} hold the first corner; rename yours", extent.span
        )
    corner = [(axis, "DOUBLE") for axis in axes]
    x, y = (Name(axis, span=extent.span) for axis in axes)
    return replace(stream, location=(x, y)), [*columns[:at], *corner, *columns[at:]]


def guess_roles(columns: Columns) -> dict[str, str | None]:
    """Return the column of each role ("key", "x", "y", "time"), by name and type; None without a match."""
    return {role: _guess(role, columns) for role in USUAL_NAMES}


def find_roles(stream: CreateStream, columns: Columns, *, numbers_rows: bool = False) -> ColumnRoles:
    """Return the roles given by the statement, and guess the missing ones.

    Events of files whose key is neither given nor guessed get the number of their row as key, in an
    additional column; with `numbers_rows`, even if the key could be guessed.

    Raises:
        BindError: a column does not exist, a column has two roles, or no column name suits a role.
    """
    x, y = stream.location or (None, None)
    said = {"key": stream.key, "x": x, "y": y, "time": stream.time}
    named = {name.text for name in said.values() if name is not None}
    guesses = guess_roles([column for column in columns if column[0] not in named])
    is_numbered = _may_number(stream) and (numbers_rows or guesses["key"] is None)
    if is_numbered:
        guesses["key"] = _row_column([column for column, _ in columns])
    missing = [role for role, name in said.items() if name is None and guesses[role] is None]
    if missing:
        raise _missing(stream, missing, columns)
    found: dict[str, str] = {}
    for role, name in said.items():
        column = _existing(name, columns) if name is not None else guesses[role]
        assert column is not None, "missing ones are reported above"
        if column in found.values():
            raise BindError(f"{column} cannot be two of KEY, LOCATION and TIME", (name or stream.name).span)
        found[role] = column
    guessed = tuple(role for role, name in said.items() if name is None)
    return ColumnRoles(**found, guessed=guessed, numbers_rows=is_numbered)


def _may_number(stream: CreateStream) -> bool:
    return stream.kind == "event" and stream.key is None and isinstance(stream.source, FileSource)


def _row_column(names: Sequence[str]) -> str:
    """Return an unused name for the column with the number of the row.

    >>> _row_column(["lon", "lat"]), _row_column(["Row"])
    ('row', 'row_number')
    """
    lower = {name.lower() for name in names}
    free = (f"row_number{'_' * count}" for count in range(len(names) + 1))
    return next(name for name in ("row", *free) if name not in lower)


def _missing(stream: CreateStream, roles: Sequence[str], columns: Columns) -> BindError:
    """Return an error that lists which of key, location and time have no column."""
    words = tuple(dict.fromkeys(_WORDS[role] for role in roles))
    clauses = tuple(dict.fromkeys(_CLAUSES[role] for role in roles))
    # The types show why a column with a suitable name was not chosen, such as texts named as longitudes.
    hint = _columns_hint([name if len(columns) == 1 else f"{name} {kind}" for name, kind in columns])
    likely = _by_types(columns)
    if likely and all(name == f"c{place}" for place, (name, _) in enumerate(columns, start=1)):
        hint = f"the file has no header; perhaps type {likely}; {hint}"
    if list(roles) == ["key"] and isinstance(stream.source, FileSource):
        hint = f"without one type CREATE EVENT STREAM, whose key is then the number of the row; {hint}"
    return BindError(
        f"{stream.name.text} has no column that looks like its {or_list(words)}",
        stream.name.span,
        expected=(" ".join(clauses),),
        hint=hint,
    )


def _by_types(columns: Columns) -> str:
    """Return the clauses suggested by the types of unnamed columns, "" if the types suggest none.

    >>> _by_types([("c1", "BIGINT"), ("c2", "TIMESTAMP"), ("c3", "DOUBLE"), ("c4", "DOUBLE")])
    'KEY c1 LOCATION (c3, c4) TIME c2'
    """
    time = next((name for name, kind in columns if kind == "TIMESTAMP"), "")
    places = [name for name, kind in columns if kind == "DOUBLE"][:2]
    key = next((name for name, kind in columns if kind in KEY_TYPES), "")
    return f"KEY {key} LOCATION ({', '.join(places)}) TIME {time}" if time and places[1:] and key else ""


def _guess(role: str, columns: Columns) -> str | None:
    fitting = [name for name, kind in columns if kind in _FITTING[role] and _may_be(role, name, kind)]
    return next(iter(usual_names(role, fitting)), None)


def _may_be(role: str, name: str, kind: str) -> bool:
    words = _words(name)
    is_plain = role != "time" or kind not in NUMBERS or words in USUAL_NAMES["time"]
    return is_plain or words.rpartition("_")[2] in _OF_NUMBERS


def usual_names(role: str, names: Sequence[str]) -> list[str]:
    """Return the names that are typical of a role ("key", "x", "y", "time"), the most typical first.

    >>> usual_names("time", ["tz", "CLOSED_DT", "ais_pos_timestamp", "Date"])
    ['Date', 'ais_pos_timestamp', 'CLOSED_DT']
    >>> usual_names("key", ["routeId", "valid", "CASE_ENQUIRY_ID", "vehicle_id"])
    ['vehicle_id', 'routeId', 'CASE_ENQUIRY_ID']
    """
    usual, ends = USUAL_NAMES[role], _USUAL_ENDS[role]
    ranks: dict[str, int] = {}
    for name in names:
        words = _words(name)
        if words in usual:
            ranks[name] = usual.index(words)
        elif words.replace("_", "") in usual:
            ranks[name] = usual.index(words.replace("_", ""))
        elif (end := next((end for end in ends if words.endswith(f"_{end}")), None)) is not None:
            ranks[name] = len(usual) + ends.index(end)
    return sorted(ranks, key=ranks.__getitem__)


def _words(name: str) -> str:
    """Return the words of a name in lower case, joined by `_`.

    >>> _words("vehicleId"), _words("OPEN_DT"), _words("# Timestamp"), _words("location-long"), _words("ID")
    ('vehicle_id', 'open_dt', 'timestamp', 'location_long', 'id')
    """
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[\W_]+", "_", apart).strip("_").lower()


def _columns_hint(names: Sequence[str]) -> str:
    """Return a hint: the existing columns, or that a file's single column seems to consist of several."""
    found = next((one for one in _SEPARATORS if len(names) == 1 and one in names[0]), None)
    if found is None:
        return f"the columns are {', '.join(names)}"
    return f"the one column is {names[0]!r}; add FORMAT CSV (separator => '{_SEPARATORS[found]}')"


def _existing(name: Name, columns: Columns) -> str:
    names = [column for column, _ in columns]
    if name.text not in names:
        raise BindError(
            f"there is no column {name.text!r}",
            name.span,
            near=near(name.text, names),
            hint=f"the columns are {', '.join(names)}",
        )
    return name.text
