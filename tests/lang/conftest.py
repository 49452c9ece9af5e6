"""A catalogue: a stream of taxis, a planar one with whole keys, one of events, a table, regions, queries."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stqsh.lang.binder.bind import Catalogue, bind
from stqsh.lang.syntax.parse import parse
from stqsh.settings import KEYS
from stqsh.spec.stream import AreaSpec

TAXIS = """CREATE MOVING STREAM taxis (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, seen TIMESTAMP,
    status STRING, speed DOUBLE, n BIGINT, small INT, level FLOAT, active BOOLEAN)
  KEY oid LOCATION (lon, lat) TIME ts FROM FILE 'taxis/*.csv' REPORT EVERY 30 s"""
ROBOTS = """CREATE MOVING STREAM robots (id INT, x DOUBLE, y DOUBLE, time TIMESTAMP)
  FROM GENERATOR 'network' PLANAR"""


POSTS = """CREATE EVENT STREAM posts (id BIGINT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, body STRING)
  TEXT body FROM FILE 'posts/*.jsonl' KEEP 72 hours"""
FAVOURITES = "CREATE TABLE favourites (oid STRING, name STRING, stars INT, since TIMESTAMP) FROM FILE 'f.csv'"
CAMPUS = AreaSpec(id=20, name="campus")
ZONES = AreaSpec(id=21, name="zones", set=True, members=("north", "south", "7"))
QUERIES = """REGISTER QUERY free AS SELECT oid AS cab, speed FROM taxis WHERE status = 'free';
REGISTER QUERY close AS SELECT oid, speed * 3.6 AS kmh, DISTANCE AS far, HOUR(ts)
  FROM taxis INSIDE CIRCLE(116, 40, 1 km);
REGISTER QUERY liked AS SELECT M.oid, name FROM taxis M, favourites F WHERE M.oid = F.oid"""


@pytest.fixture(scope="session")
def taxis() -> Catalogue:
    streams = {}
    for number, text in enumerate((TAXIS, ROBOTS, POSTS), start=3):
        spec = bind(parse(text)[0], Catalogue()).spec
        streams[spec.name] = replace(spec, id=number)
    table = replace(bind(parse(FAVOURITES)[0], Catalogue()).spec, id=10)
    tables, areas = {"favourites": table}, {"campus": CAMPUS, "zones": ZONES}
    known = Catalogue(streams, tables=tables, areas=areas)
    queries = {}
    for number, query in enumerate(parse(QUERIES), start=7):
        spec = bind(query, known).spec
        queries[spec["name"]] = {**spec, "id": number}
    settings = {key.name: key.default() for key in KEYS}
    return Catalogue(streams, queries, settings, tables, areas)
