import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import psutil
import pytest
from support.session_fixtures import Deliver

import stqsh
from stqsh.client import api
from stqsh.client.api import Session
from stqsh.client.connection import Connection
from stqsh.client.read.subscription import Subscription
from stqsh.client.results import Message, Rows, Script
from stqsh.client.run import RunHandle
from stqsh.errors import HomeError, OtherVersionError, StqshError
from stqsh.lang.errors import BindError
from stqsh.profile import load_profile
from stqsh.spec.expression import ColumnExpr, CompareExpr, LiteralExpr
from stqsh.spec.log import RunFor, RunSteps, RunToEnd, RunUntil
from stqsh.storage.control_log import ControlDb, read_log
from stqsh.storage.engine_info import EngineInfo
from stqsh.storage.home import open_home
from stqsh.storage.progress import BatchEffects, set_stream_status
from stqsh.storage.rows import StreamStatus

TAXIS = """
CREATE MOVING STREAM taxis (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)
  KEY oid LOCATION (lon, lat) TIME ts FROM FILE '{glob}' TICK 1 s REPORT EVERY 30 s;
"""
QUERY = "REGISTER QUERY {name} AS SELECT oid FROM taxis INSIDE (0, 0, 1, 1);"


class Engine:
    """A stand-in: at each RUN one step, in which an object comes into every new query's answer."""

    def __init__(self, home):
        self.db, self.stopped = ControlDb(home.path, create=True), threading.Event()
        self.deliver = Deliver(Connection(home, self.db))
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        seen, pending = 0, []
        while not self.stopped.wait(0.005):
            for row in read_log(self.db, seen):
                seen = row.seq
                if row.kind == "create_stream":
                    set_stream_status(self.db, StreamStatus(row.seq, "ready", rows=1))
                elif row.kind in ("register", "drop"):
                    pending.append((row.kind, row.entry.id))
                elif row.kind == "run":
                    step = self.deliver.step + 1
                    ops = {"register": 1, "drop": -1}
                    updates = [(step, query, ops[kind], 0, ("a", 0.0)) for kind, query in pending]
                    grown = sorted(query for kind, query in pending if kind == "register")
                    pending = []
                    growth = np.array(grown, np.int64), np.ones(len(grown), np.int64)
                    self.deliver(*updates, run_done=seen, seq=seen, effects=BatchEffects(grown=growth))
        self.db.close()


@pytest.fixture
def glob(tmp_path):
    (tmp_path / "taxis.csv").write_text("oid,lon,lat,ts\na,1,2,2020-01-01T00:00:00Z\n")
    return str(tmp_path / "*.csv")


@pytest.fixture
def opened(tmp_path):
    """Opens sessions on one home, as several clients would; the engine starts when it is woken."""
    home, engines, sessions = open_home("s", root=tmp_path / "sessions"), [], []

    def start(home):
        if not engines:
            engines.append(Engine(home))
        return EngineInfo(0, 0, 0, "ready")

    def connect(autoplay=False, **environ):
        connection = Connection(home, ControlDb(home.path, create=True), start)
        connection._check_engine = lambda: None
        sessions.append(Session(home, load_profile(None, environ), autoplay=autoplay, connection=connection))
        return sessions[-1]

    connect.engines = engines
    yield connect
    for engine in engines:
        engine.stopped.set()
        engine.thread.join()
    for session in sessions:
        session.close()


@pytest.fixture
def session(opened):
    return opened()


def run(session, text, **options):
    return list(session.outcomes(text, **options))


def messages(outcomes):
    return [outcome.text for outcome in outcomes if isinstance(outcome, Message)]


def test_a_stream_a_query_and_a_run(session, glob):
    outcomes = run(session, TAXIS.format(glob=glob) + QUERY.format(name="q") + "RUN;")
    assert messages(outcomes)[-1] == "query q registered"
    running = outcomes[-1]
    assert isinstance(running, RunHandle) and running.finished
    (updates,) = session.updates(until=running)
    assert updates.table.select(["step", "op", "key"]).to_pylist() == [{"step": 1, "op": 1, "key": "a"}]
    assert updates.queries[updates.table["query"][0].as_py()].name == "q"
    assert [(q.name, q.size) for q in session.queries()] == [("q", 1)]
    assert session.progress().step == 1 and [s.name for s in session.streams()] == ["taxis"]


