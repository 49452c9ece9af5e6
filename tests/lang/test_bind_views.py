"""SELECTs over views bind to what they mean over the view's own stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as replace_field

from lang.binding import bound
from stqsh.lang.binder.bind import Catalogue, bind
from stqsh.lang.errors import BindError, NotSupportedError
from stqsh.lang.syntax.parse import parse

VIEWS = {
    "idle": "SELECT oid AS cab, speed * 3.6 AS kmh, n, lon, status FROM taxis t WHERE t.status = 'free'",
    "all_taxis": "SELECT * FROM taxis",
    "fans": "SELECT F.*, CASE WHEN stars > 3 THEN 'good' END AS how"
    " FROM taxis M, favourites F WHERE M.oid = F.oid",
    "campus_free": "SELECT cab FROM idle INSIDE campus",
    "by_status": "SELECT status, COUNT(*) AS cabs, AVG(speed) AS mean FROM taxis GROUP BY status",
    "named": "SELECT oid AS cab, UPPER(status) AS name FROM taxis",
    "kinds": "SELECT DISTINCT status FROM taxis",
    "fastest": "SELECT oid, speed FROM taxis ORDER BY speed DESC LIMIT 3",
    "near5": "SELECT oid, DISTANCE, speed FROM taxis NEAREST 5 TO (116, 40)",
    "recent": "SELECT COUNT(*) AS n FROM posts WINDOW 10 s",
}
FREE = "FROM taxis WHERE status = 'free'"
NEAR = "FROM taxis NEAREST 5 TO (116, 40)"
SAME: list[tuple[str, str]] = [
    (
        "SELECT * FROM idle",
        "SELECT oid AS cab, speed * 3.6 AS kmh, n, lon, status FROM taxis WHERE status = 'free'",
    ),
    (
        "SELECT f.cab, kmh FROM idle f",
        "SELECT oid AS cab, speed * 3.6 AS kmh FROM taxis WHERE status = 'free'",
    ),
    (
        "SELECT cab FROM idle WHERE kmh > 30 INSIDE campus",
        "SELECT oid AS cab FROM taxis WHERE status = 'free' AND speed * 3.6 > 30 AND loc INSIDE campus",
    ),
    ("SELECT kmh + 1 AS more FROM idle", "SELECT speed * 3.6 + 1 AS more FROM taxis WHERE status = 'free'"),
    (
        "SELECT n % 2 AS odd, COUNT(*), MAX(kmh) FROM idle GROUP BY odd HAVING MAX(kmh) > 1 ORDER BY odd",
        "SELECT n % 2 AS odd, COUNT(*), MAX(speed * 3.6) FROM taxis WHERE status = 'free'"
        " GROUP BY odd HAVING MAX(speed * 3.6) > 1 ORDER BY odd",
    ),
    ("SELECT DISTINCT n FROM idle", "SELECT DISTINCT n FROM taxis WHERE status = 'free'"),
    (
        "SELECT cab, ST_X(loc) AS x FROM idle NEAREST 2 TO (116, 40)",
        "SELECT oid AS cab, ST_X(loc) AS x FROM taxis WHERE status = 'free' NEAREST 2 TO (116, 40)",
    ),
    ("SELECT * FROM campus_free", "SELECT oid AS cab FROM taxis WHERE status = 'free' INSIDE campus"),
    ("SELECT oid, n FROM all_taxis WHERE oid = 7", "SELECT oid, n FROM taxis WHERE oid = 7"),
    ("SELECT all_taxis.* FROM all_taxis", "SELECT * FROM taxis"),
    (
        "SELECT oid, how FROM fans WHERE stars > 1",
        "SELECT F.oid, CASE WHEN stars > 3 THEN 'good' END AS how FROM taxis M, favourites F"
        " WHERE M.oid = F.oid AND stars > 1",
    ),
    (
        "SELECT status, cabs FROM by_status WHERE cabs > 2 ORDER BY mean LIMIT 1",
        "SELECT status, COUNT(*) AS cabs FROM taxis GROUP BY status HAVING COUNT(*) > 2"
        " ORDER BY AVG(speed) LIMIT 1",
    ),
    (
        "SELECT status FROM kinds WHERE status <> 'a'",
        "SELECT status FROM taxis GROUP BY status HAVING status <> 'a'",
    ),
    ("SELECT speed FROM fastest", "SELECT speed FROM taxis ORDER BY speed DESC LIMIT 3"),
    (
        "SELECT oid, distance FROM near5 LIMIT 2",
        f"SELECT oid, DISTANCE {NEAR} LIMIT 2",
    ),
    (
        "SELECT AVG(DISTANCE) AS far FROM near5",
        f"SELECT AVG(DISTANCE) AS far {NEAR}",
    ),
    ("SELECT n FROM recent", "SELECT COUNT(*) AS n FROM posts WINDOW 10 s"),
    (
        "SELECT f.cab, kmh, stars FROM idle f, favourites g WHERE f.cab = g.oid AND kmh > 3",
        "SELECT f.oid AS cab, f.speed * 3.6 AS kmh, stars FROM taxis f, favourites g"
        " WHERE f.status = 'free' AND f.oid = g.oid AND f.speed * 3.6 > 3",
    ),
    (
        "SELECT * FROM campus_free, favourites WHERE cab = oid",
        "SELECT t.oid AS cab, name, stars, since FROM taxis t, favourites f"
        " WHERE t.status = 'free' AND t.oid = f.oid INSIDE campus",
    ),
    (
        "SELECT v.oid, how, age FROM fans v, drivers d WHERE v.name = d.name AND v.loc INSIDE campus",
        "SELECT F.oid, CASE WHEN F.stars > 3 THEN 'good' END AS how, age"
        " FROM taxis M, favourites F, drivers d"
        " WHERE M.oid = F.oid AND F.name = d.name AND loc INSIDE campus",
    ),
    (
        "SELECT oid, n, stars FROM all_taxis a, favourites f WHERE a.oid = f.oid ORDER BY n LIMIT 2",
        "SELECT oid, n, stars FROM taxis a, favourites f WHERE a.oid = f.oid ORDER BY n LIMIT 2",
    ),
    (
        "SELECT status, COUNT(*) AS n, MAX(stars) FROM all_taxis a, favourites g WHERE a.oid = g.oid"
        " GROUP BY status",
        "SELECT status, COUNT(*) AS n, MAX(stars) FROM taxis a, favourites g WHERE a.oid = g.oid"
        " GROUP BY status",
    ),
]


@pytest.fixture(scope="module")
def views(taxis: Catalogue) -> Catalogue:
    table = bind(
        parse("CREATE TABLE drivers (name STRING, age INT) FROM FILE 'd.csv' KEY name")[0], taxis
    ).spec
    known = replace(taxis, tables={**taxis.tables, "drivers": replace_field(table, id=11)})
    for name, select in VIEWS.items():
        spec = bind(parse(f"CREATE VIEW {name} AS {select}")[0], known).spec
        known = replace(known, views={**known.views, name: spec})
    return known


@pytest.mark.parametrize(("over", "plain"), SAME, ids=[over for over, _ in SAME])
def test_a_select_over_a_view_is_that_over_its_stream(over: str, plain: str, views: Catalogue) -> None:
    assert _spec(over, views) == _spec(plain, views)
    for before in ("REGISTER QUERY q AS ", "SUBSCRIBE "):
        if "WINDOW" not in plain:
            assert _spec(before + over, views) == _spec(before + plain, views)


def _spec(text: str, views: Catalogue) -> Any:
    return {**bound(text, views).spec, "text": ""}


def test_a_registered_query_does_not_depend_on_the_view(views: Catalogue) -> None:
    spec = bind(parse("REGISTER QUERY q AS SELECT cab FROM idle WHERE kmh > 30")[0], views).spec
    assert spec.text == "SELECT oid AS cab FROM taxis t WHERE t.status = 'free' AND speed * 3.6 > 30"


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("SELECT oid FROM idle", "view idle has no column 'oid'", "oid"),
        ("SELECT cab FROM idle WHERE speed > 3", "view idle has no column 'speed'", "speed"),
        ("SELECT t.cab FROM idle", "unknown stream or alias 't'", "t.cab"),
        (
            "SELECT cab, lat FROM idle, favourites WHERE cab = oid",
            "none of idle and favourites has a column 'lat'",
            "lat",
        ),
        (
            "SELECT cab FROM idle, nobody WHERE cab = oid",
            "unknown stream or table 'nobody'",
            "nobody",
        ),
        ("SELECT x.* FROM idle, favourites WHERE cab = oid", "unknown stream or alias 'x'", "x"),
        (
            "SELECT name FROM named a, favourites f WHERE a.cab = f.oid",
            "'name' is a column of both; write a.name or f.name",
            "name",
        ),
        (
            "SELECT kmh || 'a' AS x FROM idle",
            "|| takes strings, whole numbers and BOOLEANs, but speed * 3.6 is a DOUBLE",
            "kmh",
        ),
        ("CREATE VIEW taxis AS SELECT * FROM posts", "the name 'taxis' is in use by a stream", "taxis"),
        ("CREATE VIEW v AS SELECT nothing FROM taxis", "stream taxis has no column 'nothing'", "nothing"),
        ("DROP VIEW idel", "unknown view 'idel'", "idel"),
        (
            "CREATE VIEW v AS SELECT n, small AS n FROM taxis",
            "two columns of the view are called 'n'",
            "small",
        ),
    ],
)
def test_what_does_not_fit_a_view_is_told(
    text: str, message: str, place: str | None, views: Catalogue
) -> None:
    with pytest.raises(BindError) as caught:
        bound(text, views)
    assert caught.value.message == message
    assert place in (None, text[caught.value.span.start : caught.value.span.end])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT COUNT(*) FROM by_status", "groups and regions over the view by_status, which has groups"),
        (
            "SELECT oid FROM fastest WHERE speed > 3",
            "more than columns of the view fastest, which has a LIMIT",
        ),
        ("SELECT oid FROM near5 WHERE speed > 3", "conditions on the view near5, which has NEAREST"),
        ("SELECT n FROM recent WINDOW 1 s", "WINDOW over the view recent, which has one"),
        ("SELECT idle.* FROM idle a, idle b WHERE a.cab = b.cab", "joins of streams with each other"),
        ("SELECT cab FROM idle, taxis WHERE cab = oid", "joins of streams with each other"),
        (
            "SELECT * FROM by_status s, favourites g WHERE s.status = g.oid",
            "joins with the view by_status, which has groups",
        ),
        (
            "SELECT * FROM fastest s, favourites g WHERE s.oid = g.oid",
            "joins with the view fastest, which has a LIMIT",
        ),
        (
            "SELECT s.oid FROM near5 s, favourites g WHERE s.oid = g.oid",
            "joins with the view near5, which has NEAREST",
        ),
        ("CREATE VIEW v AS SELECT oid FROM taxis SYNC 1 s", "SYNC in a view"),
    ],
)
def test_what_no_single_select_means(text: str, what: str, views: Catalogue) -> None:
    with pytest.raises(NotSupportedError) as caught:
        bound(text, views)
    assert caught.value.message == f"not supported yet: {what}"
