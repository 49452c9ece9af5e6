"""Queries that come and go by the thousand: as if they had come one by one, but for the rows of the log."""

from __future__ import annotations

import dataclasses

import pytest

from stqsh.client.api import Session
from stqsh.client.connection import Connection
from stqsh.client.engine_process import EngineInfo
from stqsh.client.statements.describe import dump
from stqsh.errors import StqshError
from stqsh.lang.bulk_parse import parse_pieces
from stqsh.lang.syntax.parse import parse
from stqsh.lang.syntax.split import split
from stqsh.profile import load_profile
from stqsh.storage.catalogue import find_query, live_queries, queries_over_table
from stqsh.storage.control_log import ControlDb, read_log
from stqsh.storage.home import open_home, remove_home

CREATE = (
    "CREATE MOVING STREAM taxis (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP) KEY oid "
    "LOCATION (lon, lat) TIME ts FROM FILE 'taxis.csv';"
)
SHAPES = (
    "REGISTER QUERY {} AS SELECT oid FROM taxis INSIDE ({}, {}, {}, {})",
    "REGISTER QUERY {} FOR 5 min AS SELECT oid, lon FROM taxis WHERE lat > 1.5 INSIDE CIRCLE({}, {}, 2 km)",
    "REGISTER QUERY {} AS SELECT oid, DISTANCE FROM taxis NEAREST 3 TO ({}, {})",
    "REGISTER QUERY {} WITH (dwell => 3 s) AS SELECT oid FROM taxis WHERE oid = '{}'",
    "REGISTER QUERY {} AS SELECT oid FROM taxis INSIDE RECT(2 km, 100 m) AROUND '{}'",
    "REGISTER QUERY {} FOR 5 min AS SELECT oid, DISTANCE FROM taxis INSIDE CIRCLE(2.5) AROUND {}",
    "REGISTER QUERY {} AS SELECT oid, DISTANCE FROM taxis WHERE lon > 2 NEAREST 3 TO '{}'",
    "REGISTER QUERY {} AS SELECT oid FROM buses INSIDE ('M', '{}', 100 m, 2 km)",
    "REGISTER QUERY {} AS SELECT oid FROM buses NEAREST 3 TO {}",
)


FIRST_MOVING = 4


@pytest.fixture(params=["quick", "slow"])
def session(request, tmp_path, monkeypatch):
    yield from opened(tmp_path, monkeypatch, quick=request.param == "quick")


def opened(folder, monkeypatch, *, quick):
    if not quick:
        monkeypatch.setattr(
            "stqsh.client.api.parse_pieces",
            lambda pieces: parse(pieces[0].source.text, pieces[0].source.file),
        )
    folder.mkdir(exist_ok=True)
    home = open_home("s", root=folder)
    link = Connection(home, ControlDb(home.path, clock=lambda: 7), lambda home: EngineInfo(0, 0, 0, "ready"))
    session = Session(home, load_profile(None), autoplay=False, link=link)
    folder.joinpath("taxis.csv").write_text("oid,lon,lat,ts\na,1,2,2008-02-02 15:00:00\n")
    buses = CREATE.replace("taxis (oid STRING", "buses (oid INT")
    list(session.execute(CREATE + buses, file=str(folder / "f.stq")))
    yield session
    link.db.close()


def script(shape, count=40, prefix="q"):
    holes = SHAPES[shape].count("{}") - 1
    if shape >= FIRST_MOVING:
        return "".join(SHAPES[shape].format(f"{prefix}{row}", row) + ";\n" for row in range(count))
    numbers = [[((row * 7 + hole * 3) % 50) / 4 - 3 for hole in range(holes)] for row in range(count)]
    return "".join(SHAPES[shape].format(f"{prefix}{row}", *some) + ";\n" for row, some in enumerate(numbers))


def told(session, text):
    """What statements say, up to the first that fails, and what is there then."""
    said = []
    try:
        said += [outcome.text for outcome in session.execute(text, file="f.stq")]
    except StqshError as error:
        said.append(error.text())
    there = [dataclasses.replace(query, seq=0) for query in live_queries(session.link.db)]
    return said, there, dump(session.link).text


