"""EXPLAIN, SHOW QUERY, SHOW TABLES and REGIONS, DESCRIBE: what a session says of how things are answered."""

from __future__ import annotations

from contextlib import suppress

import pytest
from support.local import local_session

from stqsh.client.results import Rows
from stqsh.lang.errors import NotSupportedError

CREATE = """
CREATE MOVING STREAM taxis (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP, n BIGINT)
  KEY oid LOCATION (x, y) TIME ts FROM FILE '{folder}/taxis.csv' PLANAR;
CREATE TABLE favourites (oid STRING, who STRING) KEY oid FROM FILE '{folder}/favourites.csv';
CREATE REGION corner AS POLYGON ((0 0, 4 0, 4 4, 0 0));
REGISTER QUERY box AS SELECT oid FROM taxis INSIDE (0, 0, 4, 4);
REGISTER QUERY few FOR 1 hour WITH (dwell => 2 s) AS SELECT oid FROM taxis WHERE n > 90 INSIDE corner;
REGISTER QUERY fans AS SELECT T.oid, F.who FROM taxis T, favourites F WHERE T.oid = F.oid INSIDE (0, 0, 4, 4);
RUN;
"""


@pytest.fixture(scope="module", params=[True, False], ids=["published", "by log"])
def session(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain")
    rows = [f"o{i},{i % 10},{i // 10},2008-02-02T15:00:{i % 60:02d}Z,{i}" for i in range(100)]
    (folder / "taxis.csv").write_text("\n".join(["oid,x,y,ts,n", *rows, ""]))
    (folder / "favourites.csv").write_text("oid,who\no1,ann\no2,bob\n")
    with local_session(folder, slots=2, published=request.param) as session:
        rows_of(session, CREATE.format(folder=folder))
        yield session


def rows_of(session, text) -> list[Rows]:
    return [outcome for outcome in session.outcomes(text) if isinstance(outcome, Rows)]


def items(session, text):
    [rows] = rows_of(session, text)
    assert rows.columns == ("item", "value")
    return dict(rows.rows)


def test_a_snapshot_tells_how_it_finds_its_objects_and_what_lies_in_its_box(session):
    told = items(session, "EXPLAIN SELECT oid FROM taxis INSIDE (0, 0, 4, 4);")
    assert told["kind"] == "snapshot range"
    assert told["box"] == "(0, 0, 4, 4)"
    assert told["area of the box"] == "16 square units"
    assert told["objects in the box"] == "25 (25 %)"
    assert told["access"] == "scan of 100 objects against the box"
    assert told["registered: candidates per record"] == "0.25"


def test_a_snapshot_tells_what_it_makes_of_its_members(session):
    for select, kind in (
        ("COUNT(*)", "snapshot count of range"),
        ("SUM(n)", "snapshot aggregate of range"),
    ):
        assert items(session, f"EXPLAIN SELECT {select} FROM taxis INSIDE (0, 0, 4, 4);")["kind"] == kind


PARTS = {
    "SELECT oid FROM taxis": (
        "all objects", "a row for each: oid", "once"),
    "SELECT oid, n FROM taxis WHERE n > 2 INSIDE corner ORDER BY n DESC, x LIMIT 3": (
        "objects in corner where n > 2", "the first 3 by n DESC, x: oid, n", "once"),
    "SELECT COUNT(*) AS c FROM taxis NEAREST 3 TO 'o44'": (
        "the 3 objects nearest to 'o44'", "their number: c", "once"),
    "SELECT who, COUNT(*) AS c, AVG(n + 1) FROM taxis T, favourites F WHERE T.oid = F.oid GROUP BY who"
    " HAVING c > 1 ORDER BY c DESC LIMIT 2 WINDOW 5 min": (
        "all objects with a row in favourites",
        "a row for each who, if count > 1; the first 2 by count DESC: who, c, avg",
        "once, over the last 5 min"),
    "SELECT DISTINCT n, x FROM taxis NEAREST 2 TO (1, 2.5)": (
        "the 2 objects nearest to (1, 2.5)", "a row for each n, x: n, x", "once"),
}  # fmt: skip


@pytest.mark.parametrize(("select", "parts"), PARTS.items(), ids=PARTS)
def test_a_query_is_its_members_its_result_and_its_timing(session, select, parts):
    told = items(session, f"EXPLAIN {select};")
    assert (told["members"], told["result"], told["timing"]) == parts


TIMINGS = {
    "FOR 1 hour WITH (dwell => 2 s, changes => true) AS SELECT oid FROM taxis": (
        "after each step in which something changes; changes wait until they have lasted 2 s;"
        " rows that change are sent again; ends after 1 hour"
    ),
    "AS SELECT COUNT(*) FROM taxis SYNC 10 s": "every 10 s",
    "AS SELECT oid FROM taxis WINDOW 1 min SLIDE 10 s": "every 10 s, over the last 1 min",
    "AS SELECT oid FROM taxis ORDER BY ts > NOW LIMIT 2": "after each step, also without records",
}


@pytest.mark.parametrize(("query", "timing"), TIMINGS.items(), ids=TIMINGS)
def test_a_registered_query_tells_when_it_looks_and_what_holds_it_back(session, query, timing):
    session.execute(f"REGISTER QUERY timed {query};")
    try:
        assert items(session, "EXPLAIN timed;")["timing"] == timing
        session.execute("PAUSE QUERY timed;")
        assert items(session, "EXPLAIN timed;")["timing"] == f"{timing}; paused"
    finally:
        session.execute("DROP QUERY timed;")


def test_a_key_comes_before_everything_else(session):
    told = items(session, "EXPLAIN SELECT * FROM taxis WHERE oid = 'o4';")
    assert told["plan"] == "key lookup -> box filter -> filter"
    assert told["access"].startswith("key: ")


def test_neighbours_are_sought_until_k_satisfy_the_condition(session):
    told = items(session, "EXPLAIN SELECT oid FROM taxis WHERE n > 2 NEAREST 3 TO 'o44';")
    assert told["plan"].endswith("filter -> k nearest")
    assert told["registered: candidates per record"] == "0.04"


def test_a_registered_query_tells_its_index_and_the_order_of_its_operators(session):
    told = items(session, "EXPLAIN few;")
    assert told["kind"] == "continuous range"
    assert told["region"] == "corner"
    assert told["plan"] == "box filter -> region filter -> filter"
    assert told["index"].startswith("grid: ")
    assert told["slots"].startswith("2 of 2")
    assert told["of the box in the answer"] == "0 % (of 25 objects looked at)"
    assert "updates so far" not in told


def test_a_join_stands_after_the_spatial_operator_and_the_reason_is_told(session):
    told = items(session, "EXPLAIN fans;")
    assert told["plan"].startswith("box filter -> hash join with favourites on oid = oid")
    assert told["why"] == "the region leaves 25 % of the objects; a table's row is looked up for those only"


def test_analyze_tells_what_a_query_has_cost(session):
    rows, *operators = rows_of(session, "EXPLAIN ANALYZE box;")
    told = dict(rows.rows)
    for one in operators:  # none where the engine has not measured its batches
        assert one.title == "operators of the last batch, for all queries"
        assert one.rows[-1][:3] == ("the whole batch", 100, 27)
    assert told["updates so far"] == 25
    assert told["share of time so far"].startswith("about ")


def test_show_query_tells_all_about_one(session):
    told = items(session, "SHOW QUERY few;")
    assert (told["kind"], told["stream"], told["state"], told["answer"]) == ("range", "taxis", "active", 0)
    assert told["ends"] == "1 hour of event time after it began"
    assert told["options"] == "dwell 2 s"
    assert items(session, "SHOW QUERY fans;")["joined with"] == "favourites on oid = oid"


def test_tables_and_regions_are_listed_with_the_queries_that_use_them(session):
    [tables] = rows_of(session, "SHOW TABLES;")
    [row] = tables.rows
    assert dict(zip(tables.columns, row, strict=True)) | {"source": None} == {
        "name": "favourites",
        "key": "oid",
        "state": "ready",
        "rows": 2,
        "dead letters": 0,
        "queries": 1,
        "source": None,
        "message": "",
    }
    [regions] = rows_of(session, "SHOW REGIONS;")
    assert regions.rows == (("corner", "region", 1, 1, None),)


def test_tables_and_regions_are_described(session):
    columns, about = rows_of(session, "DESCRIBE favourites;")
    assert columns.rows == (("oid", "STRING", "key"), ("who", "STRING", None))
    assert dict(about.rows)["queries"] == "fans"
    corner = items(session, "DESCRIBE corner;")
    assert corner["queries"] == "few"
    assert (corner["shape"], corner["extent"]) == ("polygon of 3 corners", "(0, 0, 4, 4)")
    assert corner["area"] == "8 square units" and corner["text"].startswith("POLYGON ((")


def test_a_keyword_query_tells_how_rare_its_terms_are(tmp_path):
    rows = [f"{i},1,1,2008-02-02T15:00:{i % 60:02d}Z,{'rain' if i % 10 else 'rare rain'}" for i in range(100)]
    (tmp_path / "posts.csv").write_text("\n".join(["id,x,y,ts,body", *rows, ""]))
    create = (
        "CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, body STRING) KEY id "
        f"LOCATION (x, y) TIME ts TEXT body FROM FILE '{tmp_path}/posts.csv' PLANAR;"
        "REGISTER QUERY rare AS SELECT id FROM posts WHERE body CONTAINS 'rain rare'; RUN;"
    )
    with local_session(tmp_path, slots=2) as session:
        rows_of(session, create)
        told = items(session, "EXPLAIN rare;")
        assert told["index"].startswith("keyword index")
        assert told["why"].startswith("terms are rarer")
        assert "rarest term 'rare'" in told["candidates per record"]


def test_a_query_that_requires_a_value_is_in_the_keyword_index(session):
    for condition, index in (("n = 12", "keyword index"), ("n > 12", "grid"), ("n = 12 OR n = 13", "grid")):
        told = items(session, f"EXPLAIN SELECT oid FROM taxis WHERE {condition} INSIDE corner;")
        assert told["registered: index"].startswith(index)


def test_explain_names_the_index_that_the_session_chooses(session):
    rows_of(session, "SET index.queries = chtree;")
    for condition in ("n = 12", "n > 12"):
        told = items(session, f"EXPLAIN SELECT oid FROM taxis WHERE {condition} INSIDE corner;")
        assert told["registered: index"] == "CH-trees (of at most 1,000,000 queries)"
    rows_of(session, "SET index.tree_queries = 1000;")
    told = items(session, "EXPLAIN SELECT oid FROM taxis WHERE n > 12 INSIDE corner;")
    assert told["registered: index"] == "CH-trees (of at most 1,000 queries)"
    rows_of(session, "SET index.queries = forest;")
    told = items(session, "EXPLAIN SELECT oid FROM taxis WHERE n > 12 INSIDE corner;")
    assert told["registered: index"].startswith("grid") and "trees" not in told["registered: index"]
    rows_of(session, "SET index.queries = auto;")
    told = items(session, "EXPLAIN SELECT oid FROM taxis WHERE n > 12 INSIDE corner;")
    assert told["registered: index"].endswith("cells; CH-trees if many queries ask for such intervals")


def test_explain_names_the_index_that_each_query_is_in(tmp_path):
    rows = [f"{i},1,1,2008-02-02T15:00:{i % 60:02d}Z,{i % 100}" for i in range(600)]
    (tmp_path / "posts.csv").write_text("\n".join(["id,x,y,ts,likes", *rows, ""]))
    create = (
        "CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, likes INT) KEY id "
        f"LOCATION (x, y) TIME ts FROM FILE '{tmp_path}/posts.csv' PLANAR;"
    )
    asked = [
        f"REGISTER QUERY q{i} AS SELECT id FROM posts WHERE likes BETWEEN {i} AND {i};" for i in range(40)
    ]
    wide = "REGISTER QUERY wide AS SELECT id FROM posts WHERE likes < 90;"
    with local_session(tmp_path, slots=2) as session:
        rows_of(session, f"{create} {' '.join(asked)} {wide} RUN 30 STEPS;")
        assert items(session, "EXPLAIN q3;")["index"] == "CH-trees (of at most 1,000,000 queries)"
        assert items(session, "EXPLAIN wide;")["index"].startswith("grid: ")
        rows_of(session, "SET index.queries = forest; RUN 10 STEPS;")
        assert items(session, "EXPLAIN q3;")["index"].startswith("grid: ")


def test_explain_says_that_a_window_is_made_up_of_intervals(tmp_path):
    create = (
        "CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP) KEY id LOCATION (x, y)"
        f" TIME ts FROM FILE '{tmp_path}/posts.csv' PLANAR;"
        "REGISTER QUERY n AS SELECT COUNT(*) AS n FROM posts WINDOW 8 s SYNC 1 s;"
    )
    (tmp_path / "posts.csv").write_text("id,x,y,ts\n1,1,1,2008-02-02T15:00:00Z\n")
    with local_session(tmp_path, slots=1) as session:
        rows_of(session, f"{create} RUN;")
        assert "MT-index" not in items(session, "EXPLAIN n;")["refreshes"]
        rows_of(session, "SET index.windows = mtindex;")
        assert "MT-index" in items(session, "EXPLAIN n;")["refreshes"]


def test_analyze_answers_a_select_and_times_its_operators(session):
    text = "SELECT oid FROM taxis WHERE n > 12 INSIDE corner ORDER BY n DESC LIMIT 4;"
    [answer] = session.execute(text)
    try:
        rows, operators = rows_of(session, f"EXPLAIN ANALYZE {text}")
    except NotSupportedError as error:
        assert "not on this host" in str(error)
        return
    told = dict(rows.rows)
    assert told["rows"] == answer.table.num_rows == 4
    assert told["execution time"].endswith(" ms")
    assert list(told)[-1] == "execution time"
    assert operators.columns == ("operator", "rows in", "rows out", "ms", "rows/s")
    counts = {name: (taken, left) for name, taken, left, _, _ in operators.rows}
    assert counts["scan and spatial filter"] == (100, 15)
    assert counts["filter"] == (15, 8)
    assert counts["merge, sort and limit"][1] == 4
    assert list(counts)[-1] == "answer"
    for _, taken, _, ms, rate in operators.rows:
        assert rate == pytest.approx(taken / ms * 1000, rel=0.05) or ms < 0.1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM taxis WHERE oid = 'o4';",
        "SELECT COUNT(*) FROM taxis;",
        "SELECT oid FROM taxis NEAREST 3 TO 'o44';",
    ],
)
def test_analyze_counts_the_rows_of_any_select(session, text):
    [answer] = session.execute(text)
    with suppress(NotSupportedError):
        rows, _ = rows_of(session, f"EXPLAIN ANALYZE {text}")
        assert dict(rows.rows)["rows"] == answer.table.num_rows
