"""REGISTER QUERIES: rows make what single statements make, and what makes no query is reported."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from msgspec.structs import replace

from stqsh.client.api import Session
from stqsh.client.connection import Connection
from stqsh.client.results import BulkRegistration
from stqsh.client.statements.describe import dump
from stqsh.errors import StqshError
from stqsh.lang.errors import BindError
from stqsh.profile import load_profile
from stqsh.spec.expression import focal_keys_in
from stqsh.spec.log import QueryBlock
from stqsh.storage.catalogue import live_queries, queries_over_area
from stqsh.storage.control_log import ControlDb, read_log
from stqsh.storage.engine_info import EngineInfo
from stqsh.storage.home import open_home

CREATE = """
CREATE MOVING STREAM taxis
  (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, status STRING, n INT, fast BOOLEAN)
  KEY oid LOCATION (lon, lat) TIME ts FROM FILE 'taxis.csv';
CREATE MOVING STREAM buses (oid INT, x DOUBLE, y DOUBLE, ts TIMESTAMP) KEY oid LOCATION (x, y) TIME ts
  FROM FILE 'taxis.csv' PLANAR;
CREATE EVENT STREAM posts (id BIGINT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, body STRING)
  KEY id LOCATION (lon, lat) TIME ts TEXT body FROM FILE 'posts.csv' KEEP 1 hour;
CREATE REGIONS zones FROM FILE 'zones.geojson' NAME zone;
"""
SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
ZONES = [{"type": "Feature", "properties": {"zone": zone}, "geometry": SQUARE} for zone in "ab"]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    home = open_home("s", root=tmp_path)
    connection = Connection(
        home, ControlDb(home.path, clock=lambda: 7, create=True), lambda home: EngineInfo(0, 0, 0, "ready")
    )
    tmp_path.joinpath("taxis.csv").write_text(
        "oid,lon,lat,x,y,ts,status,n,fast\n1,1,2,1,2,2008-02-02 15:00:00,f,1,true\n"
    )
    tmp_path.joinpath("posts.csv").write_text("id,lon,lat,ts,body\n1,1,2,2008-02-02 15:00:00,jam\n")
    tmp_path.joinpath("zones.geojson").write_text(
        json.dumps({"type": "FeatureCollection", "features": ZONES})
    )
    session = Session(home, load_profile(None), autoplay=False, connection=connection)
    execute(session, CREATE)
    yield session
    connection.db.close()


def execute(session: Session, text: str) -> list[str]:
    """What the statements of a script in the session's folder say."""
    file = session.home.path.parent / "f.stq"
    return [getattr(outcome, "text", "") for outcome in session.outcomes(text, file=str(file))]


def write(session: Session, text: str, name: str = "q.csv") -> None:
    session.home.path.parent.joinpath(name).write_text(text)


def registered(session: Session) -> list[Any]:
    """The live queries, but for when they were registered."""
    return [dataclasses.replace(query, seq=0) for query in live_queries(session.connection.db)]


SELECTS = {
    "rectangle": ("oid FROM taxis INSIDE RECT({x1}, {y1}, {x2}, {y2})", {}),
    "rectangle, a corner fixed": ("oid FROM taxis INSIDE RECT({x1}, 3, 0.5, {y2})", {}),
    "circle": ("oid, DISTANCE FROM taxis INSIDE CIRCLE({x1}, {y1}, {r})", {}),
    "moving rectangle": ("oid FROM taxis INSIDE RECT({r}, 2 km) AROUND {word}", {}),
    "moving circle": ("oid FROM buses INSIDE CIRCLE({r}) AROUND {k}", {}),
    "by letter": ("oid FROM taxis INSIDE ('M', {word}, {r}, 100 m)", {}),
    "nearest": ("oid FROM taxis NEAREST {k} TO ({x1}, {y1})", {}),
    "nearest to an object": ("oid, DISTANCE FROM taxis KNN ('M', {k}, {word})", {}),
    "planar": ("oid FROM buses INSIDE RECT({x1}, {far}, {x2}, {y2})", {}),
    "member": ("oid FROM taxis INSIDE zones[{zone}]", {}),
    "words": ("id FROM posts WHERE body CONTAINS ANY {word} INSIDE RECT({x1}, {y1}, {x2}, {y2})", {}),
    "conditions": (
        "oid FROM taxis WHERE status LIKE {word} AND (n > {k} OR lat <= {y1}) AND fast = {yes}",
        {},
    ),
    "in": ("oid FROM taxis WHERE status IN ({word}, 'x') AND n BETWEEN {k} AND 9", {}),
    "key": ("oid FROM taxis WHERE oid = {word}", {}),
    "whole key": ("oid FROM buses WHERE oid <> {k}", {}),
    "time": ("oid FROM taxis WHERE ts > {at} AND lon < {x1} * 2", {}),
    "second region": ("oid FROM taxis WHERE loc INSIDE RECT({x2}, {y1}, {x1}, {y2}) NEAREST 2 TO (1, 1)", {}),
    "selected": ("oid, {word} AS word FROM taxis INSIDE (1, 2, 3, 4)", {}),
    "nothing differs": ("oid FROM taxis INSIDE (1, 2, 3, 4)", {}),
}
ROWS = [
    {
        **{"x1": row * 1.5 - 3, "y1": row * 0.5, "x2": 2.25, "y2": 10.5 - row, "far": 1000.5 + row},
        **{"r": 0.5 + row, "k": row + 1, "word": f"it's {row % 3}", "zone": "ab"[row % 2]},
        **{"yes": row % 2 == 0, "at": f"2008-02-02T15:00:{row:02}Z", "name": f"q{row}"},
    }
    for row in range(6)
]