def test_nothing_is_done_where_the_text_does_not_parse(session, opened, glob):
    with pytest.raises(StqshError) as caught:
        run(session, TAXIS.format(glob=glob) + "REGISTER QUERY;", file="x.stq")
    assert caught.value.exit_code == 2 and str(caught.value).startswith("x.stq:4:")
    assert session.streams() == [] and opened.engines == []


def test_an_error_stops_a_script_and_leaves_what_was_done(session, glob):
    text = TAXIS.format(glob=glob) + QUERY.format(name="a") + QUERY.format(name="a") + QUERY.format(name="b")
    with pytest.raises(StqshError, match="in use"):
        run(session, text)
    assert [query.name for query in session.queries()] == ["a"]


def test_many_registrations_are_numbered_and_done_together(session, glob):
    numbers = []
    run(session, TAXIS.format(glob=glob))
    text = "".join(QUERY.format(name=f"q{n}") for n in range(1200)) + "SHOW QUERIES;"
    outcomes = run(session, text, on_statement=numbers.append)
    assert len(session.queries()) == 1200 and len(outcomes[-1].rows) == 1200
    assert numbers == [1, 501, 1001, 1201]  # a transaction holds 500


def test_a_missing_file_names_the_glob(session, opened, tmp_path):
    with pytest.raises(BindError, match=r"no file matches '.*nothing\*'") as caught:
        run(session, TAXIS.format(glob=tmp_path / "nothing*"))
    assert opened.engines == [] and caught.value.place is not None


@pytest.mark.parametrize(
    ("source", "message", "pointed", "hint"),
    [
        ("GENERATOR 'netwrk'", "no generator 'netwrk'", "'netwrk'", "did you mean network?"),
        ("GENERATOR 'network' (objets => 5)", "no option objets", "objets", "did you mean objects"),
        ("GENERATOR 'network' (objects => 'many')", "objects is a whole number", "'many'", ""),
        ("GENERATOR 'network' (seed => 1, report_every => 5)", "report_every is a duration", "5", ""),
        ("GENERATOR 'network' (kinds => 'taxis:1')", "kinds is a list", "'taxis:1'", ""),
        ("FILE '{glob}' FORMAT CSV (sepparator => ';')", "no option sepparator", "sepparator", "separator"),
        ("FILE '{glob}' FORMAT CSV (separator => ';;')", "separator must be one character", "';;'", "';'"),
        ("FILE '{glob}' FORMAT CSV (zone => 'Mars')", "no time zone 'Mars'", "'Mars'", "America/New_York"),
    ],
)
def test_options_of_a_source_are_checked_when_the_stream_is_made(
    session, opened, glob, source, message, pointed, hint
):
    with pytest.raises(BindError, match=message) as caught:
        run(session, f"CREATE MOVING STREAM s FROM {source.format(glob=glob)};")
    fault = caught.value
    assert fault.piece.text[fault.span.start : fault.span.end] == pointed
    assert hint in (fault.hint or "")
    assert session.streams() == [] and opened.engines == []


def test_columns_that_a_file_lacks_are_found_when_the_stream_is_made(session, glob):
    with pytest.raises(BindError, match="no column lonn"):
        run(session, TAXIS.format(glob=glob).replace("lon DOUBLE", "lonn DOUBLE").replace("(lon,", "(lonn,"))
    assert session.streams() == []


def test_files_lie_beside_the_script(session, glob, tmp_path):
    run(session, TAXIS.format(glob="taxis.csv"), file=str(tmp_path / "script.stq"))
    assert session.streams()[0].spec.source.glob == str(tmp_path / "taxis.csv")


