import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.specs import area_spec

from stqsh.errors import HomeError
from stqsh.spec.log import RecordsFound, RunToEnd, SettingChanged
from stqsh.spec.stats import BatchStats
from stqsh.storage import control_log as control_module
from stqsh.storage import layouts
from stqsh.storage.catalogue import live_areas, live_tables
from stqsh.storage.control_log import (
    ControlDb,
    append,
    entries_after,
    get_meta,
    last_seq,
    read_log,
    read_settings,
    set_meta,
)
from stqsh.storage.home import open_home
from stqsh.storage.progress import (
    BatchEffects,
    FoundRecords,
    read_progress,
    record_batch,
    set_stream_status,
    stream_statuses,
)
from stqsh.storage.rows import Progress, StreamStatus


@pytest.fixture
def db(tmp_path):
    opened = ControlDb(tmp_path, clock=lambda: 7_000_000, create=True)
    yield opened
    opened.close()


def test_log_rows_keep_their_order_and_definitions_learn_their_number(db):
    append(db, RunToEnd(), "RUN;")
    append(db, area_spec({"name": "taxis"}), "CREATE …")
    rows = read_log(db)
    assert [row.seq for row in rows] == [1, 2] and rows[1].entry == area_spec({"name": "taxis", "id": 2})
    assert [row.kind for row in read_log(db, 0, 1)] == ["run"] and read_log(db, 2) == []
    assert rows[0].at_us == 7_000_000 and last_seq(db) == 2
    assert entries_after(db, 0, {"run", "play"}) == [(1, RunToEnd())]


def test_a_transaction_that_fails_leaves_nothing(db):
    with pytest.raises(RuntimeError), db.transaction():
        append(db, RunToEnd())
        raise RuntimeError
    assert last_seq(db) == 0


def test_an_interrupt_while_another_one_writes_leaves_no_transaction(db):
    with sqlite3.connect(db.path, isolation_level=None, check_same_thread=False) as other:
        other.execute("BEGIN IMMEDIATE")
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        end = threading.Timer(0.5, other.execute, ("COMMIT",))
        end.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                append(db, RunToEnd())
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            end.join()
        assert last_seq(db) == 0
        append(db, RunToEnd())
        assert other.execute("SELECT count(*) FROM log").fetchall() == [(1,)]


def test_progress_is_zero_before_the_first_batch(db):
    progress = read_progress(db)
    assert (progress.batch, progress.step, progress.run_done, progress.ended) == (-1, 0, 0, False)
    assert progress.at_us() is None


def test_a_batch_that_is_repeated_changes_nothing(db):
    progress = Progress(0, 5, 100, 1_000_000, 3, 3, True, 9, BatchStats(lag_s=1.5))
    found = BatchEffects(found=[FoundRecords(1, 3, b"payload")])
    assert record_batch(db, progress, found) is True
    assert record_batch(db, progress, found) is False
    assert read_progress(db) == progress and progress.at_us() == 104_000_000
    (row,) = read_log(db)
    assert (row.kind, row.entry, row.payload) == ("found", RecordsFound(1, 3), b"payload")


def test_stream_status_is_replaced(db):
    set_stream_status(db, StreamStatus(3, "reading", 10, 0, "", 0.5))
    set_stream_status(db, StreamStatus(3, "failed", 10, 2, "no such file", 0.5))
    assert stream_statuses(db) == {3: StreamStatus(3, "failed", 10, 2, "no such file", 0.5)}


def test_meta_and_settings(db):
    assert get_meta(db, "profile") is None and read_settings(db) == {}
    set_meta(db, "profile", "laptop")
    set_meta(db, "profile", "cluster")
    assert get_meta(db, "profile") == "cluster"


def test_many_threads_append_without_a_gap(tmp_path):
    db = ControlDb(tmp_path, create=True)
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda n: append(db, SettingChanged("", n), str(n)), range(200)))
    assert sorted(row.seq for row in rows) == list(range(1, 201))
    db.close()


def test_closing_while_other_threads_read_ends_them_with_one_sentence(tmp_path):
    for _ in range(50):
        db, begin = ControlDb(tmp_path, create=True), threading.Barrier(3)

        def read(_, db=db, begin=begin):
            begin.wait()
            with pytest.raises(HomeError, match="is closed here"):
                while True:
                    read_progress(db)

        with ThreadPoolExecutor(2) as pool:
            readers = pool.map(read, range(2))
            begin.wait()
            db.close()
            list(readers)


def test_many_processes_open_and_append_at_once(tmp_path):
    code = (
        "import sys, pathlib; from stqsh.storage.control_log import ControlDb, append\n"
        "from stqsh.spec.log import RunToEnd\n"
        "db = ControlDb(pathlib.Path(sys.argv[1]), create=True)\n"
        "for n in range(20): append(db, RunToEnd())"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(4)]
    assert [worker.wait() for worker in workers] == [0] * 4
    assert last_seq(ControlDb(tmp_path, create=True)) == 80