TEXTS = {
    **{f"shape {shape}": script(shape) for shape in range(len(SHAPES))},
    **{
        f"circles of many sizes, from {least} on": "".join(
            f"REGISTER QUERY q{row} AS SELECT oid FROM taxis INSIDE CIRCLE({row}.5, 2, {row + least} m);\n"
            for row in range(40)
        )
        for least in (1, 0, -9)
    },
    **{
        f"around objects, {lengths}": "".join(
            f"REGISTER QUERY q{row} AS SELECT oid FROM taxis INSIDE {lengths.format(row - 1, row)};\n"
            for row in range(40)
        )
        for lengths in (
            "RECT({0} m, 2 km) AROUND 'it''s {1}'",
            "RECT(2.5, {0}.5 m) AROUND 'x'",
            "CIRCLE({0} m) AROUND {1}",
            "CIRCLE({1}.25) AROUND '0{0}'",
        )
    },
    "a key that is none": script(7, 30).replace("'9'", "'nine'"),
    "a key too large": script(8, 30).replace("TO 9;", "TO 9999999999;"),
    "keys of whole numbers in quotes": script(7).replace("'1", "'01").replace("'2", "' 2"),
    "two shapes": script(0, 20) + script(1, 20, "r") + script(2, 20, "s"),
    "a name that is in use": script(0, 40) + script(0, 20),
    "a name that comes twice": script(0, 20) + script(0, 20),
    "the name of a stream": script(0, 30).replace("q7 ", "taxis "),
    "a place beyond the pole": script(2, 30).replace("(8.0, ", "(8.0, 9"),
    "dropped": script(0) + "".join(f"DROP QUERY q{row};" for row in range(5, 30)),
    "dropped twice": script(0) + "".join(f"DROP QUERY q{row % 30};" for row in range(40)),
    "dropped if there": script(0) + "".join(f"DROP QUERY IF EXISTS q{row};" for row in range(60)),
    "paused": script(0) + "PAUSE QUERY q3; PAUSE QUERY q9; RESUME QUERY q3;",
    "no stream": script(0).replace("taxis", "taxi"),
    "a fault in the middle": script(0)
    + "REGISTER QUERY x AS SELECT oid FROM taxis INSIDE (1, 2);"
    + script(1, 9, "r"),
}


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_many_at_once_do_what_one_after_the_other_does(name, tmp_path, monkeypatch):
    results = []
    for quick in (True, False):
        with monkeypatch.context() as patch:
            for session in opened(tmp_path, patch, quick=quick):
                results.append(told(session, TEXTS[name]))
                remove_home(session.home)
    assert results[0] == results[1]
    assert list(map(repr, results[0][1])) == list(map(repr, results[1][1]))  # 1 is not 1.0 here


def test_a_thousand_queries_are_a_row_of_the_log(tmp_path, monkeypatch):
    for session in opened(tmp_path, monkeypatch, quick=True):
        list(session.execute(script(0, 1000) + "".join(f"DROP QUERY q{row};" for row in range(500))))
        kinds = [row.kind for row in read_log(session.link.db)]
        assert kinds == [*["create_stream"] * 2, "register_alike", "drop_alike"]
        assert len(session.queries()) == 500 and find_query(session.link.db, "q7").state == "dropped"


def test_statements_are_counted_whichever_way_they_are_done(session):
    begun = []
    statements = parse_pieces(split(script(0, 700) + "SHOW QUERIES;" + script(0, 700)))
    with pytest.raises(StqshError, match="q0"):
        list(session.execute(statements, on_statement=begun.append))
    assert begun[-1] == 702 and 701 in begun


def test_tables_know_the_queries_that_came_together(session):
    assert queries_over_table(session.link.db, 99) == []
    list(session.execute(script(0)))
    assert queries_over_table(session.link.db, 99) == []


@pytest.mark.parametrize("shape", range(FIRST_MOVING, len(SHAPES)))
def test_queries_that_move_tell_whose_places_have_to_be_looked_up(shape, tmp_path, monkeypatch):
    for session in opened(tmp_path, monkeypatch, quick=True):
        list(session.execute(script(shape)))
        *_, row = read_log(session.link.db, whole=False)
        assert row.kind == "register_alike"
        keys = range(40) if "buses" in SHAPES[shape] else map(str, range(40))
        assert row.spec["focal"] == [*keys]
