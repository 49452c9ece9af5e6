"""The supervisor: passing failures are got over, others end it with a reason of one line."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from stqsh.engine.config import TUNING, EngineTuning
from stqsh.engine.launch import heartbeat
from stqsh.engine.launch.supervisor import JvmDiedError, QueryFailedError, Supervisor
from stqsh.engine.operators.data_source import HOLD_FILE
from stqsh.storage.engine_info import read_engine
from stqsh.storage.home import SessionHome
from stqsh.storage.processes import StopRequest


class FakeQuery:
    """A query that fails at once with `error`, or runs until it is stopped."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.isActive = error, error is None
        self.status = {"isTriggerActive": False, "isDataAvailable": False}

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.isActive = False


def supervised(
    home: Path,
    queries: list[FakeQuery],
    *,
    batches: list[int],
    jvm: bool = True,
    told: list[str] | None = None,
    tuning: EngineTuning = TUNING,
) -> Supervisor:
    """One whose queries come one after the other; a while after the first that runs, it is told to stop."""
    started = iter(queries)

    def start() -> FakeQuery:
        query = next(started)
        if query.error is None:
            threading.Timer(0.3, supervisor.stop).start()
        return query

    supervisor = Supervisor(
        home,
        start,
        batches=lambda: batches.pop(0) if len(batches) > 1 else batches[0],
        jvm_alive=lambda: jvm,
        on_waiting=[].append if told is None else told.append,
        tuning=replace(tuning, source_wait_s=0.0),
    )
    return supervisor


def test_a_failure_in_passing_starts_the_query_again(tmp_path: Path) -> None:
    last = FakeQuery()
    supervisor = supervised(tmp_path, [FakeQuery(ValueError("once")), last], batches=[3])
    supervisor.run()
    assert not last.isActive
    assert not (tmp_path / HOLD_FILE).exists()


def test_a_query_is_stopped_though_no_file_can_be_made(tmp_path: Path) -> None:
    query = FakeQuery()
    supervised(tmp_path / "gone", [query], batches=[3]).run()
    assert not query.isActive


def test_another_query_goes_on_from_one_that_is_outgrown(tmp_path: Path) -> None:
    first, last = FakeQuery(), FakeQuery()
    queries = iter([first, last])

    def start() -> FakeQuery:
        query = next(queries)
        act = supervisor.outgrown if query is first else supervisor.stop
        threading.Timer(0.1, act).start()
        return query

    supervisor = Supervisor(tmp_path, start, batches=lambda: 3, jvm_alive=lambda: True)
    supervisor.run()
    assert not first.isActive and not last.isActive
    assert not (tmp_path / HOLD_FILE).exists()


def test_the_same_failure_again_and_again_ends_it_with_its_reason(tmp_path: Path) -> None:
    failing = [FakeQuery(ValueError("broken for good")) for _ in range(TUNING.query_attempts)]
    with pytest.raises(QueryFailedError, match="broken for good"):
        supervised(tmp_path, failing, batches=[3]).run()


def test_workers_that_come_up_late_are_waited_for_longer(tmp_path: Path) -> None:
    late = ValueError("org.apache.spark.SparkException: Python worker failed to connect back.")
    most, last = replace(TUNING, late_attempts=TUNING.query_attempts + 2), FakeQuery()
    queries = [FakeQuery(late) for _ in range(TUNING.query_attempts + 1)]
    supervised(tmp_path, [*queries, last], batches=[3], tuning=most).run()
    assert not last.isActive
    with pytest.raises(QueryFailedError, match="did not come up in time"):
        supervised(tmp_path, [*queries, FakeQuery(late), last], batches=[3], tuning=most).run()


def test_what_users_have_to_mend_is_tried_twice_only(tmp_path: Path) -> None:
    damaged = (
        "Caused by:\nstqsh.checksums.DamagedFileError: state/evaluate-0/head is gone\nhint: use a backup"
    )
    with pytest.raises(QueryFailedError, match="evaluate-0/head is gone") as refused:
        supervised(tmp_path, [FakeQuery(ValueError(damaged)) for _ in range(2)], batches=[3]).run()
    assert refused.value.hint == "use a backup"


def test_batches_in_between_make_failures_count_anew(tmp_path: Path) -> None:
    failing = [FakeQuery(ValueError("now and then")) for _ in range(2 * TUNING.query_attempts)]
    last = FakeQuery()
    supervisor = supervised(tmp_path, [*failing, last], batches=list(range(8 * TUNING.query_attempts)))
    supervisor.run()
    assert not last.isActive


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("sources.live.protocol.SourceAwayError", "Kafka at b:9092 does not answer: no answer"),
        ("storage.blobs.StorageAwayError", "the session's storage s3://b fails: 503\nhint: look at it"),
    ],
)
def test_what_does_not_answer_is_waited_for_however_long_it_takes(
    kind: str, why: str, tmp_path: Path
) -> None:
    words = f"Caused by:\nstqsh.{kind}: {why}"
    away = [FakeQuery(ValueError(words)) for _ in range(4 * TUNING.query_attempts)]
    told: list[str] = []
    supervisor = supervised(tmp_path, [*away, FakeQuery()], batches=[3], told=told)
    supervisor.run()
    assert told == [f"a batch waits: {why.splitlines()[0]}"] * len(away)


def test_a_dead_jvm_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(JvmDiedError):
        supervised(tmp_path, [FakeQuery()], batches=[0], jvm=False).run()


def test_a_signal_handler_may_ask_for_a_stop_while_its_thread_waits_for_one() -> None:
    request, handled = StopRequest(), []

    def stop(*_: object) -> None:
        request.set()
        handled.append(request.is_set())

    previous = signal.signal(signal.SIGUSR1, stop)
    try:
        for _ in range(200):
            threading.Timer(0.001, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            while not request.is_set():
                request.wait(1e-6)
            assert request.wait(0) and request.is_set(), "it stays"
            request = StopRequest()
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert handled == [True] * 200


def test_a_beat_that_cannot_be_written_is_not_the_last_one_and_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    beats: list[bool] = []

    def write(*_: object) -> None:
        beats.append(len(beats) in (1, 2))
        if beats[-1]:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(heartbeat, "write_engine", write)
    monkeypatch.setattr(heartbeat, "TUNING", replace(TUNING, heartbeat_s=0.01))
    heart = heartbeat.Heartbeat(SessionHome(tmp_path))
    heart.start()
    deadline = time.monotonic() + 20
    while len(beats) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    heart.stop()
    assert beats[:5] == [False, True, True, False, False]
    assert [record.getMessage() for record in caplog.records] == [
        "the engine's state cannot be written: [Errno 28] No space left on device"
    ]


def test_what_comes_up_while_an_engine_stops_does_not_make_it_ready(tmp_path: Path) -> None:
    home = SessionHome(tmp_path)
    heart = heartbeat.Heartbeat(home)
    for state in ("starting", "stopping", "ready"):
        heart.tell(state)  # type: ignore[arg-type]
    told = read_engine(home)
    assert told is not None
    assert told.state == "stopping"
