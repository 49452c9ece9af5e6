"""Definitions, from text to the specs of the control log, and what is wrong with the others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.typed import plain

from stqsh.errors import StqshError
from stqsh.lang.binder.bind import Catalogue, bind, guess_roles, needs_inference
from stqsh.lang.errors import BindError
from stqsh.lang.syntax.parse import parse
from stqsh.spec.stream import AreaSpec, FileSourceSpec

from .binding import bound

COLUMNS = "(id STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, n INT, note STRING)"


def as_json(spec: Any) -> dict[str, Any]:
    """A spec as the log keeps it, without its id."""
    value: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(spec))
    assert value.pop("id") == 0
    return value


def created(clauses: str) -> dict[str, Any]:
    return as_json(bound(f"CREATE MOVING STREAM t {COLUMNS} FROM FILE 'f' {clauses}", Catalogue()).spec)


# --- streams ---


def test_a_stream_has_defaults() -> None:
    assert created("") == {
        "name": "t",
        "kind": "moving",
        "columns": [
            ["id", "STRING"], ["lon", "DOUBLE"], ["lat", "DOUBLE"], ["ts", "TIMESTAMP"], ["n", "INT"],
            ["note", "STRING"],
        ],
        "key": "id", "x": "lon", "y": "lat", "time": "ts", "extent": None, "text": None,
        "planar": False, "tick_us": 1_000_000, "report_every_us": None, "max_speed": None, "bounds": None,
        "grid": None, "order": "time",
        "retain": "all", "keep_us": None, "keep_bytes": None, "archive": None, "pace": None,
            "numbers_rows": False, "derived": [],
        "source": {"type": "file", "glob": "f", "format": None, "options": {}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("TICK 250 ms", {"tick_us": 250_000}),
        ("REPORT EVERY 30 s", {"report_every_us": 30_000_000}),
        ("MAX SPEED 36 km/h", {"max_speed": 10.0}),
        ("PLANAR BOUNDS (5, 1000, 0, -1)", {"planar": True, "bounds": [0.0, -1.0, 5.0, 1000.0]}),
        ("GRID 30", {"grid": 30}),
        ("ORDER BY ARRIVAL", {"order": "arrival"}),
        ("PACE MAX", {"pace": "max"}),
        ("PACE 10x", {"pace": 10.0}),
        ("RETAIN ALL", {"retain": "all"}),
        ("TEXT note", {"text": "note"}),
        ("KEY n LOCATION (lat, lon) TIME ts", {"key": "n", "x": "lat", "y": "lon"}),
        (
            "FORMAT CSV (header => false, separator => ' ')",
            {
                "source": {
                    "type": "file", "glob": "f", "format": "csv",
                    "options": {"header": False, "separator": " "},
                }
            },
        ),
    ],
)  # fmt: skip
def test_clauses_of_a_stream(clauses: str, expected: dict[str, Any]) -> None:
    spec = created(clauses)
    assert {key: spec[key] for key in expected} == expected


def test_options_of_a_generator_are_plain_values() -> None:
    options = "objects => 10, every => 10 s, speed => 36 km/h"
    text = f"CREATE MOVING STREAM t {COLUMNS} FROM GENERATOR 'network' ({options})"
    assert as_json(bound(text, Catalogue()).spec)["source"] == {
        "type": "generator",
        "name": "network",
        "options": {"objects": 10, "every": 10_000_000, "speed": 10.0},
    }


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ("KEY idd", "there is no column 'idd'"),
        ("KEY lon LOCATION (lat, n)", "lon is a DOUBLE, and cannot be KEY"),
        ("LOCATION (lon, lon)", "lon cannot be two of KEY, LOCATION and TIME"),
        ("LOCATION (lon, n)", "n is an INT, and cannot be LOCATION"),
        ("TIME note", "note is a STRING, and cannot be TIME"),
        ("TEXT n", "TEXT takes a STRING column, and 'n' is none"),
        ("TICK 0 s", "TICK must be at least a microsecond"),
        ("MAX SPEED 0", "MAX SPEED must be more than 0, such as 60 km/h"),
        ("BOUNDS (0, 0, 0, 1)", "BOUNDS enclose no area"),
        ("GRID 257", "GRID takes 1 to 256 cells in each direction"),
        ("BOUNDS (40, 116, 41, 117)", "BOUNDS reach beyond latitude 90"),
        ("KEEP NONE", "KEEP is for EVENT streams: of a moving object the last record is kept"),
        ("KEEP 5 s", "KEEP is for EVENT streams: of a moving object the last record is kept"),
        ("RETAIN SIGNIFICANT", "RETAIN SIGNIFICANT needs REPORT EVERY and MAX SPEED"),
        ("RETAIN SIGNIFICANT REPORT EVERY 30 s", "RETAIN SIGNIFICANT needs MAX SPEED"),
        ("MAX SPEED 60 km/h RETAIN SIGNIFICANT", "RETAIN SIGNIFICANT needs REPORT EVERY"),
    ],
)
def test_wrong_clauses(clauses: str, message: str) -> None:
    with pytest.raises(BindError) as caught:
        created(clauses)
    assert caught.value.message == message


def test_an_error_about_retention_points_at_the_word() -> None:
    with pytest.raises(BindError) as caught:
        created("RETAIN significant")
    [text] = [line for line in caught.value.text().splitlines() if "^" in line]
    assert text.count("^") == len("significant")


def test_two_columns_of_one_name() -> None:
    with pytest.raises(BindError, match="two columns are called 'a'"):
        bound("CREATE MOVING STREAM t (a INT, a INT) FROM FILE 'f'", Catalogue())


def test_inferred_columns_get_the_types_of_their_roles() -> None:
    [statement] = parse("CREATE MOVING STREAM t FROM FILE 'f'")
    assert needs_inference(statement, Catalogue())  # type: ignore[arg-type]
    inferred = [
        ["vehicle_id", "BIGINT"],
        ["x", "BIGINT"],
        ["y", "DOUBLE"],
        ["time", "BIGINT"],
        ["n", "BIGINT"],
    ]
    spec, notes = bind(statement, Catalogue(), inferred=inferred)[1:]
    assert as_json(spec)["columns"] == [
        ["vehicle_id", "BIGINT"], ["x", "DOUBLE"], ["y", "DOUBLE"], ["time", "TIMESTAMP"], ["n", "BIGINT"],
    ]  # fmt: skip
    assert notes == (
        "columns found: vehicle_id BIGINT, x DOUBLE, y DOUBLE, time TIMESTAMP, n BIGINT",
        "guessed: KEY vehicle_id  LOCATION (x, y)  TIME time",
    )


def test_without_columns_there_is_nothing_to_bind() -> None:
    with pytest.raises(StqshError, match="the columns of t are not known"):
        bound("CREATE MOVING STREAM t FROM FILE 'f'", Catalogue())


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        ("oid lon lat ts", ("oid", "lon", "lat", "ts")),
        ("Time Longitude Latitude ICAO24", ("ICAO24", "Longitude", "Latitude", "Time")),
        ("mmsi lng lat timestamp id", ("id", "lng", "lat", "timestamp")),
        ("vehicle_id y x datetime", ("vehicle_id", "x", "y", "datetime")),
        ("a b c d", (None, None, None, None)),
    ],
)
def test_roles_are_guessed_from_usual_names(names: str, roles: tuple[str | None, ...]) -> None:
    fitting = {"time": "TIMESTAMP", "ts": "TIMESTAMP", "timestamp": "BIGINT", "datetime": "TIMESTAMP"}
    number = {"lon", "lat", "longitude", "latitude", "lng", "x", "y"}
    columns = [
        [name, "DOUBLE" if name.lower() in number else fitting.get(name.lower(), "STRING")]
        for name in names.split()
    ]
    assert tuple(guess_roles(columns).values()) == roles


def test_a_role_that_no_name_suggests() -> None:
    with pytest.raises(BindError, match="t has no column that looks like its key"):
        bound("CREATE MOVING STREAM t (a STRING) FROM FILE 'f'", Catalogue())


def test_a_column_of_the_right_name_and_the_wrong_type_is_told_with_its_type() -> None:
    with pytest.raises(BindError, match="no column that looks like its location") as caught:
        bound(
            "CREATE MOVING STREAM t (oid STRING, lon STRING, lat DOUBLE, ts TIMESTAMP) FROM FILE 'f'",
            Catalogue(),
        )
    assert caught.value.hint == "the columns are oid STRING, lon STRING, lat DOUBLE, ts TIMESTAMP"


def test_if_not_exists_leaves_a_stream_alone(taxis: Catalogue) -> None:
    kind, spec, notes = bound("CREATE MOVING STREAM IF NOT EXISTS taxis FROM FILE 'f'", taxis)
    assert (kind, spec, notes) == ("nothing", None, ("stream taxis exists already",))


@pytest.mark.parametrize("name", ["taxis", "free", "favourites", "campus", "zones"])
def test_a_name_in_use_is_an_error(name: str, taxis: Catalogue) -> None:
    for text in (
        f"CREATE MOVING STREAM {name} {COLUMNS} FROM FILE 'f'",
        f"REGISTER QUERY {name} AS SELECT * FROM taxis",
        f"CREATE TABLE {name} (oid INT) FROM FILE 'f'",
        f"CREATE REGION {name} AS (1, 2, 3, 4)",
    ):
        with pytest.raises(BindError, match=f"the name '{name}' is in use by a"):
            bound(text, taxis)


# --- events, tables and regions ---


def event_stream(clauses: str) -> dict[str, Any]:
    return as_json(bound(f"CREATE EVENT STREAM t {COLUMNS} FROM FILE 'f' {clauses}", Catalogue()).spec)


def test_events_are_kept_by_time_and_not_by_significance() -> None:
    with pytest.raises(BindError, match="RETAIN SIGNIFICANT is for MOVING streams: KEEP says"):
        event_stream("RETAIN SIGNIFICANT")


def test_an_event_stream_is_kept_for_ever_unless_told_otherwise() -> None:
    assert event_stream("")["kind"] == "event"
    assert event_stream("")["keep_us"] is None
    assert event_stream("KEEP 72 hours TEXT note")["keep_us"] == 72 * 3_600_000_000
    assert event_stream("KEEP NONE")["keep_us"] == 0


@pytest.mark.parametrize(
    ("clause", "us", "size"),
    [
        ("KEEP 2 GB", None, 2 << 30),
        ("KEEP 1.5kB", None, 1536),
        ("keep 1 day , 3 mib", 86_400_000_000, 3 << 20),
        ("KEEP 1 day, 1 TB", 86_400_000_000, 1 << 40),
    ],
)
def test_an_event_stream_may_be_kept_by_size(clause: str, us: int | None, size: int) -> None:
    spec = event_stream(clause)
    assert (spec["keep_us"], spec["keep_bytes"]) == (us, size)


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("KEEP 0 kB", "KEEP must be at least a byte"),
        ("KEEP 0 s, 1 kB", "KEEP must be at least a microsecond"),
        ("KEEP 1 kB, 1 s", "unexpected ','"),
        ("KEEP 1 km", "expected a duration such as 30 s, a size such as 2 GB, NONE|unexpected"),
        ("KEEP 99999999 TB", "is too much"),
    ],
)
def test_a_size_that_is_none_is_an_error_at_its_place(clause: str, message: str) -> None:
    with pytest.raises(StqshError, match=message):
        event_stream(clause)


def test_an_archive_takes_what_is_kept_for_a_while() -> None:
    assert event_stream("KEEP 1 day ARCHIVE TO '/old'")["archive"] == "/old"
    assert event_stream("KEEP 1 MB ARCHIVE TO '/old'")["archive"] == "/old"
    for clauses in ("ARCHIVE TO '/old'", "KEEP NONE ARCHIVE TO '/old'"):
        with pytest.raises(BindError, match="ARCHIVE TO needs KEEP with a duration"):
            event_stream(clauses)


@pytest.mark.parametrize("clause", ["REPORT EVERY 30 s", "MAX SPEED 60 km/h"])
def test_clauses_of_moving_objects_are_not_for_events(clause: str) -> None:
    with pytest.raises(BindError, match="is for MOVING streams"):
        event_stream(clause)


def test_a_table_has_a_key(taxis: Catalogue) -> None:
    source = {"type": "file", "glob": "f.csv", "format": None, "options": {}}
    text = "CREATE TABLE t (a DOUBLE, b INT, c STRING) FROM FILE 'f.csv' KEY c"
    kind, spec, _ = bound(text, taxis)
    assert (kind, as_json(spec)) == (
        "create_table",
        {
            "name": "t",
            "columns": [["a", "DOUBLE"], ["b", "INT"], ["c", "STRING"]],
            "key": "c",
            "source": source,
            "derived": [],
        },
    )


@pytest.mark.parametrize(
    ("columns", "key"),
    [("(a DOUBLE, b INT, oid STRING)", "oid"), ("(a DOUBLE, b INT, c STRING)", "b")],
)
def test_the_key_of_a_table_is_guessed(columns: str, key: str, taxis: Catalogue) -> None:
    found = bound(f"CREATE TABLE t {columns} FROM FILE 'f'", taxis)
    assert (found.spec.key, found.notes) == (key, (f"guessed: KEY {key}",))


def test_columns_of_a_table_may_be_found_in_its_file(taxis: Catalogue) -> None:
    [statement] = parse("CREATE TABLE t FROM FILE 'f'")
    assert needs_inference(statement, taxis)  # type: ignore[arg-type]
    found = bind(statement, taxis, inferred=[["name", "STRING"], ["n", "BIGINT"]])
    assert found.spec.columns == (("name", "STRING"), ("n", "BIGINT"))
    assert found.notes == ("columns found: name STRING, n BIGINT", "guessed: KEY name")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(a DOUBLE) FROM FILE 'f'", "t has no column that looks like its key"),
        ("(a INT) FROM FILE 'f' KEY b", "there is no column 'b'"),
        ("(a DOUBLE) FROM FILE 'f' KEY a", "a is a DOUBLE, and cannot be KEY"),
    ],
)
def test_wrong_tables(text: str, message: str) -> None:
    with pytest.raises(BindError) as caught:
        bound(f"CREATE TABLE t {text}", Catalogue())
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        ("(500, 0, 0, 1000)", {"type": "rect", "x1": 0.0, "y1": 0.0, "x2": 500.0, "y2": 1000.0}),
        ("POLYGON((0 0, 9 0, 9 9))", {
            "type": "polygon", "rings": [[[0.0, 0.0], [9.0, 0.0], [9.0, 9.0], [0.0, 0.0]]]
        }),
        ("campus", {"type": "area", "area": 20, "name": "campus", "member": None}),
    ],
)  # fmt: skip
def test_a_region_gets_a_name(region: str, expected: dict[str, Any], taxis: Catalogue) -> None:
    kind, spec, _ = bound(f"CREATE REGION r AS {region}", taxis)
    assert kind == "create_area"
    made_from = expected.get("area")
    assert (spec.spec, plain(spec.region)) == (AreaSpec(name="r", area=made_from), expected)


def test_a_region_with_a_name_stands_still(taxis: Catalogue) -> None:
    with pytest.raises(BindError, match="a named region cannot move"):
        bound("CREATE REGION r AS CIRCLE(1 km) AROUND '7'", taxis)


def test_a_set_of_regions_comes_from_a_file() -> None:
    kind, spec, _ = bound("CREATE REGIONS z FROM FILE 'z.geojson' NAME zone_id", Catalogue())
    source = FileSourceSpec("z.geojson")
    assert kind == "create_area"
    assert spec == (AreaSpec(name="z", set=True, source=source), "zone_id")


@pytest.mark.parametrize("name", ["_step", "_hash", "_tick"])
def test_the_engine_s_own_columns_are_refused(name: str) -> None:
    text = f"CREATE EVENT STREAM t (id INT, x DOUBLE, y DOUBLE, ts TIMESTAMP, {name} INT) FROM FILE 'f'"
    with pytest.raises(BindError, match=f"no column can be called {name}: the engine uses that name itself"):
        bound(text, Catalogue())