def test_if_not_exists_and_if_exists(session, glob):
    again = TAXIS.format(glob=glob).replace("STREAM", "STREAM IF NOT EXISTS")
    assert "exists already" in messages(run(session, TAXIS.format(glob=glob) + again))[-1]
    with pytest.raises(StqshError, match="in use"):
        run(session, TAXIS.format(glob=glob))
    assert "there is no query" in messages(run(session, "DROP QUERY IF EXISTS nobody;"))[0]
    with pytest.raises(StqshError, match="nobody"):
        run(session, "DROP QUERY nobody;")


def test_several_are_dropped_together_or_none(session, glob):
    names = ("taxi_1", "taxi_2", "taxis_all", "Taxi_3", "bus_1")
    run(session, TAXIS.format(glob=glob) + "".join(QUERY.format(name=name) for name in names))
    with pytest.raises(BindError, match="unknown query 'bus_2'"):
        run(session, "DROP QUERY bus_1, bus_2;")
    assert len(session.queries()) == 5
    assert messages(run(session, "DROP QUERY IF EXISTS bus_1, bus_2, bus_1;")) == [
        "there is no query bus_2",
        "query bus_1 dropped",
    ]
    assert messages(run(session, r"DROP QUERIES LIKE 'taxi\_%';")) == ["queries taxi_1, taxi_2 dropped"]
    assert messages(run(session, "DROP QUERIES LIKE 'taxi_';")) == ["no queries are like 'taxi_'"]
    assert [query.name for query in session.queries()] == ["taxis_all", "Taxi_3"]
    with pytest.raises(BindError, match="has 2 queries"):
        run(session, "DROP STREAMS LIKE '%';")
    run(session, "DROP QUERIES LIKE '%'; DROP STREAMS LIKE 'tax__';")
    assert session.streams() == []


def test_the_drops_of_a_script_do_what_each_does_by_itself(session, glob):
    names = ("a", "b", "select", "ä", "c", "d")
    run(session, TAXIS.format(glob=glob) + "".join(QUERY.format(name=f'"{name}"') for name in names))
    begun = read_log(session.connection.db)[-1].seq
    alone, *drops = [f'DROP QUERY "{name}";' for name in names[:4]]
    said = messages(run(session, alone)) + messages(run(session, "\n".join(drops)))
    assert said == [f"query {name} dropped" for name in names[:4]]
    logged = [(row.kind, row.text) for row in read_log(session.connection.db, begun)]
    assert logged == [("drop", f"DROP QUERY {name};") for name in ("a", "b", '"select"', "ä")]
    assert [query.name for query in session.queries()] == ["c", "d"]
    for wrong in ("gone", "c"):  # a name that is not there, and one that was just dropped
        with pytest.raises(BindError, match=f"3:12: unknown query '{wrong}'"):
            run(session, f"DROP QUERY c;\nDROP QUERY d;\nDROP QUERY {wrong};")
        assert session.queries() == []
        run(session, QUERY.format(name="c") + QUERY.format(name="d"))


def test_regions_and_sets_of_them_are_dropped_by_one_pattern(session, tmp_path):
    zones = '{"type":"Feature","properties":{"n":"a"},"geometry":{"type":"Point","coordinates":[1,1]}}'
    (tmp_path / "z.geojson").write_text(
        zones.replace('"Point","coordinates":[1,1]', '"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,0]]]')
    )
    run(
        session,
        f"CREATE REGIONS za FROM FILE '{tmp_path}/z.geojson' NAME n; CREATE REGION zb AS RECT(1, 1, 2, 2);",
    )
    assert messages(run(session, "DROP REGIONS LIKE 'z%';")) == ["regions za, zb dropped"]
    assert session.execute("SHOW REGIONS;") and not next(iter(run(session, "SHOW REGIONS;"))).rows


