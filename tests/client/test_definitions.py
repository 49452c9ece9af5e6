"""Tables, regions and event streams as a user makes and drops them, with an engine in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.local import LocalConnection, LocalEngine, local_session
from support.running import parsed, run_script

from stqsh.client.api import Session
from stqsh.client.results import Message, Rows, Script
from stqsh.errors import SourceError, StqshError
from stqsh.lang.errors import BindError
from stqsh.profile import load_profile
from stqsh.storage.control_log import ControlDb

POSTS = """id,lon,lat,ts,body,who
1,10.0,50.0,2025-01-01T00:00:01Z,coffee now,a
2,10.1,50.1,2025-01-01T00:00:02Z,tea later,b
1,10.0,50.0,2025-01-01T00:00:03Z,coffee again,a
3,10.2,50.2,2025-01-01T00:00:05Z,Coffee and tea,c
4,,,2025-01-01T00:00:06Z,nowhere,c
5,10.05,50.05,2025-01-01T00:00:30Z,late coffee,b
"""
TAXIS = """oid,lon,lat,ts
t1,10.0,50.0,2025-01-01T00:00:02Z
t1,10.2,50.2,2025-01-01T00:00:10Z
t2,10.05,50.0,2025-01-01T00:00:12Z
"""
PEOPLE = "who,team\na,red\nb,blue\na,green\n,none\n"
POSTS_SQL = "CREATE EVENT STREAM posts FROM FILE 'posts.csv' KEY id LOCATION (lon, lat) TIME ts KEEP 20 s;"
TAXIS_SQL = "CREATE MOVING STREAM taxis FROM FILE 'taxis.csv' REPORT EVERY 15 s;"
DEFINITIONS = f"""
{POSTS_SQL}
{TAXIS_SQL}
CREATE TABLE people FROM FILE 'people.csv';
CREATE REGIONS zones FROM FILE 'zones.geojson' NAME zone;
CREATE REGION near AS zones['west'];
CREATE REGION wide AS (9, 49, 11, 51);
CREATE REGION disc AS CIRCLE(10.0, 50.0, 8 km);
CREATE REGION disc_too AS disc;
"""
QUERIES = """
REGISTER QUERY words AS SELECT id, body FROM posts WHERE body CONTAINS 'coffee' INSIDE wide;
REGISTER QUERY west AS SELECT id FROM posts INSIDE zones['west'];
REGISTER QUERY cars AS SELECT oid FROM taxis INSIDE near;
REGISTER QUERY teams AS SELECT P.id, T.team FROM posts P, people T WHERE P.who = T.who INSIDE wide;
REGISTER QUERY discs AS SELECT oid, DISTANCE FROM taxis INSIDE disc_too;
REGISTER QUERY plain AS SELECT oid, DISTANCE FROM taxis INSIDE CIRCLE(10.0, 50.0, 8000);
REGISTER QUERY outside AS SELECT id FROM posts WHERE NOT loc INSIDE disc;
"""


def polygon(x1: float, y1: float, x2: float, y2: float) -> list[list[list[float]]]:
    return [[[x1, y1], [x2, y1], [x2, y2], [x1, y2], [x1, y1]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of the script that it would hold."""
    for name, text in {"posts.csv": POSTS, "taxis.csv": TAXIS, "people.csv": PEOPLE}.items():
        (tmp_path / name).write_text(text)
    boxes = {"west": (9.9, 49.9, 10.15, 50.15), "east": (10.15, 49.9, 10.3, 50.3)}
    features = [
        {
            "type": "Feature",
            "properties": {"zone": name},
            "geometry": {"type": "Polygon", "coordinates": polygon(*box)},
        }
        for name, box in boxes.items()
    ]
    zones = {"type": "FeatureCollection", "features": features}
    (tmp_path / "zones.geojson").write_text(json.dumps(zones))
    return tmp_path


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    with local_session(folder / "homes", slots=2) as session:
        yield session


