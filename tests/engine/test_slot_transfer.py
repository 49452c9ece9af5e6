"""Slots that were carried to a cluster and back go on as if they had never moved."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import closing
from pathlib import Path, PurePosixPath
from unittest import mock

import pytest
from support.files import files_in
from support.local import LocalEngine
from support.repartition import run as run_all
from support.running import Together, log_so_far
from support.seeded import moving_script, posts_script, significant_script
from support.stopped import opened, run

from stqsh.engine.config import EngineSettings
from stqsh.engine.launch.slot_rebuild import adapt_slots
from stqsh.engine.launch.slot_transfer import carry_dealers, carry_from_heads, dealers_of
from stqsh.engine.spark.spark_internals import (
    initial_heads,
    last_commit,
    last_offset,
    read_offset,
    restart_checkpoint,
)
from stqsh.profile import Profile, load_profile
from stqsh.sources.session_rebuild import publish_name, rebuild_home
from stqsh.spec.offset import Offset
from stqsh.storage.blobs import checkpoint_blobs, home_blobs, open_blobs
from stqsh.storage.control_log import ControlDb, get_meta, session_uuid, set_meta
from stqsh.storage.control_mirror import mirror_of
from stqsh.storage.home import SessionHome, named_home, open_home
from stqsh.storage.savepoint import Savepoint, read_savepoint, restore_savepoint, savepoint_blobs

STEPS, SLOTS = 24, 2
_GENERATED = """
CREATE MOVING STREAM {name} FROM GENERATOR 'network'
  (objects => 30, bounds => '0, 0, 0.2, 0.2', seed => {seed}) TICK 1 s;
