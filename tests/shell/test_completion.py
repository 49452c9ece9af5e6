"""What completion offers where the cursor stands, with a session that is made up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from stqsh.docs.manual import options
from stqsh.shell.repl.completion.completer import StqlCompleter
from stqsh.shell.repl.session_thread import SessionSummary
from stqsh.sources.formats import csv_file, places, time_formats
from stqsh.sources.generator import network
from stqsh.storage.rows import Progress

TAXIS = (
    ("oid", "STRING"),
    ("lon", "DOUBLE"),
    ("lat", "DOUBLE"),
    ("ts", "TIMESTAMP"),
    ("status", "STRING"),
)
SUMMARY = SessionSummary(
    "mine",
    progress=Progress(3, 12, 1_201_964_401, 1_000_000),
    streams=("taxis", "posts"),
    tables=("cars",),
    regions=("campus", "zones"),
    queries=("q1",),
    selected=(("q1", ("oid", "far"), ("taxis", "cars")),),
    columns=(
        ("taxis", TAXIS),
        ("posts", (("id", "BIGINT"), ("body", "STRING"), ("topic", "STRING"))),
        ("cars", (("plate", "STRING"),)),
    ),
    keys=(("taxis", "oid"), ("posts", "id")),
    derived=(("taxis", ()), ("posts", ("topic",))),
    members=(("zones", ("north", "south")),),
)
LIVE = {"taxis": ("ambulance", "taxi-001", "taxi-002"), "posts": ("7", "71", "8")}


def live_values(stream: str, column: str, prefix: str) -> tuple[str, ...]:
    held = ("free", "busy", "it's") if column == "status" else LIVE[stream]
    return tuple(value for value in held if value.startswith(prefix))


def completions(text: str, after: str = "", *, asked: bool = True) -> list[str]:
    found = StqlCompleter(lambda: SUMMARY, live_values).get_completions(
        Document(text + after, len(text)), CompleteEvent(completion_requested=asked)
    )
    return [completion.text for completion in found]


@pytest.mark.parametrize(
    "before",
    [
        "SELECT * FROM taxis INSIDE RECT(1 km, 1 km) AROUND ",
        "REGISTER QUERY q AS SELECT oid FROM taxis INSIDE CIRCLE(100) AROUND ",
        "SELECT * FROM taxis NEAREST 3 TO ",
        "SELECT * FROM taxis INSIDE ('M', ",
        "SELECT * FROM taxis KNN ('M', 3, ",
        "SELECT * FROM taxis WHERE oid = ",
    ],
)
def test_keys_of_objects_that_live_where_one_is_wanted(before: str) -> None:
    assert completions(f"{before}'ta") == ["taxi-001'", "taxi-002'"]
    assert completions(f"{before}'") == ["ambulance'", "taxi-001'", "taxi-002'"]
    assert completions(before)[:3] == ["'ambulance'", "'taxi-001'", "'taxi-002'"]


@pytest.mark.parametrize(
    "compared", ["status = ", "status <> ", "M.status != ", "lon > 3 AND status NOT IN (", "status IN ('x', "]
)
def test_values_of_a_column_of_text_where_it_is_compared(compared: str) -> None:
    before = f"SELECT * FROM taxis M WHERE {compared}"
    assert completions(f"{before}'") == ["free'", "busy'", "it''s'"]
    assert completions(f"{before}'b") == ["busy'"]
    assert completions(before)[:3] == ["'free'", "'busy'", "'it''s'"]


def test_no_values_where_no_text_is_compared() -> None:
    for before in ("WHERE lon = '", "WHERE status LIKE '", "WHERE CONTAINS '", "WHERE ts = '"):
        assert completions(f"SELECT * FROM taxis {before}") == []


def test_keys_that_are_numbers_take_no_quotes() -> None:
    assert completions("SELECT * FROM posts NEAREST 3 TO 7") == ["7", "71"]


def test_keys_come_by_themselves_where_nothing_else_may() -> None:
    assert "'ambulance'" in completions("SELECT * FROM taxis INSIDE CIRCLE(1) AROUND ", asked=False)
    assert completions("SELECT * FROM taxis ", asked=False) == []


def test_regions_and_forms_after_inside_and_the_members_of_a_set() -> None:
    found = completions("SELECT * FROM taxis INSIDE ")
    assert found[:2] == ["campus", "zones"]
    assert {"RECT(", "CIRCLE(", "POLYGON(("} <= set(found)
    assert completions("SELECT * FROM taxis INSIDE zones['") == ["north'", "south'"]


def test_columns_are_those_of_the_from_also_where_it_stands_behind() -> None:
    assert completions("SELECT * FROM posts WHERE b") == ["body"]
    assert completions("SELECT b", " FROM posts") == ["body"]
    assert "body" not in completions("SELECT ", " FROM taxis")
    assert completions("SELECT M.o", " FROM taxis M, cars C WHERE M.oid = C.plate") == ["M.oid"]
    assert "DISTANCE" in completions("SELECT D", " FROM taxis NEAREST 3 TO (1, 2)")


def test_columns_fit_by_type() -> None:
    made = "CREATE EVENT STREAM s (id BIGINT, x DOUBLE, y FLOAT, at TIMESTAMP, body STRING) "
    assert completions(f"{made} LOCATION (") == ["id", "x", "y"]
    assert completions(f"{made} LOCATION (x, ") == ["id", "x", "y"]
    assert completions(f"{made} TEXT ") == ["body"]
    assert completions(f"{made} TIME ")[-1] == "at"
    assert completions("SELECT HOUR(", ") FROM taxis")[0] == "ts"
    assert "oid" not in completions("SELECT lon * ", " FROM taxis")


def test_derived_columns_are_made_of_those_before_them() -> None:
    begun = "CREATE EVENT STREAM s (id BIGINT, at TIMESTAMP, "
    assert completions(f"{begun}hour BIGINT A") == ["AS"]
    assert completions(f"{begun}hour BIGINT AS HOUR(")[:2] == ["at", "CASE"]
    assert completions(f"{begun}hour BIGINT AS HOUR(at), late BOOLEAN AS hou")[0] == "hour"
    assert completions(f"{begun}h BIGINT AS CAST(id AS BIGINT), body STRING) TEXT ") == ["body"]


def test_strategies_and_adjusters_after_using() -> None:
    assert completions("REPARTITION taxis USING ") == ["object", "grid", "agrid", "quadtree", "qttree"]
    assert completions("REBALANCE USING s") == ["shift", "splitmerge"]


def test_settings_and_their_values() -> None:
    assert not {"session.script", "sinks.http.authorization"} & set(completions("SET s"))
    assert "shell.scheme" in completions("SET shell.")
    assert completions("SET shell.scheme = ") == ["auto", "dark", "light", "none"]
    assert completions("SET shell.autoplay = f", asked=False) == ["false"]
    assert completions("SET shedding = ") == ["off", "object", "query"]
    assert completions("SET shedding.budget = ") == ["100000", "'64 MB'"]
    assert completions("SET cache.factor = 0.") == ["0.5", "0.25"]


def test_options_by_what_they_belong_to() -> None:
    wanted = ["changes => ", "dwell => ", "error => ", "min_accuracy => ", "kind => "]
    assert completions("REGISTER QUERY q WITH (") == wanted
    assert completions("SELECT TOPK(body, 3) FROM posts WITH (") == ["error => "]
    assert "separator => " in completions("CREATE TABLE t FROM FILE 'f' FORMAT CSV (header => true, s")
    assert completions("CREATE MOVING STREAM s FROM GENERATOR 'network' (ob") == ["objects => "]
    assert completions("CREATE MOVING STREAM s FROM GENERATOR 'n") == ["network'"]
    assert completions("CREATE TABLE t FROM FILE 'f' FORMAT CSV (zone => 'Europe/Lond") == ["Europe/London'"]


def test_the_options_are_those_that_the_sources_read() -> None:
    of = options()
    common = {*time_formats.TIME_OPTIONS, *places.PLACE_OPTIONS}
    assert set(of["CSV"]) == {*csv_file.OPTIONS, *common}
    assert set(of["JSON"]) == set(of["GEOJSON"]) == common
    assert set(of["GENERATOR"]) == set(network.OPTION_NAMES)


def test_the_clock_where_a_run_ends() -> None:
    assert completions("RUN UNTIL '2008") == ["2008-02-02T15:00:12Z'"]


def test_files_where_one_is_read_or_written(tmp_path: Path) -> None:
    (tmp_path / "cars.csv").touch()
    assert completions(f"CREATE TABLE c FROM FILE '{tmp_path}/ca") == ["rs.csv"]
    assert completions(f"MAP taxis TO '{tmp_path}/ca") == ["rs.csv"]


def test_help_offers_statements_by_all_their_words() -> None:
    assert completions("HELP create mov") == ["CREATE MOVING STREAM"]
    assert "TAIL" in completions("HELP ")


def test_nothing_in_other_strings_and_comments() -> None:
    assert completions("SELECT * FROM taxis WHERE status LIKE 'fr") == []
    assert completions("SELECT 'SEL") == []


def test_only_the_statement_that_the_cursor_is_in_counts() -> None:
    assert completions("SELECT ';' FROM posts; SELECT * FROM taxis WHERE l") == [
        "lon", "lat", "LEAST(", "LEFT(", "LENGTH(", "LOWER(", "LTRIM(",
    ]  # fmt: skip


def test_a_keystroke_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT * FROM taxis WHERE " + " AND ".join(f"lon > {n}" for n in range(200)) + " AND l"
    completions(text)
    took = []
    for _ in range(5):
        began = time.thread_time()  # other tests may run beside it
        assert "lon" in completions(text)
        took.append(time.thread_time() - began)
    assert min(took) < 0.05


def test_the_condition_of_a_tail_is_about_what_its_query_selects_and_is_over() -> None:
    assert completions("TAIL q1 WHERE ")[:7] == ["oid", "far", "lon", "lat", "ts", "status", "plate"]
    assert "body" not in completions("TAIL q1 WHERE oid = 'a' AND ")
    assert completions("ALTER QUERY q1 WHERE ")[:5] == ["oid", "lon", "lat", "ts", "status"]
    assert "body" not in completions("ALTER QUERY q1 INSIDE zones WHERE oid = 'a' AND ")
    assert completions("TAIL q1 FROM START WHERE f")[0] == "far"


def test_a_name_that_needs_quotes_gets_them_however_it_is_typed() -> None:
    ferries = SessionSummary(
        "mine",
        streams=("ferries",),
        columns=(("ferries", (("Fahrt kn", "DOUBLE"), ("Schiff", "STRING"), ("order", "STRING"))),),
        keys=(("ferries", "Schiff"),),
    )

    def offered(text: str) -> list[str]:
        found = StqlCompleter(lambda: ferries).get_completions(Document(text), CompleteEvent())
        return [completion.text for completion in found]

    assert offered("SELECT Fah") == ['"Fahrt kn"']
    assert offered("SELECT * FROM ferries WHERE Sch") == ["Schiff"]


def test_roles_are_offered_from_the_file_that_is_named(tmp_path: Path) -> None:
    file = tmp_path / "ferries.csv"
    file.write_text("Schiff;Laenge;Breite;Uhr;Fahrt kn\nAdler;7.1;53.7;2024-07-03T08:00:00;9.5\n")
    source = f"FROM FILE '{file}' FORMAT CSV (separator => ';')"
    assert completions(f"CREATE MOVING STREAM f {source} KEY ")[:2] == ["Schiff", "Laenge"]
    assert completions("CREATE MOVING STREAM f KEY S", f" {source};") == ["Schiff"]
    assert completions(f"CREATE MOVING STREAM f {source} LOCATION (") == ["Laenge", "Breite", '"Fahrt kn"']
    assert "Uhr" in completions(f"CREATE MOVING STREAM f {source} TIME ")


def test_follow_offers_the_keys_of_its_stream() -> None:
    assert completions("FOLLOW ", " IN taxis;") == ["'ambulance'", "'taxi-001'", "'taxi-002'"]
    assert completions("FOLLOW 7", " IN posts;") == ["7", "71"]
    assert "taxis" in completions("FOLLOW 'a' IN ")


def test_insert_offers_columns_where_they_are_listed() -> None:
    assert completions("INSERT INTO taxis (") == ["oid", "lon", "lat", "ts", "status"]
    assert completions("INSERT INTO posts (") == ["id", "body"]
    assert not {"oid", "lon", "plate"} & set(completions("INSERT INTO taxis VALUES ("))
    assert "NOW" in completions("INSERT INTO taxis VALUES ('a', ")