def do(session: Session, folder: Path, text: str) -> list[Any]:
    """Execute statements as those of a script in the folder."""
    return list(session.execute(text, file=str(folder / "script.stq")))


def updates(lines: list[dict[str, Any]], query: str) -> list[tuple[Any, ...]]:
    found = [line for line in lines if line["query"] == query]
    return [(line["step"], line["op"], line["key"], line.get("why")) for line in found]


def test_everything_together(session: Session, folder: Path) -> None:
    lines = parsed(run_script(session, DEFINITIONS + QUERIES, folder / "script.stq"))
    assert updates(lines, "words") == [
        (1, "+", 1, None),
        (5, "+", 3, None),
        (22, "-", 1, "expired"),
        (26, "-", 3, "expired"),
        (30, "+", 5, None),
    ]
    assert updates(lines, "west") == [
        (1, "+", 1, None),
        (2, "+", 2, None),
        (22, "-", 1, "expired"),
        (23, "-", 2, "expired"),
        (30, "+", 5, None),
    ]
    assert updates(lines, "cars") == [
        (2, "+", "t1", None),
        (10, "-", "t1", "left"),
        (12, "+", "t2", None),
        (28, "-", "t2", "disconnected"),
    ]
    teams = {(line["key"], line["row"]["team"]) for line in lines if line["query"] == "teams"}
    assert {(1, "red"), (2, "blue"), (5, "blue")} <= teams and not any(key == 3 for key, _ in teams)


def test_a_circle_with_a_name_is_that_circle(session: Session, folder: Path) -> None:
    lines = parsed(run_script(session, DEFINITIONS + QUERIES, folder / "script.stq"))
    named, plain = ([line | {"query": ""} for line in lines if line["query"] == name]
                    for name in ("discs", "plain"))  # fmt: skip
    assert named == plain and {line["key"] for line in named} == {"t1", "t2"}
    assert {line["key"] for line in lines if line["query"] == "outside"} == {2, 3}
    (count,) = do(session, folder, "SELECT COUNT(*) FROM posts WHERE loc INSIDE disc;")
    assert count.table.to_pylist() == [{"count": 1}]


def test_a_circle_of_the_plane_is_none_beyond_the_pole(session: Session, folder: Path) -> None:
    do(session, folder, DEFINITIONS + "CREATE REGION plane AS CIRCLE(10, 500, 3);")
    with pytest.raises(BindError, match="a latitude of 500 is beyond 90"):
        do(session, folder, "SELECT oid FROM taxis INSIDE plane;")


FIJI = """
CREATE MOVING STREAM ships FROM FILE 'ships.csv' TICK 1 s;
CREATE MOVING STREAM plane FROM FILE 'ships.csv' TICK 1 s PLANAR;
CREATE REGIONS islands FROM FILE 'islands.geojson' NAME name;
CREATE REGION fiji AS (177, -19, 182, -16);
REGISTER QUERY a_named AS SELECT oid FROM ships INSIDE fiji;
REGISTER QUERY b_member AS SELECT oid FROM ships INSIDE islands['fiji'];
REGISTER QUERY c_polygon AS SELECT oid FROM ships INSIDE POLYGON ((177 -19, 182 -19, 182 -16, 177 -16));
REGISTER QUERY d_outside AS SELECT oid FROM ships WHERE NOT loc INSIDE fiji;
REGISTER QUERY e_west AS SELECT oid FROM ships INSIDE POLYGON ((-183 -19, -178 -19, -178 -16, -183 -16));
REGISTER QUERY f_plane AS SELECT oid FROM plane INSIDE fiji;
REGISTER QUERY groups AS SELECT REGION(islands) AS island, COUNT(*) AS n FROM ships GROUP BY REGION(islands);
RUN;
"""