REGISTER QUERY near_{name} AS SELECT oid, DISTANCE FROM {name} NEAREST 5 TO (0.05, 0.05);
REGISTER QUERY some_{name} AS SELECT oid FROM {name} INSIDE (0, 0, 0.1, 0.1);
"""
_DEALT = _GENERATED.format(name="fleet", seed=1) + _GENERATED.format(name="ships", seed=2)
"""Endless streams: once they are repartitioned, dealers deal their records."""


_JOINED = """
CREATE TABLE ranks (n INT, rank STRING) FROM FILE '{folder}/ranks.csv' KEY n;
REGISTER QUERY ranked AS SELECT T.oid, R.rank FROM taxis T, ranks R WHERE T.n = R.n;
"""


def saved_in_the_middle(root: Path, seed: int) -> tuple[bytes, str, Savepoint]:
    """What a session prints as a whole, and a savepoint of it."""
    choice = random.Random(seed)
    scripts = [
        moving_script(seed, objects=20, steps=STEPS),
        posts_script(seed + 50, steps=STEPS),
        significant_script(seed + 90, steps=STEPS),
    ]
    home = open_home("whole", root=root)
    with closing(ControlDb(home.path, create=True)) as control:
        set_meta(control, "slots", str(SLOTS))
        set_meta(control, "state", EngineSettings(home.path).state)
    file, uri = Together(scripts, [1, 1, 1]).write(root), str(root / "saved")
    (root / "ranks.csv").write_text("n,rank\n" + "".join(f"{n},rank {n % 4}\n" for n in range(0, 60, 2)))
    text = file.read_text(encoding="utf-8").removesuffix("RUN;\n") + _DEALT + _JOINED.format(folder=root)
    with opened(home) as session:
        run(session, text + "RUN 1 STEPS;", file)
        run_all(
            session, f"RUN {choice.randint(2, STEPS - 4)} STEPS; REPARTITION fleet USING grid INTO 3 SLOTS;"
        )
        if seed % 2:
            run_all(session, "RUN 2 STEPS; REPARTITION fleet USING agrid; REPARTITION ships USING quadtree;")
        with mock.patch.object(LocalEngine, "advance", until_seeded):
            next(iter(session.outcomes("RUN 3 STEPS;")))
            for _ in range(3):
                session.connection.progress()
            list(session.execute(f"SAVE TO '{uri}';"))
    expected = run_left(home)
    shutil.rmtree(home.arena.folder, ignore_errors=True)
    return expected, uri, read_savepoint(savepoint_blobs(uri), uri)


def until_seeded(engine: LocalEngine) -> None:
    """Take batches until a dealer has been given the objects of its stream, and has dealt no record."""
    engine.preparer.prepare_new()
    engine.reader.stage()
    if engine.offset.dealers.keys() == set(engine.offset.dealing):
        end = engine.reader.planner.latest(engine.offset, 0)
        if end != engine.offset:
            engine._batch(end)
            engine.offset, engine.number = end, engine.number + 1


def run_left(home: SessionHome) -> bytes:
    """Run a stopped session on, whose endless streams have no end; return all updates from the start."""
    with opened(home) as session:
        return log_so_far(session, run(session, "RUN 12 STEPS;"))


def restored(root: Path, name: str, uri: str, savepoint: Savepoint, profile: Profile) -> SessionHome:
    home = named_home(name, root)

    def adapt(made: SessionHome, control: ControlDb) -> None:
        adapt_slots(made, control, savepoint.staged, profile, None)

    restore_savepoint(savepoint_blobs(uri), uri, savepoint, home, adapt)
    return home


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("is_stored", [True, False])
def test_slots_go_on_after_they_were_on_a_cluster(seed: int, is_stored: bool, tmp_path: Path) -> None:
    expected, uri, savepoint = saved_in_the_middle(tmp_path, seed)
    batch, one = savepoint.staged.batch, load_profile(None, {})
    settings = {"STQSH_SPARK_MASTER": "spark://host:7077"}
    if is_stored:
        settings["STQSH_SESSION_STORAGE"] = f"file://{tmp_path}/storage"
    there = restored(tmp_path, "there", uri, savepoint, load_profile(None, settings))
    with closing(ControlDb(there.path)) as control:
        assert get_meta(control, "state") == EngineSettings(there.path, "yarn").state
        assert (get_meta(control, "storage") or "") == settings.get("STQSH_SESSION_STORAGE", "")
        name = session_uuid(control)
    blobs = open_blobs(settings["STQSH_SESSION_STORAGE"]).below(name) if is_stored else home_blobs(there.path)
    assert not there.checkpoint.exists()
    assert there.state.exists() != is_stored
    checkpoint = checkpoint_blobs(there.path)
    assert (last_commit(checkpoint), last_offset(checkpoint)) == (batch, batch)
    if is_stored:
        assert_rebuilt(there, settings["STQSH_SESSION_STORAGE"], name)

    back = restored(tmp_path, "back", uri, savepoint, one)
    shutil.rmtree(back.state)
    heads = initial_heads(checkpoint)
    carry_from_heads(blobs, heads, home_blobs(back.path), batch)
    with closing(ControlDb(back.path)) as control:
        offset = Offset.from_json(json.loads(read_offset(checkpoint, batch)))
        assert len(offset.dealers) == len(offset.dealing) + 1 == 1 + seed % 2
        dealers = dealers_of(control, offset, blobs, SLOTS)
        carry_dealers(dealers, offset, heads, home_blobs(back.path), batch)
    assert run_left(back) == expected
    shutil.rmtree(back.arena.folder, ignore_errors=True)


def assert_rebuilt(home: SessionHome, uri: str, session: str) -> None:
    """Assert that another host has a restored session from its storage, before a batch of the session."""
    storage = open_blobs(uri)
    with closing(ControlDb(home.path)) as control:
        mirror = mirror_of(home, control, storage.below(session))
        assert mirror is not None
        mirror.publish()
    publish_name(storage, home.name, session)
    other = open_home(home.name, root=home.path.parent / "other-host")
    assert rebuild_home(other, uri)
    for part in ("tables", "streams", "updates"):
        kept, mine = files_in(other.path / part), files_in(home.path / part)
        left = {PurePosixPath(name).name for name in mine.keys() - kept.keys()}
        assert kept and kept.items() <= mine.items() and left <= {"dead_letters.jsonl"}


def test_a_session_keeps_its_slots_in_its_home_when_its_files_move_to_a_storage(tmp_path: Path) -> None:
    expected, uri, savepoint = saved_in_the_middle(tmp_path, 7)
    names = {"STQSH_SESSION_STORAGE": f"file://{tmp_path}/storage"}
    home = restored(tmp_path, "stored", uri, savepoint, load_profile(None, names))
    with closing(ControlDb(home.path)) as control:
        set_meta(control, "storage", "")  # the engine of this test reads the home
    assert not [*home.state.glob("*/log.*")], "logs refer to files that are not in the new storage"
    assert run_left(home) == expected
    shutil.rmtree(home.arena.folder, ignore_errors=True)


def test_a_checkpoint_of_one_machine_is_made_of_the_end_of_another(tmp_path: Path) -> None:
    source = home_blobs(tmp_path / "checkpoints" / "7")
    source.put("initial", [b'{"step":6}'])
    for number in (0, 1):
        source.put(f"offsets/{number}", [b'v1\n{"conf":{}}\n{"step":%d}' % (7 + number)])
        source.put(f"commits/{number}", [b'v1\n{"nextBatchWatermarkMs":0}'])
    made = home_blobs(tmp_path / "checkpoint")
    restart_checkpoint(source, 8, made)
    assert (last_commit(made), last_offset(made)) == (8, 8)
    assert [read_offset(made, batch) for batch in (7, 8)] == ['{"step":7}', '{"step":8}']
    begun = home_blobs(tmp_path / "begun")
    restart_checkpoint(source, 7, begun)
    assert begun.names("offsets/") == ["offsets/6", "offsets/7"]
    assert bytes(memoryview(begun.read("offsets/6"))) == b'v1\n{"conf":{}}\n{"step":6}'