def literal(value: Any) -> str:
    """A value as a constant."""
    if isinstance(value, bool):
        return str(value).upper()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def columns() -> dict[str, Any]:
    """The rows as a table's columns, times as such."""
    table = {name: pa.array([row[name] for row in ROWS]) for name in ROWS[0]}
    return table | {"at": table["at"].cast(pa.timestamp("us", "UTC"))}


@pytest.mark.parametrize("clauses", ["", "FOR 5 min WITH (min_accuracy => 0.5) "])
@pytest.mark.parametrize("select", [select for select, _ in SELECTS.values()], ids=SELECTS)
def test_queries_of_rows_are_those_of_single_statements(select: str, clauses: str, session: Session) -> None:
    for row in ROWS:
        filled = select.format(**{name: literal(value) for name, value in row.items()})
        execute(session, f"REGISTER QUERY {row['name']} {clauses}AS SELECT {filled};")
    alone, statements = registered(session), dump(session.connection).text
    execute(session, "".join(f"DROP QUERY {row['name']};" for row in ROWS))
    template = (
        f"REGISTER QUERIES {clauses}AS SELECT {select.format(**{name: f':{name}' for name in ROWS[0]})}"
    )
    assert session.register_many(template, columns()).registered == len(ROWS)
    together = registered(session)
    shift = together[0].id - alone[0].id
    moved = [
        dataclasses.replace(query, id=query.id + shift, spec=replace(query.spec, id=query.id + shift))
        for query in alone
    ]
    assert together == moved and list(map(repr, together)) == list(map(repr, moved))
    assert dump(session.connection).text == statements
    assert [query.spec.id for query in together] == [query.id for query in together]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "jsonl", "parquet", "tsv"])
def test_files_of_all_formats_bring_rows(suffix: str, session: Session) -> None:
    path = session.home.path.parent / f"q.{suffix}"
    table = pa.table({"who": ["a", "b"], "x": [1.5, 2.0], "word": ["jam", "it's"]})
    if suffix == "parquet":
        pa.parquet.write_table(table, path)
    elif suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        separator = "\t" if suffix == "tsv" else ","
        with pa.output_stream(str(path), compression="gzip" if suffix.endswith("gz") else None) as out:
            for row in [table.column_names, *(row.values() for row in table.to_pylist())]:
                out.write((separator.join(map(str, row)) + "\n").encode())
    said = execute(
        session,
        f"REGISTER QUERIES FROM FILE 'q.{suffix}' KEY who AS SELECT oid FROM taxis"
        " WHERE status <> :word INSIDE CIRCLE(:x, 2, 50);",
    )
    assert said == [f"2 queries registered from q.{suffix}"]
    assert [(query.name, query.spec.text) for query in registered(session)] == [
        ("a", "SELECT oid FROM taxis WHERE status <> 'jam' INSIDE CIRCLE(1.5, 2, 50)"),
        ("b", "SELECT oid FROM taxis WHERE status <> 'it''s' INSIDE CIRCLE(2, 2, 50)"),
    ]


