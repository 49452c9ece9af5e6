"""Bind CREATE STREAM to a StreamSpec."""

from __future__ import annotations

from msgspec.structs import replace

from stqsh.lang.ast.expressions import Literal, Quantity
from stqsh.lang.ast.statements import CreateStream, DataSource, FileSource, GeneratorSource, Kept, Options
from stqsh.lang.binder.definitions.column_roles import (
    ColumnRoles,
    Columns,
    find_roles,
    listed_columns,
    with_corner,
)
from stqsh.lang.binder.definitions.derived_columns import derived_columns
from stqsh.lang.binder.definitions.live_sources import LIVE_SOURCES, check_live, live_spec
from stqsh.lang.binder.literals import duration_us
from stqsh.lang.binder.names import check_free
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError
from stqsh.lang.printer.values import column_name
from stqsh.lang.types import KEY_TYPES, NUMBERS, a_type
from stqsh.spec.stream import (
    DEFAULT_TICK_US,
    LIVE_TICK_US,
    MOST_CELLS,
    OWN_COLUMNS,
    Bounds,
    ColumnSpec,
    FileSourceSpec,
    GeneratorSourceSpec,
    OptionValue,
    SourceSpec,
    StreamSpec,
)
from stqsh.units import EXAMPLES, UNITS, metres, metres_per_second, microseconds, size_in_bytes

_POLE = 90.0


def create_stream(
    stream: CreateStream, catalogue: CatalogueView, inferred: Columns | None, *, numbers_rows: bool = False
) -> tuple[StreamSpec, tuple[str, ...]]:
    """Return the spec, without its id, and notes for the user about guesses.

    `inferred` are the columns found in the source, if the statement lists none. With `numbers_rows`, the key
    is not guessed if it may be the number of the row. Raises `BindError` and `NotSupportedError`.
    """
    if stream.archive is not None and stream.kind != "event":
        raise BindError("ARCHIVE TO is for EVENT streams: what KEEP lets go", stream.archive.span)
    if stream.archive is not None and not isinstance(stream.keep, Kept):
        raise BindError(
            "ARCHIVE TO needs KEEP with a duration or a size, beyond which events go to the archive",
            stream.archive.span,
        )
    _check_retention(stream)
    check_free(stream.name, catalogue)
    check_live(stream)
    _check_kind(stream)
    columns = listed_columns(stream.name, stream.columns, inferred)
    _check_names(stream, columns)
    if stream.extent is not None:
        stream, columns = with_corner(stream, stream.extent, columns)
    roles = find_roles(stream, columns, numbers_rows=numbers_rows)
    if roles.numbers_rows:
        columns = [(roles.key, "BIGINT"), *columns]
    columns = _with_types_of_roles(stream, columns, roles)
    _check_types(stream, dict(columns), roles)
    spec = _spec(stream, columns, roles)
    spec = replace(spec, derived=derived_columns(stream, spec, catalogue))
    return spec, _notes(stream, columns, roles)


def _check_names(stream: CreateStream, columns: list[tuple[str, str]]) -> None:
    """Raise `BindError` if a column has the name of one of the engine's own columns."""
    for name, _ in columns:
        if name in OWN_COLUMNS:
            raise BindError(
                f"no column can be called {name}: the engine uses that name itself", stream.name.span
            )


def _spec(stream: CreateStream, columns: list[tuple[str, str]], roles: ColumnRoles) -> StreamSpec:
    return StreamSpec(
        name=stream.name.text,
        kind=stream.kind,
        columns=tuple(ColumnSpec(name, kind) for name, kind in columns),
        key=roles.key,
        x=roles.x,
        y=roles.y,
        time=roles.time,
        extent=None if stream.extent is None else stream.extent.text,
        text=_text_column(stream, dict(columns)),
        planar=stream.geometry == "PLANAR",
        tick_us=_tick_us(stream),
        report_every_us=_optional_us(stream.report_every, "REPORT EVERY"),
        max_speed=_speed(stream.max_speed),
        bounds=_bounds(stream),
        grid=_grid(stream),
        order="arrival" if stream.order_by == "ARRIVAL" else "time",
        retain="significant" if stream.retain and stream.retain.text == "SIGNIFICANT" else "all",
        keep_us=_keep_us(stream),
        keep_bytes=_keep_bytes(stream),
        archive=None if stream.archive is None else str(stream.archive.value),
        pace=stream.pace.lower() if isinstance(stream.pace, str) else stream.pace,
        numbers_rows=roles.numbers_rows,
        source=source_spec(stream.source),
    )