def test_a_new_file_is_opened_by_many_at_once(tmp_path):
    for attempt in range(30):
        home, begin = tmp_path / str(attempt), threading.Barrier(8)
        home.mkdir()

        def open_home(_, home=home, begin=begin):
            begin.wait()
            ControlDb(home, create=True).close()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(open_home, range(8)))


def test_a_reader_is_not_kept_waiting_by_a_writer(tmp_path):
    db, started, stop = ControlDb(tmp_path, create=True), threading.Event(), threading.Event()

    def write():
        with db.transaction():
            append(db, RunToEnd())
            started.set()
            stop.wait(5)

    thread = threading.Thread(target=write)
    thread.start()
    started.wait(5)
    assert last_seq(db) == 0
    stop.set()
    thread.join()
    assert last_seq(db) == 1


def test_a_file_that_is_no_database_is_one_clear_line(tmp_path):
    (tmp_path / "control.db").write_text("nonsense " * 100)
    with pytest.raises(HomeError, match=r"cannot use .*control\.db"):
        ControlDb(tmp_path, create=True)


def test_a_session_that_is_not_there_is_not_made_by_opening_it(tmp_path):
    with pytest.raises(HomeError, match=r"there is no session in .*: control\.db is missing or empty"):
        ControlDb(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "control.db").touch()
    with pytest.raises(HomeError, match="there is no session in"):
        ControlDb(tmp_path)
    ControlDb(tmp_path, create=True).close()
    assert last_seq(ControlDb(tmp_path)) == 0


def test_the_file_of_a_newer_version_is_refused(tmp_path):
    ControlDb(tmp_path, create=True).connection().execute("PRAGMA user_version = 99")
    with pytest.raises(HomeError, match="newer stqsh"):
        ControlDb(tmp_path, create=True)


def test_a_home_of_an_older_layout_is_brought_up(tmp_path):
    with sqlite3.connect(tmp_path / "control.db") as old:
        old.executescript(layouts.LAYOUTS[0] + "PRAGMA user_version = 1;")
        old.execute("INSERT INTO stream_status VALUES (7, 'ready', 3, 1, '', 1.0)")
    db = ControlDb(tmp_path, create=True)
    assert stream_statuses(db)[7] == StreamStatus(7, "ready", 3, 1, "", 1.0, duplicates=0)
    assert live_tables(db) == live_areas(db) == []
    ControlDb(tmp_path, create=True)


def test_to_look_for_what_plays_does_not_read_the_whole_log(tmp_path):
    look = f"SELECT kind, max(seq) FROM log WHERE {layouts.PLAYING} GROUP BY kind"
    [plan] = ControlDb(tmp_path, create=True).query(f"EXPLAIN QUERY PLAN {look}")
    assert "USING COVERING INDEX playing" in plan[3]


@pytest.mark.parametrize("kind", ["route", "register_alike"])
def test_to_look_for_rows_that_are_few_does_not_read_the_whole_log(tmp_path, kind):
    look = f"SELECT seq, payload FROM log WHERE {layouts.SEPARATE} AND kind = '{kind}' ORDER BY seq"
    [plan] = ControlDb(tmp_path, create=True).query(f"EXPLAIN QUERY PLAN {look}")
    assert "USING INDEX separate" in plan[3]


def test_what_is_read_together_is_of_one_moment(db):
    append(db, RunToEnd(), "RUN;")
    with db.reading():
        assert last_seq(db) == 1
        append(ControlDb(db.path.parent, create=True), RunToEnd(), "RUN;")
        assert last_seq(db) == 1
    assert last_seq(db) == 2


def test_a_file_that_somebody_holds_is_said_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(control_module, "BUSY_TIMEOUT_S", 0.05)
    db = ControlDb(tmp_path, create=True)
    with sqlite3.connect(tmp_path / "control.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(HomeError, match="database is locked") as caught, db.transaction():
            pass
        assert "another program has held it" in caught.value.hint
    other.close()
    db.close()


def test_a_full_disk_undoes_the_whole_and_is_said_with_what_to_do(db):
    append(db, RunToEnd(), "RUN;")
    pages = db.connection().execute("PRAGMA page_count").fetchone()[0]
    db.connection().execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(HomeError, match="full") as caught:
        append(db, RunToEnd(), "x" * 1_000_000)
    assert caught.value.hint.startswith("make room")
    assert last_seq(db) == 1


@pytest.fixture
def closed(tmp_path):
    """The control.db of a session that has run, all of whose rows are in the file itself."""
    db = ControlDb(tmp_path, create=True)
    for n in range(300):
        append(db, SettingChanged("x" * 200, n), "SET …;")
    db.close()
    (tmp_path / "checkpoint").mkdir()
    return tmp_path / "control.db"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), "is missing or empty, although the session has run"),
        (lambda path: path.write_bytes(b""), "is missing or empty, although the session has run"),
        (lambda path: path.write_bytes(b"\xa5" * 4096 + path.read_bytes()[4096:]), "not a database"),
        (lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 3]), "malformed"),
        (lambda path: path.write_bytes(path.read_bytes()[:9000] + b"\xa5" * 90_000), "malformed"),
        (
            lambda path: path.write_bytes(path.read_bytes().replace(b'"x' + b"x" * 199, b'"x' + b'"' * 199)),
            "row 1 of the log",
        ),
    ],
    ids=["gone", "emptied", "header", "cut", "noise", "changed"],
)
def test_a_damaged_file_is_one_clear_line_with_a_way_out(closed, damage, said):
    damage(closed)
    with pytest.raises(HomeError, match=said) as raised:
        read_log(ControlDb(closed.parent, create=True))
    assert str(closed) in raised.value.message
    assert "backup" in raised.value.hint


