"""The process of the sinks and its keeper: killed at random, and what happens to sinks that are behind."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.sinks import lines_in, printed_log, run_text, runner_of

from stqsh.client.api import Session
from stqsh.client.sink_wait import finish_sinks
from stqsh.client.statements import drop
from stqsh.engine.config import EngineTuning
from stqsh.engine.launch.sink_keeper import SinkKeeper
from stqsh.errors import StqshError
from stqsh.sinks import main, sink_runner
from stqsh.sinks.sink_runner import SinkRunner, TooFarBehindError
from stqsh.storage.catalogue import NameBook
from stqsh.storage.control_log import ControlDb
from stqsh.storage.sinks import sink_catalogue
from stqsh.storage.sinks.sink_catalogue import find_sink, live_sinks
from stqsh.storage.sinks.sink_position import read_position, read_report, sink_folder
from stqsh.storage.update_log.compaction import fold_log
from stqsh.storage.update_log.files import logged_files
from stqsh.storage.update_log.leases import all_read, kept_sinks, read_by_all

QUICK = EngineTuning(sinks_look_s=0.02, restart_wait_s=0.01, restart_wait_most_s=0.05, log_look_s=0.0)


def keeper_of(session: Session) -> SinkKeeper:
    return SinkKeeper(session.home, ControlDb(session.home.path, create=True), tuning=QUICK)


def process_of(keeper: SinkKeeper) -> int | None:
    process = keeper._process
    return process.pid if process is not None and process.poll() is None else None


@pytest.mark.slow
def test_kills_at_random_times_lose_and_repeat_nothing(session: Session, tmp_path: Path) -> None:
    draw = random.Random(11)
    run_text(
        session,
        f"CREATE SINK a FOR ALL TO FILE '{tmp_path}/a' FORMAT JSONL;"
        f"CREATE SINK b FOR west TO FILE '{tmp_path}/b' FORMAT PARQUET;",
    )
    keeper = keeper_of(session)
    keeper.start()
    kills = 0
    try:
        for _ in range(6):
            run_text(session, "RUN 10 STEPS;")
            time.sleep(draw.uniform(0.0, 2.5))
            if pid := process_of(keeper):
                os.kill(pid, signal.SIGKILL)
                kills += 1
        expected = printed_log(session, "RUN 1 STEPS;")
        sinks = [find_sink(session.connection.db, name) for name in "ab"]
        deadline = time.monotonic() + 60
        last = logged_files(session.connection.db)[-1].batch
        while any(sink and read_position(session.home, sink.id).after < last for sink in sinks):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        keeper.stop()
    assert kills >= 4
    assert b"".join(file.read_bytes() for file in sorted((tmp_path / "a").iterdir())) == expected
    assert not list((tmp_path / "b").glob(".*"))


def test_the_log_is_kept_for_a_sink_and_not_for_ever(session: Session, tmp_path: Path) -> None:
    run_text(session, f"CREATE SINK out FOR west TO FILE '{tmp_path}/out' FORMAT JSONL; RUN 30 STEPS;")
    last = session.progress().batch
    assert read_by_all(session.home, last) == -1
    keeper = keeper_of(session)
    keeper._process = _Alive()  # type: ignore[assignment]
    keeper.look()
    assert read_by_all(session.home, last) == -1
    run_text(session, "SET sinks.keep = '1 kB';")
    keeper.look()
    assert read_by_all(session.home, last) == last
    key_of = NameBook(session.connection.db).key_of
    fold_log(session.connection.db, last, key_of, lambda batch: all_read(session.home, batch))
    with pytest.raises(TooFarBehindError):
        runner_of(session, "out").step()
    runner_of(session, "out").run()
    [rows] = list(session.execute("SHOW SINKS;"))
    shown = dict(zip(rows.columns, rows.rows[0], strict=True))  # type: ignore[union-attr]
    assert shown["state"] == "stopped"
    assert "sinks.keep" in shown["last error"]
    # As the message says: it begins with the answers as they stand.
    run_text(session, f"DROP SINK out; CREATE SINK out FOR west TO FILE '{tmp_path}/new' FORMAT JSONL;")
    assert runner_of(session, "out").step()
    assert list((tmp_path / "new").iterdir())


class _Alive:
    """A process that runs."""

    returncode = None

    def poll(self) -> None:
        return None


def test_a_lease_follows_what_is_written(session: Session, tmp_path: Path) -> None:
    run_text(session, "RUN 10 STEPS;")
    run_text(session, f"CREATE SINK out FOR west TO FILE '{tmp_path}/out' FORMAT JSONL;")
    began = session.progress().batch
    run_text(session, "RUN 10 STEPS;")
    last = session.progress().batch
    assert read_by_all(session.home, last) == began
    assert runner_of(session, "out").step()
    assert runner_of(session, "out").step()
    assert read_by_all(session.home, last) > began
    run_text(session, "DROP SINK out;")
    assert read_by_all(session.home, last) == last


def test_what_a_killed_client_leaves_keeps_no_log(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        """The client dies here."""

    def die(*_: object) -> None:
        raise KilledError

    create = "CREATE SINK {0} FOR west TO FILE '" + str(tmp_path) + "/{0}' FORMAT JSONL;"
    run_text(session, create.format("out") + create.format("other"))
    with monkeypatch.context() as dying:
        dying.setattr(drop, "release_sink", die)  # after the commit
        with pytest.raises(KilledError):
            run_text(session, "DROP SINK out;")
    with monkeypatch.context() as dying:
        dying.setattr(sink_catalogue, "SinkRow", die)  # the lease is there and the commit fails
        with pytest.raises(KilledError), session.connection.db.transaction():
            run_text(session, create.format("never"))
    [other] = [sink.id for sink in live_sinks(session.connection.db)]
    assert len(kept_sinks(session.home)) == 3
    keeper = keeper_of(session)
    keeper._process = _Alive()  # type: ignore[assignment]
    keeper.look()
    assert kept_sinks(session.home) == {other}


def test_a_sink_that_is_being_created_keeps_its_lease(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = keeper_of(session)
    looking = threading.Thread(target=keeper.look)
    keep = sink_catalogue.keep_for_sink

    def slow(*given: Any) -> None:
        keep(*given)
        looking.start()
        looking.join(0.5)  # it waits for the CREATE, which is not committed

    monkeypatch.setattr(sink_catalogue, "keep_for_sink", slow)
    keeper._process = _Alive()  # type: ignore[assignment]
    run_text(session, f"CREATE SINK out FOR west TO FILE '{tmp_path}/out' FORMAT JSONL;")
    looking.join(30)
    [out] = live_sinks(session.connection.db)
    assert kept_sinks(session.home) == {out.id}


def test_a_folder_with_files_of_such_a_sink_is_refused(session: Session, tmp_path: Path) -> None:
    create = f"CREATE SINK out FOR west TO FILE '{tmp_path}/out' FORMAT JSONL;"
    run_text(session, f"{create} RUN 5 STEPS;")
    assert runner_of(session, "out").step()
    run_text(session, "DROP SINK out;")
    with pytest.raises(StqshError, match="has files of another sink called out"):
        run_text(session, create)


def test_a_damaged_position_stops_the_sink(session: Session, tmp_path: Path) -> None:
    run_text(session, f"CREATE SINK out FOR west TO FILE '{tmp_path}/out' FORMAT JSONL; RUN 5 STEPS;")
    assert runner_of(session, "out").step()
    sink = find_sink(session.connection.db, "out")
    assert sink is not None
    (sink_folder(session.home, sink.id) / "position").write_bytes(b"sealed 3 0\n123")
    runner_of(session, "out").run()
    [rows] = list(session.execute("SHOW SINKS;"))
    shown = dict(zip(rows.columns, rows.rows[0], strict=True))  # type: ignore[union-attr]
    assert shown["state"] == "stopped"
    assert "is damaged" in shown["last error"]


def test_a_script_says_what_its_sink_has_not_written(session: Session, tmp_path: Path) -> None:
    run_text(session, f"CREATE SINK out FOR west TO FILE '{tmp_path}/out' FORMAT JSONL; RUN 5 STEPS;")
    with pytest.raises(StqshError, match="sink out has not written everything: it gets no further"):
        finish_sinks(session.connection)
    assert runner_of(session, "out").step()
    finish_sinks(session.connection)


def test_dump_makes_the_sinks_again(session: Session, tmp_path: Path) -> None:
    run_text(
        session,
        f"CREATE SINK a FOR west, near TO FILE '{tmp_path}/a' FORMAT CSV;"
        f"CREATE SINK b FOR west TO FILE '{tmp_path}/b' FORMAT CSV;"
        "CREATE SINK c FOR ALL TO HTTP 'http://127.0.0.1:9/'; DROP QUERY west;",
    )
    [script] = list(session.execute("DUMP;"))
    lines = [line for line in script.text.splitlines() if "SINK" in line]  # type: ignore[union-attr]
    assert lines == [
        f"CREATE SINK a FOR near TO FILE '{tmp_path}/a' FORMAT CSV;",
        "CREATE SINK c FOR ALL TO HTTP 'http://127.0.0.1:9/';",
    ]


def test_a_dropped_sink_leaves_no_folder_even_if_its_process_had_died(
    session: Session, tmp_path: Path
) -> None:
    run_text(session, f"CREATE SINK out FOR west TO FILE '{tmp_path}/out' FORMAT JSONL;")
    folder = sink_folder(session.home, find_sink(session.connection.db, "out").id)
    folder.mkdir(parents=True)
    run_text(session, "DROP SINK out;")
    keeper_of(session).look()
    assert not folder.exists()


def test_a_sink_goes_on_where_not_even_its_trouble_could_be_written(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_text(session, f"CREATE SINK out FOR west TO FILE '{tmp_path}/out' FORMAT JSONL; RUN 10 STEPS;")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    runner = runner_of(session, "out")
    monkeypatch.setattr(sink_runner, "WAIT_S", 0.0)
    with monkeypatch.context() as disk:
        disk.setattr(sink_runner, "write_position", full)
        disk.setattr(sink_runner, "write_report", full)
        assert not runner.step()
    assert runner.step()
    [report] = [read_report(session.home, find_sink(session.connection.db, "out").id)]
    assert report.state == "running" and lines_in(tmp_path / "out")


def test_a_sink_that_ends_by_an_unknown_error_is_started_again(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_text(session, f"CREATE SINK out FOR west TO FILE '{tmp_path}/out' FORMAT JSONL; RUN 10 STEPS;")
    run_runner, tries = SinkRunner.run, 0

    def fail_once(runner: SinkRunner) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise RuntimeError("once")
        run_runner(runner)

    monkeypatch.setattr(main, "_AGAIN_S", 0.0)
    monkeypatch.setattr(SinkRunner, "run", fail_once)
    process = main.SinkProcess(session.home)
    thread = threading.Thread(target=process.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not lines_in(tmp_path / "out") and time.monotonic() < deadline:
        time.sleep(0.05)
    process.stop()
    thread.join(30)
    assert tries == 2 and lines_in(tmp_path / "out")