def test_a_region_that_encloses_nothing_is_an_error_at_its_place(session: Session) -> None:
    with pytest.raises(BindError, match="the region encloses nothing") as caught:
        list(session.execute("CREATE REGION line AS POLYGON((0 0, 1 1, 2 2, 0 0));"))
    assert caught.value.place is not None
    assert (caught.value.place.column, caught.value.exit_code) == (32, 2)


def test_regions_over_the_180th_meridian_go_on_at_the_other_side(session: Session, folder: Path) -> None:
    places = {"a": 179, "b": -179, "c": 180, "d": -180, "e": -178, "f": 176.5, "g": -177.9, "h": 177}
    rows = [f"{oid},{lon},-17,2025-01-01T00:00:01Z" for oid, lon in places.items()]
    (folder / "ships.csv").write_text("\n".join(["oid,lon,lat,ts", *rows, ""]))
    ring = [[177, -19], [182, -19], [182, -16], [177, -16], [177, -19]]
    shape = {"type": "Polygon", "coordinates": [ring]}
    island = {"type": "Feature", "properties": {"name": "fiji"}, "geometry": shape}
    (folder / "islands.geojson").write_text(json.dumps(island))
    lines = parsed(run_script(session, FIJI, folder / "script.stq"))
    assert [line["row"] for line in lines if line["query"] == "groups"] == [
        {"island": "fiji", "n": 6},
        {"island": None, "n": 2},
    ]
    lines = [line for line in lines if line["query"] != "groups"]
    found = dict.fromkeys(sorted({line["query"] for line in lines}), "")
    for line in lines:
        found[line["query"]] += line["key"]
    assert found == {
        "a_named": "abcdeh",
        "b_member": "abcdeh",
        "c_polygon": "abcdeh",
        "d_outside": "fg",
        "e_west": "abcdeh",
        "f_plane": "ach",
    }
    [answer] = do(session, folder, "SELECT oid FROM ships INSIDE islands['fiji'];")
    assert "".join(answer.table.column("oid").to_pylist()) == "abcdeh"
    with pytest.raises(StqshError, match="region fiji has 3 queries"):
        do(session, folder, "DROP REGION fiji;")
    [answer] = do(session, folder, "SELECT oid, REGION(islands) AS island FROM ships;")
    names = dict(zip(*(answer.table.column(name).to_pylist() for name in ("oid", "island")), strict=True))
    assert names == {key: "fiji" if key in "abcdeh" else None for key in names} and len(names) > 6


def test_rectangles_of_rows_go_on_beyond_the_180th_meridian(session: Session, folder: Path) -> None:
    lines = [f"{oid},{lon},1.5,2020-01-01 00:00:00" for oid, lon in (("a", 179.5), ("b", -179.5), ("c", 0))]
    (folder / "ships.csv").write_text("\n".join(["oid,lon,lat,ts", *lines]))
    (folder / "tops.csv").write_text("id,lat,one,other\nhigh,3,a,b\nlow,1.2,a,b\nother,3,c,b\n")
    script = """
        CREATE MOVING STREAM ships (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)
          KEY oid LOCATION (lon, lat) TIME ts FROM FILE 'ships.csv';
        REGISTER QUERIES FROM FILE 'tops.csv' KEY id AS
          SELECT oid FROM ships WHERE oid = :one OR oid = :other INSIDE RECT(170, 1, 190, :lat);
        RUN;
    """
    told = parsed(run_script(session, script, folder / "script.stq"))
    found = [(line["query"], line["key"]) for line in told if line.get("op") == "+"]
    assert found == [("high", "a"), ("high", "b"), ("other", "b")]