def test_rows_that_make_no_query_are_reported_with_their_line(session: Session) -> None:
    write(
        session,
        "id,x,y,r,k,w\nok,1,2,3,4,jam\nb,x,2,3,4,jam\nc,1,95,3,4,jam\nd,1,2,0,4,jam\ne,1,2,3,0,jam\n"
        "f,1,2,3,4,---\ng,,2,3,4,jam\nok,1,2,3,4,jam\n,1,2,3,4,jam\ntaxis,1,2,3,4,jam\nh,1,2\ni,inf,2,3,4,jam\n"
        "last,9,8,7,6,rain\n",
    )
    text = "KEY id AS SELECT id FROM posts WHERE body CONTAINS :w AND loc INSIDE CIRCLE(:x, :y, :r)"
    text += " NEAREST :k TO (0, 0)"
    [said] = execute(session, f"REGISTER QUERIES FROM FILE 'q.csv' {text};")
    file = session.home.path.parent / "q.csv"
    assert said.splitlines() == [
        "2 queries registered from q.csv",
        "11 rows make no valid query:",
        f"{file}:3: x: 'x' is not a number",
        f"{file}:4: y: a latitude of 95 is beyond 90",
        f"{file}:5: r: a length must be more than 0, and 0 is not",
        f"{file}:6: k: 0 is not within 1 and 2147483647",
        f"{file}:7: w: there is no word to look for in '---'",
        f"{file}:8: x: the value is missing",
        f"{file}:9: the name ok occurs twice",
        f"{file}:10: the name is missing",
        f"{file}:11: the name taxis is in use",
        f"{file}:12: 3 columns instead of 6",
        f"{file}:13: x: inf is not a finite number",
    ]
    assert [query.name for query in registered(session)] == ["ok", "last"]


def test_a_pattern_too_long_for_a_regular_expression_makes_no_query(session: Session) -> None:
    write(session, f"id,w\na,j_m\nb,{'_' * 100_000}\n")
    [said] = execute(
        session, "REGISTER QUERIES FROM FILE 'q.csv' KEY id AS SELECT id FROM posts WHERE body LIKE :w;"
    )
    assert said.splitlines() == [
        "1 query registered from q.csv",
        "1 row makes no valid query:",
        f"{session.home.path.parent / 'q.csv'}:3: w: a pattern has at most 10,000 characters",
    ]


def test_a_moving_region_of_a_condition_takes_its_focal_object_from_rows(session: Session) -> None:
    write(session, "id,who\na,o1\nb,o2\nc,o1\n")
    text = "REGISTER QUERIES FROM FILE 'q.csv' KEY id AS SELECT oid FROM taxis"
    [said] = execute(session, f"{text} WHERE oid = 'x' OR loc INSIDE CIRCLE(1 km) AROUND :who;")
    assert said == "3 queries registered from q.csv"
    found = [query.spec.condition for query in registered(session)]
    assert [focal_keys_in(condition) for condition in found] == [("o1",), ("o2",), ("o1",)]
    blocks = [row.entry for row in read_log(session.connection.db) if isinstance(row.entry, QueryBlock)]
    assert [block.around for block in blocks] == [(("o1",), ("o2",), ("o1",))]


def test_very_many_faults_are_counted_and_the_first_are_shown(session: Session) -> None:
    lats = [95.0] * 50 + [5.0]
    done = session.register_many("SELECT oid FROM taxis NEAREST 1 TO (0, :lat)", {"lat": lats})
    assert (done.registered, done.refused, len(done.faults)) == (1, 50, 20)
    assert done.faults[0] == "row 1: lat: a latitude of 95 is beyond 90"
    assert done.text("it").endswith("\nand 30 more")
    assert [query.name for query in registered(session)] == ["query_51"]


def test_queries_are_named_by_key_or_name_or_place(session: Session) -> None:
    write(session, "id,name,x\n7,a,1\n8,b,2\n")
    select = "AS SELECT oid FROM taxis NEAREST 1 TO (:x, 0);"
    execute(session, f"REGISTER QUERIES FROM FILE 'q.csv' {select}")
    execute(session, f"REGISTER QUERIES FROM FILE 'q.csv' KEY id {select}")
    write(session, "x\n1\n2\n", "more-rows.csv")
    execute(session, f"REGISTER QUERIES FROM FILE 'more-rows.csv' {select}")
    write(session, "1;5\n2;6\n", "bare.txt")
    bare = "FORMAT CSV (header => false, separator => ';') AS SELECT oid FROM taxis NEAREST 1 TO (:c2, 0);"
    execute(session, f"REGISTER QUERIES FROM FILE 'bare.txt' {bare}")
    names = [query.name for query in registered(session)]
    assert names == ["a", "b", "7", "8", "more_rows_1", "more_rows_2", "bare_1", "bare_2"]
    assert registered(session)[-1].spec.region.x == 6