def test_show_lists_the_names_that_fit_a_pattern(session, glob):
    run(session, TAXIS.format(glob=glob) + QUERY.format(name="near_1") + QUERY.format(name="far_1"))
    (queries,) = run(session, "SHOW QUERIES LIKE 'near%';")
    assert [row[0] for row in queries.rows] == ["near_1"]
    (settings,) = run(session, "SHOW SETTINGS LIKE 'cache.%';")
    assert settings.rows and all(row[0].startswith("cache.") for row in settings.rows)
    with pytest.raises(BindError, match="SHOW STATUS lists no names that LIKE could choose from"):
        run(session, "SHOW STATUS LIKE 'x';")


def test_columns_are_inferred_and_what_was_guessed_is_told(session, glob):
    (told,) = messages(run(session, f"CREATE MOVING STREAM taxis FROM FILE '{glob}';"))
    assert session.streams()[0].spec.columns[0] == ("oid", "STRING")
    assert "KEY oid" in told and "LOCATION (lon, lat)" in told and "TIME ts" in told


def test_all_streams_share_the_tick_of_the_first(session, glob):
    run(session, TAXIS.format(glob=glob).replace("TICK 1 s", "TICK 5 s"))
    with pytest.raises(StqshError, match="5 s"):
        run(session, TAXIS.format(glob=glob).replace("taxis", "buses"))
    run(session, TAXIS.format(glob=glob).replace("taxis", "buses").replace("TICK 1 s", ""))
    assert [stream.spec.tick_us for stream in session.streams()] == [5_000_000] * 2


def test_in_the_shell_a_stream_plays_at_once(opened, glob):
    shell = opened(autoplay=True)
    run(shell, TAXIS.format(glob=glob).replace("TICK", "PACE 10x TICK"))
    (row,) = [row for row in read_log(shell.connection.db) if row.kind == "play"]
    assert row.entry.pace == 10 and row.entry.id == shell.streams()[0].id
    run(shell, "PAUSE taxis; PLAY taxis AT MAX; PLAY taxis AT 2x;")
    rows = [row for row in read_log(shell.connection.db) if row.kind in ("play", "pause")]
    assert [getattr(row.entry, "pace", None) for row in rows] == [10, None, "max", 2]


def test_in_the_shell_a_tail_waits_though_streams_are_set_to_stand_still(opened, glob):
    shell = opened(autoplay=True, STQSH_SHELL_AUTOPLAY="false")
    run(shell, TAXIS.format(glob=glob) + "REGISTER QUERY q AS SELECT * FROM taxis;")
    assert "play" not in {row.kind for row in read_log(shell.connection.db)}
    (tail,) = shell.execute("TAIL q;")
    assert not tail.until_idle
    (tail,) = opened().execute("TAIL q;")
    assert tail.until_idle


def test_run_says_how_far(session, glob):
    run(session, TAXIS.format(glob=glob))
    run(session, "RUN 3 STEPS; RUN FOR 2 s; RUN UNTIL '1970-01-01T00:00:01Z'; RUN;")
    specs = [row.entry for row in read_log(session.connection.db) if row.kind == "run"]
    assert specs == [
        RunSteps(3),
        RunFor(2_000_000),
        RunUntil(1_000_000),
        RunToEnd(),
    ]


def test_an_endless_stream_needs_a_bound(session, glob):
    run(session, TAXIS.format(glob=glob))
    session.connection.wake()
    wait_for(lambda: session.connection.db.query("SELECT 1 FROM stream_status"))
    set_stream_status(session.connection.db, StreamStatus(session.streams()[0].id, "endless"))
    with pytest.raises(StqshError, match="stream taxis is endless") as caught:
        run(session, "RUN;")
    assert "RUN FOR" in caught.value.hint
    assert (caught.value.exit_code, str(caught.value).splitlines()[1:3]) == (2, ["  RUN;", "  ^^^"])
    run(session, "RUN 1 STEPS;")


def test_without_a_stream_there_is_nothing_to_run(session):
    with pytest.raises(StqshError, match="no stream"):
        run(session, "RUN;")