def test_regions_of_rows_go_on_beyond_the_180th_meridian(session: Session, folder: Path) -> None:
    lines = [f"{oid},{lon},1.5,2020-01-01 00:00:00" for oid, lon in (("a", 179.5), ("b", -179.5), ("c", 0))]
    (folder / "ships.csv").write_text("\n".join(["oid,lon,lat,ts", *lines]))
    rows = ["id,x1,x2,isle", "east,179,181,fiji", "far,-181,-179.9,home", "here,-1,1,home", "east,1,2,home"]
    (folder / "rows.csv").write_text("\n".join([*rows, "round,-200,200,nowhere"]))
    islands = [("fiji", (179, 1, 181, 2)), ("home", (-1, 1, 1, 2))]
    features = [
        {
            "type": "Feature",
            "properties": {"isle": name},
            "geometry": {"type": "Polygon", "coordinates": polygon(*box)},
        }
        for name, box in islands
    ]
    (folder / "isles.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    do(
        session,
        folder,
        """CREATE MOVING STREAM ships (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)
          KEY oid LOCATION (lon, lat) TIME ts FROM FILE 'ships.csv';
        CREATE REGIONS isles FROM FILE 'isles.geojson' NAME isle;""",
    )
    each = "REGISTER QUERIES FROM FILE 'rows.csv' KEY {key} AS SELECT oid FROM ships {where};"
    boxes = each.format(key="id", where="WHERE oid <> 'z' INSIDE RECT(:x1, 1, :x2, 2)")
    [told] = do(session, folder, boxes)
    assert told.text.splitlines()[0] == "4 queries registered from rows.csv"
    assert told.text.splitlines()[-1].endswith("rows.csv:5: the name east occurs twice")
    [told] = do(session, folder, each.format(key="isle", where="INSIDE isles[:isle]"))
    assert told.text.splitlines()[0] == "2 queries registered from rows.csv"
    [told] = [found for found in do(session, folder, "DUMP;") if isinstance(found, Script)]
    assert (
        "REGISTER QUERY east AS SELECT oid FROM ships WHERE oid <> 'z' INSIDE RECT(179, 1, 181, 2);"
        in told.text
    )
    found = [
        (line["query"], line["key"]) for line in parsed(run_script(session, "RUN;", folder / "script.stq"))
    ]
    assert found == [
        *[("east", "a"), ("east", "b"), ("far", "a"), ("fiji", "a"), ("fiji", "b"), ("here", "c")],
        ("home", "c"),
        *[("round", "a"), ("round", "b"), ("round", "c")],
    ]


def test_regions_of_rows_go_on_beyond_the_180th_meridian_wherever_they_stand(
    session: Session, folder: Path
) -> None:
    places = (("a", 179.5), ("b", -179.5), ("c", 0))
    lines = [f"{oid},{lon},1.5,2020-01-01 00:00:00" for oid, lon in places]
    (folder / "ships.csv").write_text("\n".join(["oid,lon,lat,ts", *lines]))
    (folder / "rows.csv").write_text("id,x1,x2,isle\neast,179,181,fiji\nhere,-1,1,home\n")
    islands = [("fiji", (179, 1, 181, 2)), ("home", (-1, 1, 1, 2))]
    features = [
        {
            "type": "Feature",
            "properties": {"isle": name},
            "geometry": {"type": "Polygon", "coordinates": polygon(*box)},
        }
        for name, box in islands
    ]
    (folder / "isles.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    forms = {
        "or": "WHERE oid = 'c' OR loc INSIDE RECT(:x1, 1, :x2, 2)",
        "not": "WHERE NOT loc INSIDE RECT(:x1, 1, :x2, 2)",
        "edge": "WHERE oid = 'a' OR loc INSIDE RECT(:x1, 1, 182, 2)",
        "isle": "WHERE oid = 'z' OR loc INSIDE isles[:isle]",
        "both": "WHERE loc INSIDE isles[:isle] AND NOT loc INSIDE RECT(:x1, 1, 180, 2)",
    }
    queries = []
    for name, where in forms.items():
        (folder / f"{name}.csv").write_text((folder / "rows.csv").read_text().replace("\n", f"\n{name}_"))
        queries.append(f"REGISTER QUERIES FROM FILE '{name}.csv' KEY id AS SELECT oid FROM ships {where};")
    script = "\n".join(
        [
            "CREATE MOVING STREAM ships (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)",
            "  KEY oid LOCATION (lon, lat) TIME ts FROM FILE 'ships.csv';",
            "CREATE REGIONS isles FROM FILE 'isles.geojson' NAME isle;",
            *queries,
            "RUN;",
        ]
    )
    found: dict[str, str] = {}
    for line in parsed(run_script(session, script, folder / "script.stq")):
        found[line["query"]] = found.get(line["query"], "") + line["key"]
    assert found == {
        **{"or_east": "abc", "or_here": "c"},
        **{"not_east": "c", "not_here": "ab"},
        **{"edge_east": "ab", "edge_here": "abc"},
        **{"isle_east": "ab", "isle_here": "c"},
        "both_east": "b",
    }


