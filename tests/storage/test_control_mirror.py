"""The mirror of control.db: what was published is what another host makes of it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.session_fixtures import STREAM, Deliver
from support.specs import stream_spec

from stqsh.checksums import DamagedFileError
from stqsh.client.connection import Connection
from stqsh.spec.log import RunToEnd
from stqsh.storage import catalogue_writer, control_mirror
from stqsh.storage.blobs import Blobs, home_blobs
from stqsh.storage.control_log import ControlDb, append, last_seq, set_meta
from stqsh.storage.control_mirror import ControlMirror, restore_control
from stqsh.storage.engine_info import EngineInfo
from stqsh.storage.home import SessionHome, open_home


class Host:
    """A host with a home of its own, and the session's storage, which all hosts see."""

    def __init__(self, folder: Path, *, name: str = "a") -> None:
        self.home, self.blobs = open_home(name, root=folder), home_blobs(folder / "storage")

    def opened(self, *, create: bool = False) -> ControlDb:
        self.control = ControlDb(self.home.path, create=create)
        self.mirror = ControlMirror(self.home, self.control, self.blobs)
        return self.control


def rows_of(control: ControlDb) -> dict[str, list[tuple[Any, ...]]]:
    tables = [name for (name,) in control.query(control_mirror._TABLES)]
    return {table: sorted(control.query(f"SELECT * FROM {table}"), key=repr) for table in tables}


def deliver(host: Host) -> Deliver:
    return Deliver(Connection(host.home, host.control, lambda home: EngineInfo(0, 0, 0, "ready")))


@pytest.mark.parametrize("most", [2, 64])
def test_another_host_makes_what_was_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(control_mirror, "_MOST_PIECES", most)
    first, chance = Host(tmp_path), random.Random(4)
    control = first.opened(create=True)
    stream = catalogue_writer.create_stream(control, "CREATE …;", stream_spec(STREAM))
    first.mirror.publish()
    batch = deliver(first)
    for number in range(12):
        if number % 3 == 0:
            append(control, RunToEnd(), "RUN;")
            set_meta(control, f"key{chance.randrange(3)}", str(number))
        batch((1, 7, 1, 0, (f"k{number}", 0.5)))
        if number == 8:
            with control.transaction() as connection:
                connection.execute("DELETE FROM meta WHERE key = 'key0'")
                connection.execute("DELETE FROM log WHERE kind = 'run'")
        first.mirror.publish()
    files = {path.name: path.read_bytes() for path in first.home.updates.iterdir()}
    assert len(files) == 12
    second = Host(tmp_path, name="b")
    assert restore_control(second.home, second.blobs)
    found = second.opened()
    assert rows_of(found) == rows_of(control)
    assert {path.name: path.read_bytes() for path in second.home.updates.iterdir()} == files
    # Numbers go on, also those of rows that are gone, and so does the mirror.
    assert append(found, RunToEnd()).seq == append(control, RunToEnd()).seq > stream.id
    second.mirror.publish()
    set_meta(found, "later", "1")
    second.mirror.publish()
    third = Host(tmp_path, name="c")
    assert restore_control(third.home, third.blobs)
    assert rows_of(third.opened()) == rows_of(found)


def test_a_piece_that_comes_late_undoes_nothing(tmp_path: Path) -> None:
    host = Host(tmp_path)
    control = host.opened(create=True)
    host.mirror.publish()

    class Slow(Blobs):
        """Storage in which another process publishes before a piece is there."""

        def put(self, name: str, pieces: Any) -> Any:
            set_meta(control, "key", "new")
            host.mirror.publish()
            return super().put(name, pieces)

    set_meta(control, "key", "old")
    ControlMirror(host.home, control, Slow(host.blobs.uri)).publish()
    other = Host(tmp_path, name="b")
    assert restore_control(other.home, other.blobs)
    assert rows_of(other.opened()) == rows_of(control)


def test_where_nothing_was_published_there_is_no_session(tmp_path: Path) -> None:
    home = SessionHome(tmp_path)
    assert not restore_control(home, home_blobs(tmp_path / "storage"))
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_piece_is_named(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.opened(create=True)
    host.mirror.publish()
    [name] = host.blobs.names("control/")
    host.blobs.put(name, [bytes(memoryview(host.blobs.read(name)))[:-1]])
    other = Host(tmp_path, name="b")
    with pytest.raises(DamagedFileError, match=name):
        restore_control(other.home, other.blobs)
    assert last_seq(ControlDb(other.home.path, create=True)) == 0