def test_the_end_of_a_script_runs_finite_streams_to_their_end(session, glob):
    run(session, TAXIS.format(glob=glob))
    assert session.finish_script() is None
    run(session, QUERY.format(name="q"))
    assert session.finish_script().spec == RunToEnd()


def test_the_end_of_a_script_delivers_what_a_drop_owes(session, glob):
    run(session, TAXIS.format(glob=glob) + QUERY.format(name="q") + "RUN; DROP QUERY q;")
    last = session.finish_script()
    assert last.spec == RunSteps(1)
    ops = [op for updates in session.updates(until=last) for op in updates.table["op"].to_pylist()]
    assert ops == [1, -1]
    assert session.finish_script() is None


def test_a_subscription_has_a_name_and_is_dropped_when_left(session, glob):
    run(session, TAXIS.format(glob=glob))
    (following,) = run(session, "SUBSCRIBE SELECT oid FROM taxis INSIDE (0, 0, 1, 1);")
    assert isinstance(following, Subscription) and following.query.name == "sub_1"
    following.close()
    (following,) = run(session, "SUBSCRIBE SELECT oid FROM taxis INSIDE (0, 0, 1, 1);")
    assert following.query.name == "sub_2"
    session.close()
    assert following.query.owner is not None


def test_a_session_is_left_though_its_subscriptions_cannot_be_dropped(tmp_path, session, glob, monkeypatch):
    run(session, TAXIS.format(glob=glob))
    home, stopped = replace(session.home, temporary=True), []
    leaving = Session(home, load_profile(None, {}), autoplay=False, connection=session.connection)
    run(leaving, "SUBSCRIBE SELECT oid FROM taxis INSIDE (0, 0, 1, 1);")

    def full(*_):
        raise HomeError("cannot use control.db: database or disk is full")

    monkeypatch.setattr(api, "drop_if_live", full)
    monkeypatch.setattr(api, "stop_engine", lambda home, timeout_s: stopped.append(home))
    monkeypatch.setattr(api, "remove_home", stopped.append)
    with pytest.raises(HomeError, match="disk is full"):
        leaving.close()
    assert stopped == [home, home]
    session._is_closed = True  # the connection, which both share, is closed


def test_tail_with_a_condition(session, glob):
    run(session, TAXIS.format(glob=glob).replace("lat DOUBLE, ts", "lat DOUBLE, ts") + QUERY.format(name="q"))
    (following,) = run(session, "TAIL q FROM START ONLY + WHERE lon > 3 LIMIT 5;")
    options = following.options
    assert (options.from_step, options.only, options.limit) == (0, 1, 5)
    assert options.where == CompareExpr(">", ColumnExpr("lon"), LiteralExpr(3, "BIGINT"))


def test_queries_pause_resume_and_describe_themselves(session, glob):
    run(session, TAXIS.format(glob=glob) + QUERY.format(name="q"))
    assert messages(run(session, "PAUSE QUERY q; PAUSE QUERY q; RESUME QUERY q;")) == [
        "query q is paused",
        "query q is paused already",
        "query q is active",
    ]
    for text in ("DESCRIBE q;", "DESCRIBE taxis;", "SHOW STATUS;", "SHOW STREAMS;"):
        assert all(isinstance(outcome, Rows) for outcome in run(session, text))


def test_a_dump_runs_again(session, opened, glob, tmp_path):
    run(session, TAXIS.format(glob=glob) + QUERY.format(name="q") + QUERY.format(name="r") + "PAUSE QUERY r;")
    (script,) = run(session, "DUMP;")
    assert isinstance(script, Script)
    home = open_home("copy", root=tmp_path / "sessions")
    connection = Connection(home, ControlDb(home.path, create=True), session.connection.start)
    copy = Session(home, load_profile(None, {}), autoplay=False, connection=connection)
    run(copy, script.text)
    assert run(copy, "DUMP;") == [script]
    assert [query.state for query in copy.queries()] == ["active", "paused"]
    copy.close()