@pytest.mark.parametrize(
    ("window", "remark"),
    [
        ("21 s", "; posts keeps events for 20 s, less than the window of 21 s: what is kept decides"),
        ("20 s", ""),
    ],
)
def test_registering_says_where_a_window_is_longer_than_what_is_kept(
    session: Session, folder: Path, window: str, remark: str
) -> None:
    text = f"{POSTS_SQL}REGISTER QUERY q AS SELECT COUNT(*) AS n FROM posts WINDOW {window};"
    assert do(session, folder, text)[-1] == Message(f"query q registered{remark}")
    told = do(session, folder, f"SUBSCRIBE SELECT COUNT(*) AS n FROM posts WINDOW {window};")
    assert told[:-1] == ([Message(remark.replace("; ", "sub_1: "))] if remark else [])


def test_a_dump_makes_the_same_again(session: Session, folder: Path) -> None:
    first = run_script(session, DEFINITIONS + QUERIES, folder / "script.stq")
    (script,) = [found for found in do(session, folder, "DUMP;") if isinstance(found, Script)]
    with local_session(folder / "others", slots=3) as other:
        assert run_script(other, script.text) == first
        (again,) = [found for found in other.execute("DUMP;") if isinstance(found, Script)]
    assert again.text == script.text


def test_a_dump_of_nothing_is_no_script(session: Session, folder: Path) -> None:
    assert do(session, folder, "DUMP;") == [Message("there is nothing to dump yet")]


def test_a_session_goes_on_after_a_restart_with_all_that_it_had(session: Session, folder: Path) -> None:
    whole = parsed(run_script(session, DEFINITIONS + QUERIES, folder / "script.stq"))
    with local_session(folder / "others", slots=2) as other:
        text = DEFINITIONS + QUERIES + "RUN 4 STEPS;"
        before = parsed(run_script_to_its_run(other, text, folder / "script.stq"))
        connection = LocalConnection(other.home, ControlDb(other.home.path, create=True))
        connection.engine = resumed(other.connection.engine)  # type: ignore[attr-defined]
        profile = load_profile(None, {})
        with Session(other.home, profile, autoplay=False, connection=connection) as again:
            after = parsed(run_script(again, "RUN;"))
    assert before + [line for line in after if line["step"] > 4] == whole


def run_script_to_its_run(session: Session, text: str, file: Path) -> bytes:
    """What a script prints up to its last RUN, without the one that its end implies."""
    import io

    from stqsh.client.run import RunHandle
    from stqsh.shell.writers.opening import open_writer
    from stqsh.shell.writers.writer import Target

    out = io.BytesIO()
    writer = open_writer("jsonl", Target(out))
    for outcome in session.outcomes(text, file=str(file)):
        if isinstance(outcome, RunHandle):
            for found in session.updates(until=outcome):
                writer.updates(found)
    return out.getvalue()


def resumed(old: LocalEngine) -> LocalEngine:
    """An engine that begins where another one stopped, with what that one has kept."""
    engine = LocalEngine(old.settings, memory=old.memory)
    engine.restart(arena=True)
    engine.offset, engine.number = old.offset, old.number
    return engine


