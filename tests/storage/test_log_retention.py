"""The update log stays as small as it is to be, and nobody who reads it loses anything."""

import errno
import threading
import time
from dataclasses import replace

import pytest

from stqsh.engine.config import TUNING
from stqsh.engine.delivery import log_retention
from stqsh.engine.delivery.log_retention import LogRetention
from stqsh.storage.update_log.files import CompactedBase, logged_files, read_base
from stqsh.storage.update_log.leases import Lease
from stqsh.storage.update_log.reader import UpdateLog
from tests.support.update_logs import batch_table, log_batch, part


@pytest.fixture
def kept(connection, request):
    """A retention of 20 batches' bytes; a call delivers the next batch, in which an object comes or goes."""
    tuning = getattr(request, "param", TUNING)
    size = _deliver(connection, 0)
    keeper = LogRetention(connection.home, connection.db, lambda: 20 * size, tuning)
    numbers = iter(range(1, 10_000))

    def deliver(times=1):
        for _ in range(times):
            number = next(numbers)
            keeper.delivered(number, _deliver(connection, number))
            keeper.look()
        return number

    deliver.keeper = keeper
    yield deliver
    keeper.stop()


def _deliver(connection, number):
    step, comes = number + 1, number % 2 == 0
    update = (step, 7, 1 if comes else -1, int(not comes), ("a", float(step)))
    return log_batch(connection.db, number, batch_table(step, step, part([update]))).total


def folded(connection, wanted=0):
    """Wait until the log is folded beyond a batch."""
    until = time.monotonic() + 120
    while read_base(connection.db).batch <= wanted:
        assert time.monotonic() < until, "nothing was folded"
        time.sleep(0.05)
    return read_base(connection.db)


def test_all_but_half_of_what_is_kept_is_folded(connection, stream, kept):
    kept(times=18)
    assert read_base(connection.db) == CompactedBase()
    last = kept(times=5)
    base = folded(connection)
    assert 8 <= last - base.batch <= 13
    kept.keeper.stop()
    assert [file.batch for file in logged_files(connection.db)] == list(range(base.batch + 1, last + 1))
    answer = UpdateLog(connection.db, connection.book.key_of).answer_at(7, last + 1, last)
    assert answer.num_rows == (last + 1) % 2


def test_it_goes_on_as_the_log_grows_and_after_a_restart(connection, stream, kept):
    kept(times=24)
    first = folded(connection).batch
    kept.keeper.stop()
    kept(times=24)
    second = folded(connection, first).batch
    kept.keeper.stop()
    keeper = LogRetention(connection.home, connection.db, lambda: 1)
    keeper.look()
    assert folded(connection, second).batch > second
    keeper.stop()


def test_an_error_does_not_end_its_thread(connection, monkeypatch):
    looks = threading.Semaphore(0)

    def fail(keeper):
        looks.release()
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(LogRetention, "look", fail)
    keeper = LogRetention(connection.home, connection.db, lambda: 1, replace(TUNING, log_look_s=0.01))
    keeper.start()
    try:
        assert all(looks.acquire(timeout=30) for _ in range(3))
    finally:
        keeper.stop()


def test_what_a_reader_has_not_read_is_kept(connection, stream, kept):
    lease = Lease(connection.home, 4)
    kept(times=60)
    assert folded(connection).batch <= 4
    kept.keeper.stop()
    log = UpdateLog(connection.db, connection.book.key_of)
    assert [tables[0].batch for tables in log.read(4, 60)] == list(range(5, 61))
    lease.release()
    kept()
    assert folded(connection, 4).batch > 40


@pytest.mark.parametrize("kept", [replace(TUNING, log_batches=10)], indirect=True)
def test_very_many_small_batches_are_folded_too(connection, stream, kept):
    kept(times=12)
    assert folded(connection).batch >= 5


def test_where_the_disk_is_full_half_of_it_goes_though_it_is_small(connection, stream, kept, monkeypatch):
    kept(times=10)
    assert read_base(connection.db) == CompactedBase()
    monkeypatch.setattr(log_retention, "is_full", lambda home: True)
    kept.keeper.look()
    assert 2 <= folded(connection).batch <= 8


@pytest.mark.parametrize("kept", [replace(TUNING, log_look_s=0.01, log_batches=4)], indirect=True)
def test_by_itself_it_looks_now_and_then(connection, stream, kept):
    for number in range(100, 110):
        kept.keeper.delivered(number, _deliver(connection, number))
    kept.keeper.start()
    assert folded(connection).batch > 100