def test_a_setting_is_set_for_the_session(session, opened):
    (told,) = messages(run(session, "SET engine.slots = 4;"))
    assert told.startswith("engine.slots is 4")
    (rows,) = run(opened(), "SHOW SETTINGS;")
    assert ("engine.slots", 4, "SET") in [row[:3] for row in rows.rows]


def test_words_of_a_setting_are_not_case_sensitive(session):
    (told,) = messages(run(session, "SET Balance = SHIFT;"))
    assert told == "balance is shift"
    (rows,) = run(session, "SHOW SETTINGS;")
    assert ("balance", "shift", "SET") in [row[:3] for row in rows.rows]


def test_help_on_an_unknown_statement_points_at_its_name(session):
    with pytest.raises(
        StqshError, match="there is no statement, clause, option, unit or function FO BAR"
    ) as caught:
        run(session, "HELP  fo bar;")
    assert str(caught.value).splitlines()[:3] == [
        "1:7: there is no statement, clause, option, unit or function FO BAR",
        "  HELP  fo bar;",
        "        ^^^^^^",
    ]


def test_a_kind_of_query_that_there_is_not_is_refused(session, glob):
    run(session, TAXIS.format(glob=glob))
    with pytest.raises(StqshError, match="there is no kind of query called 'fence'"):
        run(session, "REGISTER QUERY q WITH (kind => 'fence') AS SELECT * FROM taxis;")


def test_a_second_client_sees_what_comes_after_it(session, opened, glob):
    run(session, TAXIS.format(glob=glob) + QUERY.format(name="q") + "RUN;")
    other = opened()
    (running,) = run(other, "RUN;")
    assert list(other.updates(until=running)) == []
    assert sum(u.table.num_rows for u in other.updates(until=running, from_start=True)) == 1


def test_a_client_that_leaves_drops_its_own_subscriptions_only(session, opened, glob):
    run(session, TAXIS.format(glob=glob) + "CREATE REGION sub_1 AS (0, 0, 1, 1);")
    (mine,) = run(session, "SUBSCRIBE SELECT * FROM taxis;")
    other = opened()
    (its,) = run(other, "SUBSCRIBE SELECT * FROM taxis;")
    assert (mine.query.name, its.query.name) == ("sub_2", "sub_3"), "sub_1 is a region"
    other.close()
    assert [query.name for query in session.queries()] == ["sub_2"]


def test_a_temporary_session_leaves_nothing(tmp_path):
    with stqsh.connect(home=tmp_path, temporary=True, autoplay=False) as session:
        path = session.home.path
        assert path.is_dir()
    assert not path.exists()


def test_the_client_is_light_to_import():
    heavy = ("numpy", "pyarrow", "pandas", "pyspark", "numba", "scipy", "yaml")
    code = f"import sys, stqsh.client.api; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_to_plan_a_routing_loads_no_compiler():
    """It would take processor time from the batches that run while a client plans."""
    module = "stqsh.client.statements.repartition"
    code = f"import sys, {module}; print([m for m in ('numba', 'pandas', 'scipy') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_session_with_bulk_registrations_of_an_older_version_is_refused(tmp_path):
    home = open_home("s", root=tmp_path)
    with ControlDb(home.path, create=True).transaction() as connection:
        pattern = '{"spec": {}, "holes": ["x1"], "words": ["", ""], "between": " AS "}'
        connection.execute("INSERT INTO patterns VALUES (7, '{}', ?)", (pattern,))
    with pytest.raises(OtherVersionError, match="begun by another version of stqsh"):
        Session(home, load_profile(None, {}))


def test_two_hundred_sessions_leave_no_file_thread_or_process_open(tmp_path, monkeypatch):
    monkeypatch.setenv("STQSH_HOME", str(tmp_path))
    process, seen = psutil.Process(), []
    for number in range(200):
        with stqsh.connect("leak") as session:
            list(session.execute("SHOW SETTINGS;"))
        if number in (2, 199):
            seen.append((process.num_fds(), threading.active_count(), len(process.children())))
    assert seen[0] == seen[1]
