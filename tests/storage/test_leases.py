"""Leases: what a reader has not read is kept; the dead hold nothing."""

import subprocess
import sys

from stqsh.storage import processes
from stqsh.storage.home import SessionHome
from stqsh.storage.update_log import leases
from stqsh.storage.update_log.leases import Lease, all_read, read_by_all


def test_the_reader_that_is_farthest_behind_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "_EVERY_S", 0.0)
    home = SessionHome(tmp_path)
    assert read_by_all(home, 9) == 9
    one, other = Lease(home, 3), Lease(home, -1)
    assert read_by_all(home, 9) == -1
    other.advance(7)
    assert read_by_all(home, 9) == 3 and read_by_all(home, 2) == 2
    one.release()
    with all_read(home, 7) as is_read:
        assert is_read
    with all_read(home, 8) as is_read:
        assert not is_read
    other.release()
    other.release()
    assert read_by_all(home, 9) == 9


def test_a_lease_is_not_written_at_every_step(tmp_path):
    home = SessionHome(tmp_path)
    lease = Lease(home, 3)
    lease.advance(5)
    assert read_by_all(home, 9) == 3


def test_a_damaged_lease_keeps_everything_while_its_reader_lives(tmp_path):
    home = SessionHome(tmp_path)
    Lease(home, 3)
    (path,) = home.readers.glob("[!.]*")
    path.write_bytes(b"\xa5")
    assert read_by_all(home, 9) == -1
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        path.rename(home.readers / f"{processes.identity(process.pid)}-0")
        process.wait()
    assert read_by_all(home, 9) == 9 and not list(home.readers.glob("[!.]*"))


def test_a_process_that_is_gone_holds_nothing(tmp_path):
    home = SessionHome(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        home.readers.mkdir()
        (home.readers / f"{processes.identity(process.pid)}-0").write_text("2")
        assert read_by_all(home, 9) == 2
        process.communicate()
    assert read_by_all(home, 9) == 9 and not list(home.readers.glob("[!.]*"))
