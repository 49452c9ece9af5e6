import sys
import threading

import pytest
from support.update_logs import BASE_TICK, TICK_US

from stqsh.client.engine_process import ensure_engine, stop_engine
from stqsh.client.read import subscription
from stqsh.client.read.subscription import Subscription, TailOptions, UpdateReader
from stqsh.client.results import SnapshotMark
from stqsh.client.run import RunHandle
from stqsh.errors import EngineDeadError, SourceError
from stqsh.spec.expression import ColumnExpr, CompareExpr, LiteralExpr
from stqsh.spec.log import RunStopped, RunToEnd
from stqsh.storage import catalogue_writer
from stqsh.storage.catalogue import find_query
from stqsh.storage.control_log import append, entries_after
from stqsh.storage.disk_space import DiskFullError
from stqsh.storage.progress import BatchEffects, set_stream_status
from stqsh.storage.rows import StreamStatus
from stqsh.storage.update_log.compaction import fold_log
from stqsh.storage.update_log.files import LogCompactedError
from stqsh.storage.update_log.leases import all_read
from stqsh.units import format_instant

FIRST_US = BASE_TICK * TICK_US
"""The time of the first step."""


def shown(items):
    rows = []
    for item in items:
        if isinstance(item, SnapshotMark):
            rows.append((item.edge, item.step))
        else:
            columns = item.table.select(["step", "op", "key"]).to_pylist()
            rows += [(row["step"], "+" if row["op"] > 0 else "-", row["key"]) for row in columns]
    return rows


def test_a_tail_begins_with_the_answer_between_two_marks(connection, deliver, query):
    deliver((1, query.id, 1, 0, ("b", 0.0)), (1, query.id, 1, 0, ("a", 0.0)), steps=1)
    deliver((2, query.id, -1, 1, ("b", 0.0)), (2, 999, 1, 0, ("x", 0.0)), steps=2)
    tail = iter(Subscription(query, TailOptions(), connection))
    assert shown([next(tail) for _ in range(3)]) == [("begin", 3), (3, "+", "a"), ("end", 3)]
    deliver((4, query.id, 1, 0, ("c", 0.0)))
    assert shown([next(tail)]) == [(4, "+", "c")]
    leaving = [(5, query.id, -1, 9, (key, 0.0)) for key in "ac"]
    deliver(*leaving, effects=BatchEffects([query.id]))
    assert shown(tail) == [(5, "-", "a"), (5, "-", "c")]


def test_a_query_that_waits_for_a_step_says_so(connection, query):
    told = []
    tail = Subscription(query, TailOptions(), connection, until_idle=True, on_notice=told.append)
    assert shown(tail) == [("begin", 0), ("end", 0)]
    assert told == [
        "q: no step has come since it was registered, so its answer is empty; RUN or PLAY lets time go on"
    ]


@pytest.mark.parametrize("first", [0, 1])
def test_from_the_start_there_is_no_snapshot(connection, deliver, query, first):
    deliver((1, query.id, 1, 0, ("a", 0.0)))
    deliver((2, query.id, -1, 1, ("a", 0.0)), effects=BatchEffects([query.id]))
    told = []
    tail = Subscription(query, TailOptions(from_step=first), connection, on_notice=told.append)
    assert shown(tail) == [(1, "+", "a"), (2, "-", "a")]
    assert told == []  # nothing is folded


def test_from_a_step_the_snapshot_is_of_the_step_before(connection, deliver, query):
    deliver((1, query.id, 1, 0, ("a", 0.0)), (2, query.id, 1, 0, ("b", 0.0)), steps=2)
    deliver((3, query.id, 1, 0, ("c", 0.0)), effects=BatchEffects([query.id]))
    rows = shown(Subscription(query, TailOptions(from_step=2), connection))
    assert rows == [("begin", 1), (1, "+", "a"), ("end", 1), (2, "+", "b"), (3, "+", "c")]


def test_a_step_that_is_yet_to_come_is_told_of(connection, deliver, query):
    deliver((1, query.id, 1, 0, ("a", 0.0)))
    deliver((2, query.id, 1, 0, ("b", 0.0)), effects=BatchEffects([query.id]))
    told = []
    rows = shown(Subscription(query, TailOptions(from_step=9), connection, on_notice=told.append))
    assert rows == [("begin", 2), (2, "+", "a"), (2, "+", "b"), ("end", 2)]
    assert told == ["q: step 9 is yet to come; what follows begins after step 2"]


@pytest.mark.parametrize(
    ("options", "first"),
    [
        (TailOptions(from_us=FIRST_US + TICK_US), 2),
        (TailOptions(from_us=FIRST_US + 2 * TICK_US - 1), 2),
        (TailOptions(from_us=FIRST_US - 5 * TICK_US), 0),
        (TailOptions(since_us=TICK_US), 3),
        (TailOptions(since_us=TICK_US + 1), 2),
        (TailOptions(since_us=3_600_000_000), 0),
    ],
)
def test_a_time_begins_with_the_step_of_its_tick(connection, deliver, query, options, first):
    deliver((1, query.id, 1, 0, ("a", 0.0)), (2, query.id, 1, 0, ("b", 0.0)), steps=2)
    deliver((3, query.id, 1, 0, ("c", 0.0)), effects=BatchEffects([query.id]))
    at_step = shown(Subscription(query, TailOptions(from_step=first), connection))
    assert shown(Subscription(query, options, connection)) == at_step
    assert [row for row in at_step if row[1] == "+"][-1] == (3, "+", "c")