REFUSED = {
    "AS SELECT oid FROM taxis NEAREST 1 TO (:xx, 0)": (r"1:\d+: there is no column 'xx' in the rows", "x"),
    "KEY idd AS SELECT oid FROM taxis NEAREST 1 TO (:x, 0)": ("there is no column 'idd'", "id"),
    "KEY x AS SELECT oid FROM taxis NEAREST 1 TO (:x, 0)": ("a name is a string or a whole number", None),
    "AS SELECT oid FROM taxi NEAREST 1 TO (:x, 0)": ("unknown stream 'taxi'", "taxis"),
    "AS SELECT oid FROM taxis WHERE lon > :id NEAREST 1 TO (:x, 0)": ("no row yields a valid query", None),
    "AS SELECT oid FROM taxis WHERE fast = :x NEAREST 1 TO (:x, 0)": ("TRUE or FALSE is needed", None),
    "SINCE NOW AS SELECT oid FROM taxis NEAREST 1 TO (:x, 0)": ("SINCE NOW is for event streams", None),
    "FORMAT PARQUET AS SELECT oid FROM taxis NEAREST 1 TO (:x, 0)": ("cannot be read", None),
}


@pytest.mark.parametrize("rest", REFUSED)
def test_a_template_that_fits_no_row_is_an_error_at_its_place(rest: str, session: Session) -> None:
    write(session, "id,x\na,1.5\n")
    message, meant = REFUSED[rest]
    with pytest.raises(StqshError, match=message) as caught:
        execute(session, f"REGISTER QUERIES FROM FILE 'q.csv' {rest};")
    assert getattr(caught.value, "near", None) == meant
    assert not registered(session)


def test_rows_come_from_files_or_from_a_table(session: Session) -> None:
    with pytest.raises(BindError, match="takes its rows from files"):
        execute(session, "REGISTER QUERIES AS SELECT oid FROM taxis NEAREST 1 TO (:x, 0);")
    with pytest.raises(BindError, match=r"no file matches 'none\.csv'"):
        execute(
            session, "REGISTER QUERIES FROM FILE 'none.csv' AS SELECT oid FROM taxis NEAREST 1 TO (:x, 0);"
        )
    for text in (
        "DUMP",
        "SELECT oid FROM taxis; DUMP",
        "REGISTER QUERIES FROM FILE 'q' AS SELECT oid FROM taxis",
    ):
        with pytest.raises(StqshError, match="register_many takes one SELECT"):
            session.register_many(text, {"x": [1.0]})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT oid FROM taxis WHERE n > :least",
        "REGISTER QUERY q AS SELECT oid FROM taxis INSIDE RECT(:a, 1, 2, 3)",
        "SELECT oid FROM taxis NEAREST :k TO (1, 2)",
        "SELECT oid FROM taxis WHERE status CONTAINS :w",
        "CREATE REGION r AS RECT(:a, 1, 2, 3)",
    ],
)
def test_a_parameter_has_no_value_in_other_statements(text: str, session: Session) -> None:
    with pytest.raises(BindError, match=r":\w+ has no value here"):
        execute(session, text + ";")


def test_data_frames_and_lists_of_dicts_bring_rows_too(session: Session) -> None:
    template = "SELECT oid FROM taxis NEAREST 1 TO (:x, 0)"
    frame = pa.table({"name": ["a"], "x": [1]}).to_pandas()
    assert session.register_many(template, frame).registered == 1
    assert session.register_many(template, [{"name": "b", "x": 1}, {"x": 2.5, "name": "c"}]).registered == 2
    assert [query.name for query in registered(session)] == ["a", "b", "c"]


@pytest.mark.parametrize("form", [list, pd.DataFrame], ids=["dicts", "pandas"])
def test_a_value_of_another_type_spoils_its_row_only(form: Callable[[Any], Any], session: Session) -> None:
    rows = form([{"name": "a", "x": 1.5}, {"name": "b", "x": "far"}, {"name": "c", "x": None}])
    done = session.register_many("SELECT oid FROM taxis NEAREST 1 TO (:x, 0)", rows)
    assert done.faults == ("row 2: x: 'far' is not a number", "row 3: x: the value is missing")
    assert [query.name for query in registered(session)] == ["a"]


