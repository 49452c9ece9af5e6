"""Slots that are rebuilt from the beginning go on with the same updates."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from support.running import Together
from support.seeded import moving_script, posts_script
from support.stopped import opened, run, run_rest

from stqsh.checksums import DamagedFileError
from stqsh.engine.config import EngineSettings
from stqsh.engine.launch.slot_rebuild import (
    Committed,
    NotRebuiltError,
    find_damage,
    lost_slots,
    rebuild_slots,
)
from stqsh.engine.spark.spark_internals import last_commit, read_offset
from stqsh.spec.offset import LivePosition, Offset
from stqsh.spec.stream import FileSourceSpec, StreamSpec
from stqsh.storage import catalogue_writer
from stqsh.storage.blobs import checkpoint_blobs
from stqsh.storage.control_log import ControlDb, set_meta
from stqsh.storage.home import SessionHome, open_home
from stqsh.storage.savepoint import KnownSavepoint
from stqsh.storage.turns import rebuilt_slots

STEPS, SLOTS = 24, 2
ARCHIVED = StreamSpec(
    name="posts",
    kind="event",
    columns=(),
    key="id",
    x="lon",
    y="lat",
    time="ts",
    keep_us=1_000_000,
    archive="old",
    source=FileSourceSpec("posts.csv"),
)


def rebuild(home: SessionHome, slots: int) -> None:
    with closing(ControlDb(home.path)) as control:
        checkpoint = checkpoint_blobs(home.path)
        batch = last_commit(checkpoint)
        offset = Offset.from_json(orjson.loads(read_offset(checkpoint, batch)))
        rebuild_slots(home, control, slots, Committed(batch, offset))
        set_meta(control, "slots", str(slots))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slots", [2, 1, 3])
def test_rebuilt_slots_go_on_as_the_others(seed: int, slots: int, tmp_path: Path) -> None:
    choice = random.Random(seed)
    scripts = [moving_script(seed, objects=20, steps=STEPS), posts_script(seed + 50, steps=STEPS)]
    home = open_home("whole", root=tmp_path)
    with closing(ControlDb(home.path, create=True)) as control:
        set_meta(control, "slots", str(SLOTS))
        set_meta(control, "state", EngineSettings(home.path).state)
    file = Together(scripts, [1, 1]).write(tmp_path)
    text = file.read_text(encoding="utf-8").removesuffix("RUN;\n")
    with opened(home) as session:
        run(session, f"{text}RUN FOR {choice.randint(1, STEPS - 2)} s;", file)
    shutil.copytree(home.path, tmp_path / "again")
    expected = run_rest(home)
    again = SessionHome(tmp_path / "again")
    rebuild(again, slots)
    found = run_rest(again)
    assert found == expected
    for one in (home, again):
        shutil.rmtree(one.arena.folder, ignore_errors=True)


def test_damaged_files_of_slots_are_rebuilt_and_counted(tmp_path: Path) -> None:
    home, settings = _half(tmp_path, "whole"), EngineSettings(tmp_path / "whole", slots=SLOTS)
    files = [path.relative_to(home.path) for path in sorted(home.state.rglob("*")) if path.is_file()]
    shutil.copytree(home.path, tmp_path / "kept")
    expected = run_rest(home)
    choice = random.Random(1)
    for name in [*choice.sample(files, 3), Path("state/aggregate.batches"), Path("state/evaluate-1/head")]:
        shutil.rmtree(home.path)
        shutil.copytree(tmp_path / "kept", home.path)
        shutil.rmtree(home.arena.folder, ignore_errors=True)
        file = home.path / name
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0x10
        file.write_bytes(content)
        assert run_rest(home) == expected, name
        with closing(ControlDb(home.path)) as control:
            assert (
                find_damage(
                    home.state, settings.slots, last_commit(checkpoint_blobs(home.path)), content=True
                )
                is None
            )
            known = rebuilt_slots(control)
        needed = not name.name.startswith(("log.", "snapshot.")) or known.times
        assert (
            (known.times, known.why[:24]) == (1, "the session's file state") if needed else known.times == 0
        )
    shutil.rmtree(home.arena.folder, ignore_errors=True)


def test_slots_of_live_streams_are_not_rebuilt_and_the_savepoint_is_named(tmp_path: Path) -> None:
    home = open_home("live", root=tmp_path)
    with closing(ControlDb(home.path, create=True)) as control:
        offset = replace(Offset(), seq=1, live={1: LivePosition({"rows": 3}, 3)})
        with pytest.raises(NotRebuiltError, match="records of live streams cannot be read again") as raised:
            rebuild_slots(home, control, SLOTS, Committed(7, offset))
        damage = DamagedFileError("state/evaluate-0/head", "is gone")
        error = lost_slots(damage, raised.value, KnownSavepoint("/backup/monday", 120, 0))
        assert error.message == (
            "the session's file state/evaluate-0/head is gone, and the slots cannot be rebuilt:"
            " records of live streams cannot be read again"
        )
        assert error.hint is not None
        assert "restore NAME FROM '/backup/monday' makes a session as of step 120; or" in error.hint
        archived = catalogue_writer.create_stream(control, "", ARCHIVED)
        with pytest.raises(NotRebuiltError, match="which events the archive of posts has depends on"):
            rebuild_slots(home, control, SLOTS, Committed(7, replace(Offset(), seq=archived.id)))
        older = Committed(7, replace(Offset(), asked=3))
        with pytest.raises(NotRebuiltError, match="an older version has not recorded"):
            rebuild_slots(home, control, SLOTS, older)


def _half(tmp_path: Path, name: str) -> SessionHome:
    """Return a stopped session in the middle of its run."""
    scripts = [moving_script(3, objects=20, steps=STEPS), posts_script(53, steps=STEPS)]
    home = open_home(name, root=tmp_path)
    with closing(ControlDb(home.path, create=True)) as control:
        set_meta(control, "slots", str(SLOTS))
        set_meta(control, "state", EngineSettings(home.path).state)
    file = Together(scripts, [1, 1]).write(tmp_path)
    text = file.read_text(encoding="utf-8").removesuffix("RUN;\n")
    with opened(home) as session:
        run(session, f"{text}RUN FOR 11 s;", file)
    return home