def test_a_time_that_is_yet_to_come_is_told_of(connection, deliver, query):
    deliver((1, query.id, 1, 0, ("a", 0.0)), effects=BatchEffects([query.id]))
    told = []
    shown(Subscription(query, TailOptions(from_us=FIRST_US + 60_000_000), connection, on_notice=told.append))
    assert told == [
        f"q: {format_instant(FIRST_US + 60_000_000)} is yet to come; what follows begins after step 1"
    ]


def test_what_is_folded_comes_as_the_answer_that_it_made(connection, deliver, query):
    deliver((1, query.id, 1, 0, ("a", 0.0)), (1, query.id, 1, 0, ("b", 0.0)))
    deliver((2, query.id, -1, 1, ("a", 0.0)))
    deliver((3, query.id, 1, 0, ("c", 0.0)), effects=BatchEffects([query.id]))
    fold_log(connection.db, 1, connection.book.key_of, lambda batch: all_read(connection.home, batch))
    told = []
    tail = Subscription(query, TailOptions(from_step=0), connection, on_notice=told.append)
    assert shown(tail) == [("begin", 2), (2, "+", "b"), ("end", 2), (3, "+", "c")]
    assert told == ["q: updates up to step 2 are kept as the answer that they made, no longer one by one"]
    assert shown(Subscription(query, TailOptions(from_step=3), connection))[-1] == (3, "+", "c")


def test_the_log_is_not_folded_under_a_reader(connection, deliver, query):
    for step in range(1, 4):
        deliver((step, query.id, 1, 0, (f"{step}", 0.0)))

    def fold():
        return fold_log(
            connection.db, 1, connection.book.key_of, lambda batch: all_read(connection.home, batch)
        ).batch

    reader = UpdateReader(connection, -1)
    with reader:
        (first, *_) = reader.poll(0)
        assert first.table.num_rows == 1 and fold() == -1
        assert sum(updates.table.num_rows for updates in reader.poll(2)) == 2
    assert fold() == 1
    assert [updates.table.num_rows for updates in UpdateReader(connection, 1).poll(2)] == [1]
    late = UpdateReader(connection, 0)
    with pytest.raises(LogCompactedError, match="no longer kept"):
        list(late.poll(2))
    assert [updates.table["key"].to_pylist() for updates in late.poll(2)] == [["3"]]


def test_only_and_limit(connection, deliver, query):
    deliver((1, query.id, 1, 0, ("a", 0.0)), (2, query.id, -1, 1, ("a", 0.0)), steps=2)
    deliver((3, query.id, 1, 0, ("a", 0.0)), (4, query.id, -1, 1, ("a", 0.0)), steps=2)
    limited = TailOptions(from_step=0, only=-1, limit=1)
    assert shown(Subscription(query, limited, connection)) == [(2, "-", "a")]


def test_a_limit_that_is_reached_reads_no_further(connection, deliver, query, monkeypatch):
    for step in (1, 2, 3, 4):
        deliver((step, query.id, 1, 0, (f"a{step}", 0.0)))
    read, poll = [], UpdateReader.poll

    def counted(reader, up_to):
        for updates in poll(reader, up_to):
            read.append(updates)
            yield updates

    monkeypatch.setattr(UpdateReader, "poll", counted)
    limited = TailOptions(from_step=0, limit=2)
    assert shown(Subscription(query, limited, connection)) == [(1, "+", "a1"), (2, "+", "a2")]
    assert sum(updates.table.num_rows for updates in read) < 4


def test_in_a_script_a_tail_ends_when_no_step_is_coming(connection, deliver, query):
    deliver((1, query.id, 1, 0, ("a", 0.0)))
    tail = Subscription(query, TailOptions(from_step=0), connection, until_idle=True)
    assert shown(tail) == [(1, "+", "a")]


def test_the_end_of_a_query_between_two_looks_loses_nothing(connection, deliver, query):
    tail = iter(Subscription(query, TailOptions(from_step=0), connection))
    deliver((1, query.id, 1, 0, ("a", 0.0)))
    assert shown([next(tail)]) == [(1, "+", "a")]
    dropped = catalogue_writer.change_query(connection.db, "drop", "DROP …", query)
    deliver(seq=dropped.seq - 1)
    deliver((3, query.id, -1, 8, ("a", 0.0)), seq=dropped.seq)
    assert shown(tail) == [(3, "-", "a")]


def test_a_temporary_query_that_another_client_drops_first_can_be_left(connection, query, monkeypatch):
    catalogue_writer.change_query(connection.db, "drop", "DROP …", query)
    monkeypatch.setattr(subscription, "query_now", lambda *_: query)  # it was live when it was looked at
    Subscription(query, TailOptions(), connection, temporary=True).close()
    assert len(entries_after(connection.db, 0, ["drop"])) == 1


