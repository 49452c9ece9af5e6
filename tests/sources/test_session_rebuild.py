"""A session whose driver's host is lost: another host makes its home again from the storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.files import files_in
from support.local import LocalConnection, local_session

from stqsh.client.api import Session
from stqsh.client.run import RunHandle
from stqsh.engine.ingest.task_reader import chunks
from stqsh.engine.planning.planner import Planner
from stqsh.engine.spark.spark_internals import checkpoint_place, last_offset
from stqsh.sources.generator.replay import extend
from stqsh.sources.live.inserted_records import read_end
from stqsh.sources.live.line_spool import SPOOL
from stqsh.sources.replay_store.manifest import read_manifest
from stqsh.sources.replay_store.segments import SEGMENT
from stqsh.sources.session_rebuild import forget_name, publish_name, rebuild_home
from stqsh.storage import control_mirror
from stqsh.storage.blobs import checkpoint_blobs, find_checkpoint, open_blobs, place_checkpoint
from stqsh.storage.control_log import ControlDb, wall_clock_us
from stqsh.storage.control_mirror import mirror_of
from stqsh.storage.home import SessionHome, open_home

SCRIPT = """
CREATE MOVING STREAM taxis (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  KEY oid LOCATION (x, y) TIME ts FROM FILE '{folder}/taxis.csv' TICK 1 s PLANAR;
CREATE TABLE favourites (oid STRING, who STRING) FROM FILE '{folder}/favourites.csv' KEY oid;
CREATE REGION forecourt AS POLYGON ((2 2, 8 2, 8 8, 2 8));
REGISTER QUERY within AS SELECT oid FROM taxis INSIDE forecourt;
CREATE MOVING STREAM fleet FROM GENERATOR 'network' (objects => 30, bounds => '0, 0, 0.2, 0.2') TICK 1 s;
REGISTER QUERY liked AS SELECT T.oid, F.who FROM taxis T, favourites F WHERE T.oid = F.oid;
"""

INSERTS = """
CREATE MOVING STREAM taxis (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  KEY oid LOCATION (x, y) TIME ts FROM INSERTS TICK 1 s PLANAR;
REGISTER QUERY within AS SELECT oid FROM taxis INSIDE RECT(0, 0, 9, 9);
"""
LATER = (
    "checkpoints/12/initial",
    "checkpoints/12/offsets/0",
    "checkpoints/9/initial",
    "checkpoints/15/heads",
)


def run(session: Session, text: str) -> None:
    for outcome in session.outcomes(text):
        if isinstance(outcome, RunHandle):
            outcome.wait()


def rows_of(control: ControlDb) -> dict[str, list[tuple[Any, ...]]]:
    tables = [name for (name,) in control.query(control_mirror._TABLES)]
    return {name: sorted(control.query(f"SELECT * FROM {name}"), key=repr) for name in tables}


def generated(session: Session, home: SessionHome) -> dict[str, bytes]:
    """The segments of the endless stream in a home once it has been generated a little further."""
    fleet = session.streams()[-1]
    folder = home.stream(fleet.id)
    manifest = read_manifest(folder)
    assert manifest is not None and manifest.last_tick is not None
    assert len(extend(fleet.spec, folder, manifest.last_tick + 1).segments) > len(manifest.segments)
    return {name: content for name, content in files_in(folder).items() if name.startswith(SEGMENT)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [f"{n % 9},{n % 10},{n % 7},2024-06-15T00:00:{n // 9:02d}Z" for n in range(9 * 30)]
    (tmp_path / "taxis.csv").write_text("\n".join(["oid,x,y,ts", *rows, ""]))
    (tmp_path / "favourites.csv").write_text("oid,who\n1,ann\n2,bob\n")
    return tmp_path


def test_another_host_has_the_home_that_the_first_one_had(folder: Path) -> None:
    uri = (folder / "storage").as_uri()
    storage = open_blobs(uri)
    blobs = storage.below("0123")
    with local_session(folder / "first", 2, 40) as session:
        assert isinstance(session.connection, LocalConnection) and session.connection.engine is not None
        engine, home = session.connection.engine, session.home
        engine.reader.planner.share(blobs)
        engine.delivery._mirror = mirror_of(home, session.connection.db, blobs)
        run(session, SCRIPT.format(folder=folder) + "RUN 20 STEPS;")
        publish_name(storage, "taxis", "0123")
        blobs.put("checkpoint/offsets/7", [b"v1"])
        other = open_home("taxis", root=folder / "second")
        assert rebuild_home(other, uri)
        control = ControlDb(other.path)
        assert rows_of(control) == rows_of(session.connection.db)
        assert files_in(other.path / "updates") == files_in(home.path / "updates")
        for part in ("tables", "streams"):  # dead letters stay where they were
            kept = files_in(other.path / part)
            assert kept and kept.items() <= files_in(home.path / part).items()
        assert generated(session, other) == generated(session, home)
        assert last_offset(checkpoint_blobs(other.path)) == 7
        assert not rebuild_home(other, uri), "it has a session now"
        control.close()
    forget_name(storage, "taxis", "0123")
    assert storage.names() == []
    assert not rebuild_home(open_home("taxis", root=folder / "third"), uri)


def test_a_batch_of_a_live_stream_is_read_again_where_the_home_is_lost(folder: Path) -> None:
    uri = (folder / "storage").as_uri()
    storage = open_blobs(uri)
    blobs = storage.below("0123")
    with local_session(folder / "first", 2) as session:
        assert isinstance(session.connection, LocalConnection) and session.connection.engine is not None
        engine, planner = session.connection.engine, session.connection.engine.reader.planner
        planner.share(blobs)
        engine.delivery._mirror = mirror_of(session.home, session.connection.db, blobs)
        run(session, f"{INSERTS} INSERT INTO taxis VALUES ('1', 1, 1, NOW), ('2', 2, 2, NOW); RUN 2 STEPS;")
        run(session, "INSERT INTO taxis VALUES ('1', 3, 3, NOW), ('3', 2, 2, NOW);")
        session.connection.engine = None  # the next batch is planned, and its home lost
        next(iter(session.outcomes("RUN 2 STEPS;")))
        before, now_us = engine.offset, wall_clock_us() + 10_000_000
        after = planner.latest(before, now_us)
        assert after.live != before.live
        publish_name(storage, "taxis", "0123")
        blobs.put("checkpoint/offsets/7", [b"v1"])
        other = open_home("taxis", root=folder / "second")
        assert rebuild_home(other, uri)
        again = Planner(other.path, 2)
        again.share(blobs)
        found = [
            [chunk for task in one.plan(before, after) for chunk in chunks(task) if chunk.kind == "records"]
            for one in (planner, again)
        ]
        assert found[0] and found[0] == found[1]
        spools = [home.stream(1) / SPOOL for home in (session.home, other)]
        assert read_end(spools[0]) == read_end(spools[1]) == 6, (
            "a record that is inserted there comes after these"
        )
        again.close()
        session.connection.engine = engine


def test_a_checkpoint_is_named_as_hadoop_names_it(tmp_path: Path) -> None:
    places = {
        "s3://bucket/all%20of/0123/checkpoint?region=x": "s3a://bucket/all of/0123/checkpoint",
        "hdfs://host:8020/all/0123/checkpoint": "hdfs://host:8020/all/0123/checkpoint",
    }
    for uri, place in places.items():
        assert checkpoint_place(open_blobs(uri)) == place
    assert checkpoint_place(checkpoint_blobs(tmp_path)) == str(tmp_path / "checkpoint")
    place_checkpoint(tmp_path, open_blobs("hdfs://host:8020/all/0123"))
    assert checkpoint_blobs(tmp_path).uri == "hdfs://host:8020/all/0123/checkpoint"
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint.uri").unlink()
    place_checkpoint(tmp_path, open_blobs("hdfs://host:8020/all/0123"))
    assert checkpoint_blobs(tmp_path).folder == tmp_path / "checkpoint", "the session has run"


def test_a_new_home_goes_on_with_the_last_checkpoint_that_is_complete(tmp_path: Path) -> None:
    blobs = open_blobs(f"file://{tmp_path}/storage")
    homes = [tmp_path / name for name in ("none", "first", "later")]
    for home, more in zip(homes, ((), ("checkpoint/offsets/0",), LATER), strict=True):
        home.mkdir()
        for name in more:
            blobs.put(name, [b"v1"])
        find_checkpoint(home, blobs)
    found = [checkpoint_blobs(home).uri.removeprefix(f"file://{tmp_path}/") for home in homes]
    assert found == ["none/checkpoint", "storage/checkpoint", "storage/checkpoints/12"]