def test_a_table_without_rows_registers_nothing(session: Session) -> None:
    template = "SELECT oid FROM taxis NEAREST 1 TO (:x, 0)"
    for table in ({"x": []}, [], pa.table({"x": pa.array([], pa.float64())})):
        assert session.register_many(template, table) == BulkRegistration(0, 0, ())


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("q.csv", "a str is not a table"),
        ([1, 2], "a list is not a table"),
        (None, "a NoneType is not a table"),
        ({"x": [1, 2], "y": [1]}, "the rows do not make a table: "),
        ({"x": 5}, "the rows do not make a table: "),
    ],
)
def test_what_is_no_table_is_refused(table: Any, message: str, session: Session) -> None:
    with pytest.raises(StqshError, match=message):
        session.register_many("SELECT oid FROM taxis NEAREST 1 TO (:x, 0)", table)


def test_queries_of_rows_are_dropped_and_registered_again_one_by_one(session: Session) -> None:
    select = "SELECT oid FROM taxis INSIDE CIRCLE(:x, 0, 5)"
    session.register_many(select, {"name": ["a", "b", "c"], "x": [1, 2, 3]})
    execute(session, "DROP QUERY b; PAUSE QUERY c;")
    assert session.register_many(select, {"name": ["c", "b"], "x": [7, 8]}).faults == (
        "row 1: the name c is in use",
    )
    text = dump(session.connection).text
    assert text.splitlines()[-4:] == [
        "REGISTER QUERY a AS SELECT oid FROM taxis INSIDE CIRCLE(1, 0, 5);",
        "REGISTER QUERY c AS SELECT oid FROM taxis INSIDE CIRCLE(3, 0, 5);",
        'PAUSE QUERY "c";',
        "REGISTER QUERY b AS SELECT oid FROM taxis INSIDE CIRCLE(8, 0, 5);",
    ]


def test_rows_of_a_table_are_one_row_of_the_log(session: Session) -> None:
    session.register_many("SELECT oid FROM taxis NEAREST 1 TO (:x, 0)", {"x": [1.0] * 70_000})
    rows = [row for row in read_log(session.connection.db) if row.kind == "register_alike"]
    assert [row.entry.count for row in rows] == [1 << 16, 70_000 - (1 << 16)]
    assert rows[1].entry.first == rows[0].seq + 1
    assert rows[1].seq == registered(session)[-1].id


def test_the_log_tells_whose_places_have_to_be_looked_up(session: Session) -> None:
    session.register_many("SELECT oid FROM buses INSIDE CIRCLE(5) AROUND :k", {"k": [3, 1, 3]})
    *_, row = read_log(session.connection.db, whole=False)
    assert row.entry.focal == (3, 1, 3)


def test_regions_know_the_queries_of_rows(session: Session) -> None:
    session.register_many("SELECT oid FROM taxis INSIDE zones[:zone]", {"zone": ["a", "b"]})
    [area] = session.areas()
    assert queries_over_area(session.connection.db, area.id) == ["query_1", "query_2"]


@pytest.mark.parametrize("count", [3, 1_200])
def test_an_error_in_a_run_of_statements_keeps_its_place(count: int, session: Session) -> None:
    good = [
        f"REGISTER QUERY q{row} AS SELECT oid FROM taxis NEAREST 1 TO ({row % 90}, 0);"
        for row in range(count)
    ]
    begun: list[int] = []
    text = "\n".join([*good, "SHOW QUERIES;", *good[:2]])
    with pytest.raises(BindError, match="'q0' is in use") as caught:
        list(session.outcomes(text, file="f.stq", on_statement=begun.append))
    assert caught.value.place is not None and caught.value.place.line == count + 2
    assert begun[-1] == count + 2 and count + 1 in begun
    assert len(registered(session)) == count


def test_a_window_beyond_what_is_kept_is_told_once_for_all_rows(session: Session) -> None:
    write(session, "name,word\na,jam\nb,rain\n")
    select = "SELECT COUNT(*) AS n FROM posts WHERE body = :word WINDOW {}"
    remark = "posts keeps events for 1 hour, less than the window of 2 hours: what is kept decides"
    register = "REGISTER QUERIES FROM FILE 'q.csv' AS"
    told = execute(session, f"{register} {select.format('2 hours')};")
    assert told == [f"2 queries registered from q.csv; {remark}"]
    rows = {"name": ["c"], "word": ["x"]}
    assert session.register_many(select.format("2 hours"), rows).remark == remark
    assert session.register_many(select.format("1 hour"), rows | {"name": ["d"]}).remark == ""