def _tick_us(stream: CreateStream) -> int:
    if stream.tick is not None:
        return duration_us(stream.tick, "TICK")
    return LIVE_TICK_US if isinstance(stream.source, LIVE_SOURCES) else DEFAULT_TICK_US


def _grid(stream: CreateStream) -> int | None:
    """Return the number of cells in GRID; raise `BindError` for a number that no grid has."""
    if stream.grid is None:
        return None
    side = stream.grid.value
    if not isinstance(side, int) or not 1 <= side <= MOST_CELLS:
        raise BindError(f"GRID takes 1 to {MOST_CELLS} cells in each direction", stream.grid.span)
    return side


def _check_kind(stream: CreateStream) -> None:
    """Raise `BindError` if an event stream has clauses about moving objects."""
    moving = {"REPORT EVERY": stream.report_every, "MAX SPEED": stream.max_speed}
    given = next(((clause, value) for clause, value in moving.items() if value is not None), None)
    if stream.kind == "event" and given is not None:
        clause, value = given
        raise BindError(f"{clause} is for MOVING streams: events do not report again", value.span)


def _check_retention(stream: CreateStream) -> None:
    """Raise `BindError` if RETAIN SIGNIFICANT is used for events, or without the limits that it needs."""
    if stream.retain is None or stream.retain.text != "SIGNIFICANT":
        return
    if stream.kind == "event":
        raise BindError(
            "RETAIN SIGNIFICANT is for MOVING streams: KEEP says how long events stay", stream.retain.span
        )
    bounding = {"REPORT EVERY": stream.report_every, "MAX SPEED": stream.max_speed}
    missing = [clause for clause, value in bounding.items() if value is None]
    if missing:
        raise BindError(
            f"RETAIN SIGNIFICANT needs {' and '.join(missing)}",
            stream.retain.span,
            hint="these say how far an object gets between two reports: REPORT EVERY 30 s MAX SPEED 60 km/h",
        )


def _with_types_of_roles(
    stream: CreateStream, columns: list[tuple[str, str]], roles: ColumnRoles
) -> list[tuple[str, str]]:
    """Return the columns with types that suit their roles.

    Inferred integers may become coordinates, and inferred numbers seconds since the epoch.
    """
    if stream.listed:
        return columns
    derived = {column.name for column in stream.derived}
    wanted = {roles.x: "DOUBLE", roles.y: "DOUBLE", roles.time: "TIMESTAMP"}
    wanted = {name: kind for name, kind in wanted.items() if name not in derived}
    return [(name, wanted.get(name, kind) if kind in NUMBERS else kind) for name, kind in columns]


def _check_types(stream: CreateStream, types: dict[str, str], roles: ColumnRoles) -> None:
    wanted = {
        roles.key: ("KEY", KEY_TYPES),
        roles.x: ("LOCATION", frozenset({"DOUBLE"})),
        roles.y: ("LOCATION", frozenset({"DOUBLE"})),
        roles.time: ("TIME", frozenset({"TIMESTAMP"})),
    }
    for name, (role, fitting) in wanted.items():
        if types[name] not in fitting:
            column = next((c for c in stream.columns if c.name == name), stream.name)
            expected = tuple(sorted(fitting))
            raise BindError(
                f"{name} is {a_type(types[name])}, and cannot be {role}", column.span, expected=expected
            )