def test_a_stream_of_events_may_come_late(session: Session, folder: Path) -> None:
    text = f"""
    {TAXIS_SQL}
    REGISTER QUERY cars AS SELECT oid FROM taxis INSIDE (9, 49, 11, 51);
    RUN 4 STEPS;
    {POSTS_SQL}
    REGISTER QUERY west AS SELECT id FROM posts INSIDE (9, 49, 11, 51);
    """
    lines = parsed(run_script(session, text, folder / "script.stq"))
    # Step 1 is the second of the first taxi, 00:00:02; what there was before the fifth comes with it.
    assert updates(lines, "west") == [
        (5, "+", 1, None),
        (5, "+", 2, None),
        (5, "+", 3, None),
        (21, "-", 1, "expired"),
        (22, "-", 2, "expired"),
        (25, "-", 3, "expired"),
        (29, "+", 5, None),
    ]


def test_what_queries_need_is_not_dropped(session: Session, folder: Path) -> None:
    do(session, folder, DEFINITIONS + QUERIES)
    for statement, message in (
        ("DROP TABLE people;", "table people has 1 query: teams"),
        ("DROP REGIONS zones;", "regions zones has 1 query: west"),
        ("DROP REGION near;", "region near has 1 query: cars"),
        ("DROP REGION wide;", "region wide has 2 queries: words, teams"),
        ("DROP STREAM posts;", "stream posts has 4 queries: words, west, teams, outside"),
        ("DROP REGION disc_too;", "region disc_too has 1 query: discs"),
        ("DROP REGION disc;", "region disc has 1 query: outside"),
    ):
        with pytest.raises(BindError, match=message) as caught:
            do(session, folder, statement)
        name = statement.rstrip(";").rpartition(" ")[-1]
        assert str(caught.value).splitlines()[2].endswith("^" * len(name))
    do(session, folder, "".join(f"DROP QUERY {name};" for name in ("words", "west", "cars", "teams")))
    do(session, folder, "".join(f"DROP QUERY {name};" for name in ("discs", "plain", "outside")))
    with pytest.raises(StqshError, match="region near is made from zones"):
        do(session, folder, "DROP REGIONS zones;")
    text = "DROP REGION near; DROP REGIONS zones; DROP REGION wide; DROP TABLE people; DROP STREAM posts;"
    told = [found.text for found in do(session, folder, text)]
    assert told == ["region near dropped", "regions zones dropped", "region wide dropped",
                    "table people dropped", "stream posts dropped"]  # fmt: skip
    assert do(session, folder, "DROP TABLE IF EXISTS people;") == [Message("there is no table people")]


def test_queries_and_what_they_need_may_go_in_one_batch(session: Session, folder: Path) -> None:
    text = DEFINITIONS + QUERIES + "RUN 2 STEPS;"
    text += "".join(f"DROP QUERY {name};" for name in ("words", "west", "cars", "teams"))
    text += "DROP TABLE people; DROP REGION near; DROP REGIONS zones; RUN 1 STEPS;"
    lines = parsed(run_script(session, text, folder / "script.stq"))
    assert updates(lines, "west")[-2:] == [(3, "-", 1, "dropped"), (3, "-", 2, "dropped")]
    assert [row for row in updates(lines, "teams") if row[1] == "-"] == [
        (3, "-", 1, "dropped"),
        (3, "-", 2, "dropped"),
    ]


def test_what_is_guessed_is_told(session: Session, folder: Path) -> None:
    text = "CREATE TABLE people FROM FILE 'people.csv';"
    text += "CREATE REGIONS zones FROM FILE 'zones.geojson' NAME zone;"
    table, regions = do(session, folder, text)
    assert table.text.splitlines() == [
        "table people created",
        "columns found: who STRING, team STRING",
        "guessed: KEY who",
    ]
    assert regions.text == "regions zones of 2 created"
    (told,) = do(session, folder, "CREATE REGIONS IF NOT EXISTS zones FROM FILE 'no.geojson';")
    assert told == Message("region zones exists already")
    with pytest.raises(StqshError, match="'zones' is in use"):
        do(session, folder, "CREATE TABLE zones FROM FILE 'people.csv';")


