"""Slots that are rebuilt from the beginning go on with the same updates."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from support.running import Together
from support.seeded import moving_script, posts_script
from support.stopped import opened, run, run_rest

from stqsh.engine.config import EngineSettings
from stqsh.engine.launch.slot_rebuild import Committed, rebuild_slots
from stqsh.engine.spark.spark_internals import last_commit, read_offset
from stqsh.spec.offset import Offset
from stqsh.storage.blobs import checkpoint_blobs
from stqsh.storage.control_log import ControlDb, set_meta
from stqsh.storage.home import SessionHome, open_home

STEPS, SLOTS = 24, 2


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
