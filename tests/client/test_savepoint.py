"""SAVE and restore: a session of any kind goes on from a savepoint as if nothing had happened."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from support.running import Together
from support.seeded import moving_script, posts_script
from support.stopped import opened, run, run_rest

from stqsh.client.results import Message
from stqsh.engine.config import EngineSettings
from stqsh.storage.control_log import ControlDb, set_meta
from stqsh.storage.home import SessionHome, named_home, open_home
from stqsh.storage.savepoint import read_savepoint, restore_savepoint, savepoint_blobs

STEPS, SLOTS = 24, 2


def new_home(root: Path, name: str, slots: int = SLOTS) -> SessionHome:
    home = open_home(name, root=root)
    with closing(ControlDb(home.path, create=True)) as control:
        set_meta(control, "slots", str(slots))
        set_meta(control, "state", EngineSettings(home.path).state)
    return home


def restored(uri: str, root: Path, name: str) -> SessionHome:
    home, blobs = named_home(name, root), savepoint_blobs(uri)
    restore_savepoint(blobs, uri, read_savepoint(blobs, uri), home)
    return home


@pytest.mark.parametrize("seed", range(3))
def test_a_restored_session_goes_on_with_the_same_bytes(seed: int, tmp_path: Path) -> None:
    choice = random.Random(seed)
    scripts = [moving_script(seed, objects=20, steps=STEPS), posts_script(seed + 50, steps=STEPS)]
    home = new_home(tmp_path, "whole")
    file = Together(scripts, [1, 1]).write(tmp_path)
    text = file.read_text(encoding="utf-8").removesuffix("RUN;\n")
    uris = []
    with opened(home) as session:
        run(session, f"{text}RUN FOR {choice.randint(1, STEPS // 2)} s;", file)
        for number in range(2):
            uris.append(str(tmp_path / f"saved-{number}"))
            [*_, message] = session.execute(f"SAVE TO '{uris[-1]}';")
            assert isinstance(message, Message) and " saved as of step " in message.text
            run(session, f"RUN FOR {choice.randint(1, STEPS // 4)} s;")
    expected = run_rest(home)
    for number, uri in enumerate(uris):
        again = restored(uri, tmp_path, f"again-{number}")
        assert run_rest(again) == expected
        shutil.rmtree(again.arena.folder, ignore_errors=True)
    shutil.rmtree(home.arena.folder, ignore_errors=True)