def test_an_unknown_member_is_named_with_a_near_one(session: Session, folder: Path) -> None:
    do(session, folder, DEFINITIONS)
    with pytest.raises(StqshError, match="zones has no region 'wset'") as caught:
        do(session, folder, "REGISTER QUERY q AS SELECT id FROM posts INSIDE zones['wset'];")
    assert "west" in str(caught.value) or "west" in str(caught.value.hint)


def test_a_table_that_cannot_be_read_is_one_clear_error(session: Session, folder: Path) -> None:
    text = "CREATE TABLE people (who STRING, team STRING) KEY who FROM FILE 'people*.csv';"
    (folder / "people.csv").rename(folder / "people-1.csv")
    do(session, folder, POSTS_SQL + text)
    (folder / "people-2.csv").write_text("who\nz\n")  # the CREATE has not seen this file
    with pytest.raises(SourceError, match="table people: no column team in"):
        do(session, folder, "RUN;")


def test_a_column_that_the_file_lacks_is_found_with_the_statement(session: Session, folder: Path) -> None:
    text = "CREATE TABLE people (who STRING, age BIGINT) KEY who FROM FILE 'people.csv';"
    with pytest.raises(BindError, match=r"1:\d+: no column age in"):
        do(session, folder, text)


def test_dead_letters_of_tables_and_events_are_shown(session: Session, folder: Path) -> None:
    run_script(session, POSTS_SQL + "CREATE TABLE people FROM FILE 'people.csv'; RUN;", folder / "script.stq")
    rows = [found for found in do(session, folder, "SHOW DEAD LETTERS;") if isinstance(found, Rows)]
    counts, letters = rows
    assert counts.rows == (("posts", 1), ("people", 2))
    assert [(name, line, reason) for name, _, line, reason, _ in letters.rows] == [
        ("posts", 6, "no location"),
        ("people", 4, "who: 'a' occurs again"),
        ("people", 5, "who: the key is empty"),
    ]
    file = folder / "bad.jsonl"
    said = do(
        session, folder, f"EXPORT DEAD LETTERS TO '{file}'; EXPORT DEAD LETTERS OF posts TO '{file}2.json';"
    )
    assert said[0] == Message(f"3 dead letters written to {file}")
    exported = [json.loads(line) for line in file.read_text().splitlines()]
    assert [tuple(found.values()) for found in exported] == list(letters.rows)
    assert len((folder / "bad.jsonl2.json").read_text().splitlines()) == 1
    do(session, folder, f"EXPORT DEAD LETTERS TO '{file}';")  # a file of letters may be replaced
    (folder / "mine.jsonl").write_text('{"mine": 1}')
    with pytest.raises(StqshError, match=r"mine.jsonl is there already and is not a file of dead letters"):
        do(session, folder, f"EXPORT DEAD LETTERS TO '{folder}/mine.jsonl';")
    assert (folder / "mine.jsonl").read_text() == '{"mine": 1}'
    with pytest.raises(BindError, match="JSON lines"):
        do(session, folder, "EXPORT DEAD LETTERS TO 'bad.csv';")
    with pytest.raises(StqshError, match="cannot write"):
        do(session, folder, "EXPORT DEAD LETTERS TO '/nowhere/bad.jsonl';")


def test_duplicates_are_counted_where_a_user_looks(session: Session, folder: Path) -> None:
    run_script(session, POSTS_SQL + "CREATE TABLE people FROM FILE 'people.csv'; RUN;", folder / "script.stq")
    (status,) = do(session, folder, "SHOW STATUS;")
    shown = dict(status.rows)
    assert (shown["duplicates"], shown["dead letters"]) == (1, 3)
    _, described = do(session, folder, "DESCRIBE posts;")
    items = dict(described.rows)
    assert (items["keep"], items["duplicates"], items["rows"]) == ("20 s", 1, 4)