def _notes(stream: CreateStream, columns: list[tuple[str, str]], roles: ColumnRoles) -> tuple[str, ...]:
    notes = []
    if not stream.listed:
        made = {column.name for column in stream.derived}
        made |= {roles.x, roles.y} if stream.extent is not None else set()
        made |= {roles.key} if roles.numbers_rows else set()
        found = [f"{column_name(name)} {kind}" for name, kind in columns if name not in made]
        notes.append("columns found: " + ", ".join(found))
    guessed = [role for role in roles.guessed if not (role == "key" and roles.numbers_rows)]
    if guessed:
        texts = {
            "key": f"KEY {roles.key}",
            "x": f"LOCATION ({roles.x}, {roles.y})",
            "time": f"TIME {roles.time}",
        }
        notes.append("guessed: " + "  ".join(texts[role] for role in guessed if role in texts))
    if roles.numbers_rows:
        notes.append(f"KEY {roles.key}: the number of the row, as no column is the key of an event")
    return tuple(notes)


def _text_column(stream: CreateStream, types: dict[str, str]) -> str | None:
    name = stream.text_column
    if name is not None and types.get(name.text) != "STRING":
        raise BindError(f"TEXT takes a STRING column, and {name.text!r} is none", name.span)
    return None if name is None else name.text


def _bounds(stream: CreateStream) -> Bounds | None:
    if stream.bounds is None:
        return None
    x1, y1, x2, y2 = stream.bounds
    if x1 == x2 or y1 == y2:
        raise BindError("BOUNDS enclose no area", stream.name.span)
    if stream.geometry != "PLANAR" and max(abs(y1), abs(y2)) > _POLE:
        raise BindError(
            "BOUNDS reach beyond latitude 90", stream.name.span, hint="they are (lon1, lat1, lon2, lat2)"
        )
    return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


def _optional_us(value: Quantity | None, what: str) -> int | None:
    return None if value is None else duration_us(value, what)


def _keep_us(stream: CreateStream) -> int | None:
    if stream.keep is not None and stream.kind != "event":
        raise BindError(
            "KEEP is for EVENT streams: of a moving object the last record is kept",
            stream.keep.span if isinstance(stream.keep, Kept) else stream.name.span,
            hint="REPORT EVERY says after what silence an object leaves",
        )
    if stream.keep == "NONE":
        return 0
    return _optional_us(stream.keep.time, "KEEP") if isinstance(stream.keep, Kept) else None


def _keep_bytes(stream: CreateStream) -> int | None:
    size = stream.keep.size if isinstance(stream.keep, Kept) else None
    if size is None:
        return None
    given = size_in_bytes(size.number, size.unit)
    if given < 1:
        raise BindError("KEEP must be at least a byte", size.span)
    return given


def _speed(value: Quantity | Literal | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, Quantity):
        speed = metres_per_second(value.number, value.unit)
    else:
        speed = float(value.value or 0)
    if speed <= 0:
        raise BindError(f"MAX SPEED must be more than 0, such as {EXAMPLES['speed']}", value.span)
    return speed


def source_spec(source: DataSource) -> SourceSpec:
    """Return the source of a StreamSpec."""
    if isinstance(source, FileSource):
        return FileSourceSpec(source.glob, source.format, _options(source.options))
    if isinstance(source, GeneratorSource):
        return GeneratorSourceSpec(source.name, _options(source.options))
    live = live_spec(source, _options(source.options))
    assert live is not None, "every source is of one of these kinds"
    return live


def _options(options: Options) -> dict[str, OptionValue]:
    """Return options as JSON values: durations in µs, lengths in metres, speeds in metres per second."""
    return {name: _option(value) for name, value in options}


def _option(value: Literal | Quantity) -> OptionValue:
    if isinstance(value, Literal):
        return value.value
    convert = {"duration": microseconds, "length": metres, "speed": metres_per_second}
    return convert[UNITS[value.unit].dimension](value.number, value.unit)
