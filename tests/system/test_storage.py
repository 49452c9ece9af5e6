"""Sessions whose files are not in their homes: the same answers, from a folder and from an S3 server."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.local import LocalConnection, local_session
from support.repartition import POSTS, TAXIS, Dealt, drive, run, updates, write_posts, write_taxis
from support.s3 import Gate, s3_environment, s3_gate

from stqsh.checksums import DamagedFileError
from stqsh.client.api import connect
from stqsh.client.engine_process import stop_engine
from stqsh.engine.config import EngineSettings
from stqsh.engine.launch.main import check_storage, engine_settings
from stqsh.errors import StqshError
from stqsh.sources.replay_store import store
from stqsh.storage.blobs import StorageError, open_blobs
from stqsh.storage.control_log import ControlDb, session_uuid
from stqsh.storage.engine_info import read_engine
from stqsh.storage.home import open_home


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with s3_environment(), s3_gate() as gate:
        yield gate


@pytest.fixture(params=["a folder", "an S3 server"])
def storage(request: pytest.FixtureRequest, gate: Gate, tmp_path: Path) -> str:
    return gate.uri(tmp_path.name) if request.param == "an S3 server" else (tmp_path / "storage").as_uri()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["posts", "taxis"])
def test_the_same_updates_come_from_any_storage(name: str, storage: str, tmp_path: Path) -> None:
    (write_posts if name == "posts" else write_taxis)(tmp_path)
    case = POSTS if name == "posts" else TAXIS
    dealt, script = Dealt(2, restarts=True, spool_bytes=1), case.create + case.queries
    expected = drive(tmp_path, "home", dealt, script, case.changes[:2])
    assert expected
    assert drive(tmp_path, "elsewhere", dealt, script, case.changes[:2], storage) == expected
    names = open_blobs(storage).names("streams/")
    assert any(one.endswith(".arrow") for one in names)
    assert any("previous-" in one for one in names) == (name == "taxis")


def live_updates(folder: Path, storage: str = "") -> list[object]:
    """What a stream of inserts sends whose records are taken now and then, and once again after a loss."""
    chance = random.Random(3)
    with local_session(folder, 2, mishaps={2, 5}, storage=storage) as session:
        run(
            session,
            "CREATE MOVING STREAM taxis (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP)"
            " KEY oid LOCATION (x, y) TIME ts FROM INSERTS TICK 1 s PLANAR;"
            "REGISTER QUERY near AS SELECT oid, x FROM taxis INSIDE (0, 0, 5, 5);",
        )
        for _ in range(4):
            places = ", ".join(
                f"('{number}', {chance.uniform(0, 10):.3f}, {chance.uniform(0, 10):.3f}, NOW)"
                for number in range(20)
            )
            run(session, f"INSERT INTO taxis VALUES {places}; RUN 1 STEP;")
        assert isinstance(session.connection, LocalConnection) and session.connection.engine is not None
        engine = session.connection.engine
        engine.reader.commit(engine.offset.to_json())
        return [(row["query"], row["op"], row["key"]) for row in updates(session)]


def test_what_is_inserted_is_taken_from_any_storage(storage: str, tmp_path: Path) -> None:
    expected = live_updates(tmp_path / "a")
    assert expected
    assert live_updates(tmp_path / "b", storage) == expected
    spooled = [name.partition("/spool/")[2] for name in open_blobs(storage).names() if "/spool/" in name]
    assert len({name.partition("/")[0] for name in spooled}) == 1, (
        "all is committed: only the last part stays"
    )


def test_what_a_dropped_stream_has_published_is_deleted(storage: str, tmp_path: Path) -> None:
    write_posts(tmp_path)
    with local_session(tmp_path, storage=storage) as session:
        run(session, POSTS.create.format(folder=tmp_path) + "RUN 5 STEPS;")
        assert open_blobs(storage).names("streams/")
        run(session, "DROP STREAM posts;" + POSTS.create.format(folder=tmp_path).replace("posts (", "more ("))
        assert isinstance(session.connection, LocalConnection) and session.connection.engine is not None
        dropped = session.connection.engine.preparer._dropped
        for _ in range(3):
            run(session, "RUN 2 STEPS;")
            dropped.find()
            dropped._looked = -1e9
            dropped.remove()
        kept = {name.split("/")[1] for name in open_blobs(storage).names("streams/")}
        assert len(kept) == 1


def test_a_published_file_that_is_damaged_is_published_again(gate: Gate, tmp_path: Path) -> None:
    write_posts(tmp_path)
    storage = gate.uri(tmp_path.name)
    with local_session(tmp_path, storage=storage) as session:
        run(session, POSTS.create.format(folder=tmp_path) + POSTS.queries)
        blobs = open_blobs(storage)
        assert isinstance(session.connection, LocalConnection) and session.connection.engine is not None
        engine = session.connection.engine
        run(session, "RUN 1 STEP;")
        shutil.rmtree(engine.settings.cache)  # this host has no copy, and no mapped one
        store._known.clear()
        [name] = [name for name in blobs.names() if name.endswith(".arrow")]
        blobs.put(name, [b"not what was written"])
        with pytest.raises(DamagedFileError, match=f"{name} is cut short"):
            run(session, "RUN 5 STEPS;")
        engine.restart(arena=False)
        run(session, "RUN 5 STEPS;")
        assert updates(session)


def test_the_settings_name_the_session_by_its_uuid_and_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STQSH_SESSION_STORAGE", "s3://bucket/of%20all/?region=a")
    home = open_home("one", root=tmp_path)
    control = ControlDb(home.path, create=True)
    settings = engine_settings(home, control)
    assert settings.storage == f"s3://bucket/of%20all/{session_uuid(control)}?region=a"
    assert engine_settings(home, control) == settings
    other = ControlDb(open_home("two", root=tmp_path).path, create=True)
    assert session_uuid(other) != session_uuid(control)
    monkeypatch.delenv("STQSH_SESSION_STORAGE")
    with pytest.raises(StqshError, match=r"keeps its files in session.storage = s3:.* with its home"):
        engine_settings(home, control)


def test_a_session_begun_in_its_home_stays_there() -> None:
    check_storage("", EngineSettings(Path()))
    with pytest.raises(StqshError, match=r"keeps its files in its home: .* with session.storage = file:///x"):
        check_storage("", EngineSettings(Path(), storage="file:///x"))


def test_a_uri_that_names_no_storage_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STQSH_SESSION_STORAGE", "elsewhere")
    home = open_home("one", root=tmp_path)
    with pytest.raises(StorageError, match=r"session.storage 'elsewhere' names no store"):
        engine_settings(home, ControlDb(home.path, create=True))


def told(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Updates without the columns that are NULL, which a file of several queries has for all of them."""
    return [{name: value for name, value in row.items() if value is not None} for row in found]


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_the_same_from_an_s3_server_when_it_is_killed(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = gate.uri(tmp_path.name)
    write_taxis(tmp_path)
    script, changes = TAXIS.create + TAXIS.queries, TAXIS.changes[:2]
    expected = drive(tmp_path, "expected", Dealt(2), script, changes)
    monkeypatch.setenv("STQSH_SESSION_STORAGE", storage)
    monkeypatch.setenv("STQSH_ENGINE_SLOTS", "2")
    with connect("kept", home=tmp_path / "sessions", autoplay=False) as session:
        run(session, script.format(folder=tmp_path))
        for change in changes:
            run(session, f"RUN 20 STEPS; {change}")
            engine = read_engine(session.connection.home)
            assert engine is not None
            os.kill(engine.pid, signal.SIGKILL)
        run(session, "RUN;")
        assert told(updates(session)) == told(expected)
        names = open_blobs(storage).below(session_uuid(session.connection.db)).names("streams/")
        assert any("previous-" in name for name in names)
        stop_engine(session.connection.home)
