"""The preparation of streams: one after the other, each failure its own, endless ones a little ahead."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.specs import stream_spec

from stqsh.client.connection import Connection
from stqsh.engine.config import EngineTuning
from stqsh.engine.ingest.stream_preparer import (
    EndlessStreams,
    ReportedRows,
    SessionFiles,
    StreamPreparer,
    wanted_tick,
)
from stqsh.errors import SourceError
from stqsh.sources.replay_store.manifest import Manifest, Segment
from stqsh.spec.stats import BatchStats, TaskTiming
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import ControlDb, to_text
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import record_progress, retry_stalled_streams, stream_statuses
from stqsh.storage.rows import Progress

SEGMENT = Segment("", 7, 100, 400)
MANIFEST = Manifest((), (SEGMENT,), complete=True, dead=2)


@pytest.fixture
def control(tmp_path: Path) -> ControlDb:
    control = ControlDb(tmp_path, create=True)
    with control.transaction() as connection:
        for number, name in enumerate(["good", "bad", "odd"], start=1):
            row = (number, name, to_text(stream_spec(id=number, name=name)))
            connection.execute("INSERT INTO streams (id, name, spec) VALUES (?, ?, ?)", row)
    return control


def test_each_stream_gets_a_status_and_is_prepared_once(
    control: ControlDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def prepare(spec: StreamSpec, directory: Path, *, report: Any) -> Manifest:
        asked.append(spec.name)
        report(0.5, "reading 1 file")
        if spec.name == "bad":
            raise SourceError("no file matches x.csv", hint="look again")
        if spec.name == "odd":
            raise ZeroDivisionError("oh")
        return MANIFEST

    monkeypatch.setattr("stqsh.engine.ingest.preparation.prepare", prepare)
    preparer = StreamPreparer(SessionFiles.of(SessionHome(tmp_path), control))
    preparer.prepare_new()
    preparer.prepare_new()
    statuses = stream_statuses(control)
    assert asked == ["good", "bad", "odd"]
    assert [statuses[n].state for n in (1, 2, 3)] == ["ready", "failed", "failed"]
    assert (statuses[1].rows, statuses[1].dead) == (7, 2)
    assert statuses[2].message == "no file matches x.csv"
    assert statuses[3].message == "ZeroDivisionError: oh"


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (Progress(), None),
        (Progress(base_tick=100, step=10, stats=BatchStats(rows={3: 7}, steps=1)), None),
        (Progress(base_tick=100, step=300, stats=BatchStats(rows={3: 7}, steps=1)), 520),
        (Progress(base_tick=100, step=300, stats=BatchStats(rows={3: 7}, steps=200)), 1200),
    ],
)
def test_an_endless_stream_is_made_ahead_of_the_clock(progress: Progress, expected: int | None) -> None:
    assert wanted_tick(progress, 3, MANIFEST) == expected


def test_a_stream_with_much_in_store_is_not_extended() -> None:
    progress = Progress(base_tick=100, step=300, stats=BatchStats(rows={3: 7}, steps=200))
    assert wanted_tick(progress, 3, replace(MANIFEST, gone_rows=5_000_000)) is None


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_stream_that_could_not_be_extended_is_tried_again_when_asked(
    control: ControlDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with control.transaction() as connection:
        connection.execute("DELETE FROM streams WHERE id > 1")
    broken = [True]

    def extend(*given: Any) -> Manifest:
        if broken[0]:
            raise OSError("no such device")
        return replace(MANIFEST, complete=False)

    monkeypatch.setattr("stqsh.engine.ingest.stream_preparer.extend", extend)
    first = replace(MANIFEST, complete=False)
    monkeypatch.setattr("stqsh.engine.ingest.preparation.prepare", lambda *given, **more: first)
    preparer = StreamPreparer(SessionFiles.of(SessionHome(tmp_path), control))
    preparer.prepare_new()
    preparer.prepare_new()
    connection = Connection(SessionHome(tmp_path), control)
    with pytest.raises(
        SourceError, match="stream good cannot be prepared any further: no such device"
    ) as caught:
        connection.check_streams()
    assert caught.value.hint == "once the cause is removed, RUN or PLAY good; tries again"
    for broken[0], state in ((True, "stalled"), (False, "endless")):
        retry_stalled_streams(control)
        assert stream_statuses(control)[1].state == "endless"
        preparer.prepare_new()
        assert stream_statuses(control)[1].state == state
    connection.check_streams()


def test_an_error_does_not_end_its_thread(
    control: ControlDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [2]

    def version() -> int:
        failures[0] -= 1
        if failures[0] >= 0:
            raise sqlite3.OperationalError("database is locked")
        return 1

    reader = ControlDb(tmp_path)
    monkeypatch.setattr(control, "version", version)
    monkeypatch.setattr("stqsh.engine.ingest.preparation.prepare", lambda *given, **more: MANIFEST)
    tuning = EngineTuning(prepare_look_s=0.001, prepare_retry_s=0.001)
    preparer = StreamPreparer(SessionFiles.of(SessionHome(tmp_path), control, tuning))
    preparer.start()
    try:
        until(lambda: [row.state for row in stream_statuses(reader).values()] == ["ready"] * 3)
    finally:
        preparer.stop()
    assert failures[0] < 0


def test_an_endless_stream_is_extended_after_a_batch_and_once_there_is_room_again(
    control: ControlDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with control.transaction() as connection:
        connection.execute("DELETE FROM streams WHERE id > 1")
    made, looks, full = [0], [0], [False]

    def extend(spec: StreamSpec, directory: Path, until_tick: int, needed: int) -> Manifest:
        made.append(until_tick)
        return replace(MANIFEST, complete=False, segments=(replace(SEGMENT, last_tick=until_tick),))

    def is_full(home: Path) -> bool:
        looks[0] += 1
        return full[0]

    monkeypatch.setattr("stqsh.engine.ingest.stream_preparer.extend", extend)
    monkeypatch.setattr("stqsh.engine.ingest.stream_preparer.is_full", is_full)
    first = replace(MANIFEST, complete=False)
    tuning = EngineTuning(prepare_look_s=0.001)
    monkeypatch.setattr("stqsh.engine.ingest.preparation.prepare", lambda *given, **more: first)
    preparer = StreamPreparer(SessionFiles.of(SessionHome(tmp_path), control, tuning))
    preparer.start()
    try:
        until(lambda: 1 in stream_statuses(control) and stream_statuses(control)[1].state == "endless")
        record_progress(control, Progress(1, 300, base_tick=100, stats=BatchStats(rows={1: 7}, steps=1)))
        until(lambda: made[-1] == 520)
        full[0] = True
        record_progress(control, Progress(2, 700, base_tick=100, stats=BatchStats(rows={1: 7}, steps=1)))
        seen = looks[0]
        until(lambda: looks[0] > seen + 3)
        assert made[-1] == 520
        full[0] = False
        until(lambda: made[-1] == 920)
    finally:
        preparer.stop()


def test_rows_that_slots_report_are_known_once_all_have_reported() -> None:
    reported = ReportedRows(slots=2)
    assert reported.first() is None
    reported.delivered([TaskTiming("source"), TaskTiming("evaluate", 0, executor="e0", rows={7: 300, 8: 5})])
    assert reported.first() is None
    reported.delivered([TaskTiming("evaluate", 1, executor="e1", rows={7: 200})])
    assert reported.first() == {7: 200, 8: 5}
    reported.delivered([TaskTiming("evaluate", 1, executor="e0"), TaskTiming("aggregate", 0, executor="e0")])
    assert reported.first() == {7: 300, 8: 5}


@pytest.mark.parametrize(("logged", "first"), [(None, 0), ({}, 900), ({1: 300}, 300), ({2: 300}, 900)])
def test_rows_stay_that_a_repeated_batch_or_a_log_may_read(
    control: ControlDb,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    logged: dict[int, int] | None,
    first: int,
) -> None:
    needed: list[int] = []

    def extend(spec: StreamSpec, directory: Path, until_tick: int, needed_row: int) -> Manifest:
        needed.append(needed_row)
        return MANIFEST

    monkeypatch.setattr("stqsh.engine.ingest.stream_preparer.extend", extend)
    streams = EndlessStreams(SessionFiles.of(SessionHome(tmp_path), control, logged=lambda: logged))
    streams.add(live_streams(control)[0], replace(MANIFEST, complete=False))
    for batch, rows in ((1, 900), (2, 1800)):
        record_progress(control, Progress(batch, 300 * batch, stats=BatchStats(rows={1: rows}, steps=1)))
        streams.extend_all()
    streams.extend(live_streams(control)[0], 10_000)
    assert needed[-1] == first