def test_rectangles_go_on_beyond_the_meridian(session: Session, folder: Path) -> None:
    rows = ["oid,lon,lat,ts", "a,179.5,0.5,2025-01-01T00:00:01Z", "b,-179.5,0.5,2025-01-01T00:00:01Z"]
    rows += ["c,-180,0.5,2025-01-01T00:00:02Z", "d,178,0.5,2025-01-01T00:00:02Z"]
    (folder / "ships.csv").write_text("\n".join([*rows, ""]))
    do(session, folder, "CREATE MOVING STREAM ships FROM FILE 'ships.csv';")
    text = "REGISTER QUERY far AS SELECT oid FROM ships INSIDE (179, 0, 181, 1);"
    text += "REGISTER QUERY near AS SELECT oid FROM ships INSIDE RECT(120 km, 10 km) AROUND 'b'; RUN;"
    lines = parsed(run_script(session, text, folder / "script.stq"))
    assert [line["key"] for line in lines if line["query"] == "far"] == ["a", "b", "c"]
    assert [line["key"] for line in lines if line["query"] == "near"] == ["c"]
    for where, found in (
        ("INSIDE (179, 0, 181, 1)", ["a", "b", "c"]),
        ("INSIDE RECT(120 km, 10 km) AROUND 'b'", ["c"]),
        ("INSIDE RECT(340 km, 10 km) AROUND 'c'", ["a", "b"]),
        ("INSIDE RECT(450 km, 10 km) AROUND 'c'", ["a", "b", "d"]),
        ("WHERE NOT loc INSIDE (179.9, 0, 180.1, 1)", ["a", "b", "d"]),
        ("NEAREST 2 TO (179.9, 0.5)", ["c", "a"]),
        ("NEAREST 3 TO (-179.6, 0.5) LIMIT 2", ["b", "c"]),
    ):
        (answer,) = do(session, folder, f"SELECT oid FROM ships {where};")
        assert answer.table["oid"].to_pylist() == found


def test_stale_records_are_counted_over_all_batches(session: Session, folder: Path) -> None:
    lines = [
        "oid,lon,lat,ts",
        "a,1,1,2025-01-01T00:00:05Z",
        "a,2,2,2025-01-01T00:00:04Z",
        "a,1,1,2025-01-01T00:00:09Z",
    ]
    (folder / "log.csv").write_text("\n".join([*lines, ""]))
    script = "CREATE MOVING STREAM log FROM FILE 'log.csv' ORDER BY ARRIVAL; RUN 1 STEPS; RUN;"
    run_script(session, script, folder / "script.stq")
    [status] = do(session, folder, "SHOW STATUS;")
    shown = dict(status.rows)
    assert (shown["records"], shown["stale records"], shown["last batch: stale"]) == (3, 1, 0)


def test_a_generator_without_a_start_begins_where_the_clock_of_the_session_is(tmp_path: Path) -> None:
    (tmp_path / "taxis.csv").write_text(TAXIS.replace("2025-01-01", "2025-06-01"))
    made = "CREATE MOVING STREAM {} FROM GENERATOR 'network' (objects => 2{});"
    with local_session(tmp_path) as session:
        list(session.execute(TAXIS_SQL.replace("taxis.csv", str(tmp_path / "taxis.csv"))))
        [before] = session.execute(made.format("a", ""))
        [given] = session.execute(made.format("b", ", start => '2025-06-01T01:00:00Z'"))
        list(session.execute("RUN UNTIL '2025-06-01T00:00:05Z';"))
        [after] = session.execute(made.format("c", ""))
        [script] = session.execute("DUMP;")
    assert "it begins at 2025-06-01T00:00:02Z" in str(before)
    assert "it begins" not in str(given)
    assert "it begins at 2025-06-01T00:00:05Z" in str(after)
    assert str(script).count("start => '2025-06-01T00:00:05Z'") == 1, "a DUMP makes the same stream"