def test_a_subscription_begins_with_the_answer_of_its_first_step(connection, deliver, query):
    append(connection.db, RunToEnd(), "RUN;")
    deliver(seq=query.seq - 1)
    shows = []

    def idle(progress):
        shows.append(progress.step)
        deliver((2, query.id, 1, 0, ("a", 0.0)), seq=query.seq)

    following = iter(Subscription(query, TailOptions(), connection, temporary=True, on_idle=idle))
    assert shown([next(following) for _ in range(3)]) == [("begin", 2), (2, "+", "a"), ("end", 2)]
    assert shows == [1]
    deliver((3, query.id, 1, 0, ("b", 0.0)))
    assert shown([next(following)]) == [(3, "+", "b")]


def test_closing_a_subscription_drops_its_query(connection, query):
    following = Subscription(query, TailOptions(), connection, temporary=True)
    following.close()
    following.close()
    assert find_query(connection.db, "q").state == "dropped"
    assert shown(following) == [("begin", 0), ("end", 0)]


def test_a_silent_tail_tells_that_it_lives(connection, deliver, query):
    told = []

    def leave(progress):
        told.append(progress)
        tail.close()

    tail = Subscription(query, TailOptions(), connection, on_idle=leave)
    assert shown(tail) == [("begin", 0), ("end", 0)] and told[0].step == 0


def test_a_reader_gives_each_batch_once_and_in_order(connection, deliver, query):
    deliver((1, query.id, 1, 0, ("b", 0.0)), (1, query.id, 1, 0, ("a", 0.0)))
    reader = UpdateReader(connection, -1)
    assert shown(reader.poll(0)) == [(1, "+", "a"), (1, "+", "b")]
    assert list(reader.poll(0)) == []
    deliver((2, query.id, -1, 1, ("a", 0.0)))
    assert shown(reader.poll(1)) == [(2, "-", "a")]


def test_a_run_is_waited_for_and_can_be_stopped(connection, deliver, query):
    run = append(connection.db, RunToEnd(), "RUN;")
    running = RunHandle(run.seq, run.entry, connection)
    assert not running.finished
    running.cancel()
    assert entries_after(connection.db, run.seq, {"stop_run"}) == [(run.seq + 1, RunStopped(run.seq))]
    timer = threading.Timer(0.05, deliver, kwargs={"run_done": run.seq})
    timer.start()
    told = []
    assert running.wait(told.append).step == 1 and running.finished and len(told) > 1


def test_a_stream_that_cannot_be_read_ends_the_waiting(connection, query):
    run = append(connection.db, RunToEnd(), "RUN;")
    set_stream_status(
        connection.db, StreamStatus(query.stream_id, "failed", message="/x.csv: no column 'lon'")
    )
    with pytest.raises(SourceError, match=r"stream taxis: /x\.csv: no column 'lon'"):
        RunHandle(run.seq, run.entry, connection).wait()


def test_a_condition_is_put_to_the_rows(connection, deliver, query):
    pytest.importorskip("stqsh.core.conditions.evaluation")
    rows = [("a", 1.0), ("b", 2.0), ("c", None)]
    deliver(*((1, query.id, 1, 0, row) for row in rows))
    where = CompareExpr(">", ColumnExpr("lon"), LiteralExpr(1.5, "DOUBLE"))
    tail = Subscription(query, TailOptions(from_step=0, where=where), connection, until_idle=True)
    assert shown(tail) == [(1, "+", "b")]


def test_a_dead_engine_is_told_of_and_started_again_by_what_comes_next(connection, query):
    command = (sys.executable, "-c", "raise ValueError('no memory')")
    starts = []

    def start(home):
        starts.append(1)
        return ensure_engine(home, command)

    connection.start = start
    connection.wake()
    run = append(connection.db, RunToEnd(), "RUN;")
    with pytest.raises(EngineDeadError, match="ValueError: no memory"):
        RunHandle(run.seq, run.entry, connection).wait()
    connection.wake()
    connection.wake()
    assert len(starts) == 2
    stop_engine(connection.home)


def test_who_waits_is_told_that_the_disk_is_full_once_it_has_been_for_a_while(connection, query, monkeypatch):
    monkeypatch.setattr("stqsh.client.connection._FULL_S", 0.05)
    monkeypatch.setattr("stqsh.client.connection.LOOK_EVERY_S", 0.0)
    monkeypatch.setattr("stqsh.client.connection.is_full", lambda home: True)
    looks = connection.watch()
    next(looks)
    words = r"only .* free on the disk of .*, but a session needs 256 MB"
    with pytest.raises(DiskFullError, match=words) as raised:
        while True:
            next(looks)
    assert "once there is room" in raised.value.hint
    temporary = DiskFullError(connection.home.path, is_temporary=True)
    assert temporary.hint == "free some space, and run the script again"
    monkeypatch.setattr("stqsh.client.connection.is_full", lambda home: False)
    looks = connection.watch()
    for _ in range(10):
        next(looks)