def test_a_home_that_is_opened_twice_in_a_process_keeps_its_locks(tmp_path):
    """Other processes would take the first connection for gone, and remove the log that it writes to."""
    home = open_home("s", root=tmp_path)
    first = ControlDb(home.path, create=True)
    append(first, RunToEnd())
    open_home("s", root=tmp_path)
    other = (
        "import sys; from pathlib import Path; from stqsh.storage.control_log import *;"
        "from stqsh.spec.log import RunToEnd;"
        "db = ControlDb(Path(sys.argv[1]), create=True); append(db, RunToEnd()); db.close()"
    )
    subprocess.run([sys.executable, "-c", other, str(home.path)], check=True)
    assert home.control_db.with_name("control.db-wal").exists()
    assert last_seq(first) == 2
    append(first, RunToEnd())
    again = ControlDb(home.path, create=True)
    assert last_seq(again) == 3


def fill(db, rows):
    """Append rows of a kilobyte, and delete all but the last; return the size of the file before."""
    for _ in range(rows // 100):
        with db.transaction():
            for _ in range(100):
                append(db, RunToEnd(), "x" * 1000)
    db.query("PRAGMA wal_checkpoint(TRUNCATE)")
    before = db.path.stat().st_size
    with db.transaction() as connection:
        connection.execute("DELETE FROM log WHERE seq < ?", (last_seq(db),))
    return before


def test_space_of_what_is_deleted_is_given_back_while_others_write(tmp_path):
    db, other = ControlDb(tmp_path, create=True), ControlDb(tmp_path, create=True)
    before = fill(db, 12_000)
    wrote = []
    write = threading.Thread(target=lambda: wrote.extend(append(other, RunToEnd()).seq for _ in range(50)))
    write.start()
    given = db.give_back()
    write.join()
    db.query("PRAGMA wal_checkpoint(TRUNCATE)")
    after = db.path.stat().st_size
    assert before > 12_000_000 and after < 1_000_000 and given > 11_000_000
    assert wrote == list(range(12_001, 12_051)) and last_seq(db) == 12_050
    assert db.give_back() == 0


def test_the_file_of_an_older_version_is_written_anew(tmp_path):
    with sqlite3.connect(tmp_path / "control.db", isolation_level=None) as old:
        old.execute("PRAGMA journal_mode = WAL")
        old.execute("CREATE TABLE older (one)")  # it has no mode for giving back
    db = ControlDb(tmp_path, create=True)
    before = fill(db, 6_000)
    assert db.give_back() > 5_000_000
    db.query("PRAGMA wal_checkpoint(TRUNCATE)")
    assert db.path.stat().st_size < before / 5 and last_seq(db) == 6_000
    fill(db, 6_000)
    assert db.give_back() > 5_000_000  # in pieces, now


def test_what_is_remembered_ends_with_a_change_of_the_session(db, tmp_path):
    reads = []

    def value():
        return db.remembered("key", lambda: reads.append(1) or get_meta(db, "key"))

    assert [value(), value(), len(reads)] == [None, None, 1]
    set_meta(db, "key", "own")
    assert [value(), value(), len(reads)] == ["own", "own", 2]
    other = ControlDb(tmp_path)
    set_meta(other, "key", "of another")
    other.close()
    assert [value(), value(), len(reads)] == ["of another", "of another", 3]
    append(db, RunToEnd(), "RUN;")
    assert value() == "of another" and len(reads) == 3, "a row of the log defines nothing"


def test_what_a_transaction_undoes_is_not_remembered(db):
    def value():
        return db.remembered("key", lambda: get_meta(db, "key"))

    assert value() is None
    with pytest.raises(RuntimeError), db.transaction(queries_only=True):
        set_meta(db, "key", "undone")
        assert value() == "undone"
        raise RuntimeError
    assert value() is None
    with db.transaction(queries_only=True):
        set_meta(db, "key", "done")
    assert value() == "done"


def test_what_was_just_read_is_read_again_after_any_write(db):
    reads = []

    def value(key):
        return db.just_read(key, lambda: reads.append(key) or len(reads))

    assert [value("a"), value("a"), value("b"), value("a")] == [1, 1, 2, 3]
    append(db, RunToEnd(), "RUN;")
    assert value("a") == 4
