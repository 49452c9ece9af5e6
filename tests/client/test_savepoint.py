"""SAVE and restore: a session of any kind goes on from a savepoint as if nothing had happened."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from support.running import Together
from support.seeded import moving_script, posts_script
from support.stopped import opened, run, run_rest

from stqsh.checksums import with_seal, without_seal
from stqsh.client.results import Message
from stqsh.engine.config import EngineSettings
from stqsh.errors import HomeError
from stqsh.storage.control_log import ControlDb, set_meta
from stqsh.storage.home import SessionHome, named_home, open_home
from stqsh.storage.savepoint import (
    SavepointError,
    check_free,
    read_savepoint,
    restore_savepoint,
    savepoint_blobs,
)
from stqsh.storage.staging import SAVING, remove_left

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


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint of a session in the middle of its run."""
    root = tmp_path_factory.mktemp("saved")
    home = new_home(root, "whole")
    file = Together([moving_script(5, objects=10, steps=STEPS)], [1]).write(root)
    text = file.read_text(encoding="utf-8").removesuffix("RUN;\n")
    with opened(home) as session:
        run(session, f"{text}RUN FOR 9 s;", file)
        list(session.execute(f"SAVE TO '{root / 'one'}';"))
        with pytest.raises(SavepointError, match=r"^there is a savepoint at .* already"):
            session.execute(f"SAVE TO '{root / 'one'}';")
        (root / "other").mkdir()
        (root / "other" / "mine.txt").write_text("…")
        with pytest.raises(
            SavepointError, match=r"holds files that are no savepoint, the first is mine\.txt"
        ):
            session.execute(f"SAVE TO '{root / 'other'}';")
        assert not (home.path / SAVING).exists()
    shutil.rmtree(home.arena.folder, ignore_errors=True)
    return root / "one"


def test_a_session_that_exists_is_not_restored_over(saved: Path, tmp_path: Path) -> None:
    open_home("there", root=tmp_path)
    with pytest.raises(HomeError, match="there is a session there already"):
        restored(str(saved), tmp_path, "there")


def test_an_incomplete_savepoint_is_refused_and_then_replaced(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(SavepointError, match="there is no savepoint at"):
        restored(str(tmp_path / "nothing"), tmp_path, "again")
    shutil.copytree(saved, tmp_path / "half")
    (tmp_path / "half" / "savepoint.json").unlink()
    (tmp_path / "half" / "begun").touch()
    with pytest.raises(SavepointError, match="is incomplete: SAVE was interrupted"):
        restored(str(tmp_path / "half"), tmp_path, "again")
    blobs = savepoint_blobs(str(tmp_path / "half"))
    check_free(blobs, "half")
    assert blobs.names() == ["begun"]


def test_damage_to_any_file_of_a_savepoint_is_told_and_leaves_nothing(saved: Path, tmp_path: Path) -> None:
    for number, name in enumerate(
        path.relative_to(saved) for path in sorted(saved.rglob("*")) if path.is_file()
    ):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(saved, copy)
        content = bytearray((copy / name).read_bytes())
        content[len(content) // 2] ^= 0x10
        (copy / name).write_bytes(content)
        with pytest.raises(SavepointError, match=f"^the savepoint at {copy} is damaged: ") as raised:
            restored(str(copy), tmp_path, "again")
        assert "\n" not in raised.value.message
        (copy / name).unlink()
        with pytest.raises(SavepointError):
            restored(str(copy), tmp_path, "again")
    assert not (tmp_path / "again").exists() and not (tmp_path / ".restoring").exists()


def test_a_savepoint_of_a_newer_version_is_refused(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "newer")
    file = tmp_path / "newer" / "savepoint.json"
    manifest = msgspec.json.decode(without_seal(file.read_bytes(), "savepoint.json"))
    later = manifest | {"layout": manifest["layout"] + 1, "version": "99.0"}
    file.write_bytes(with_seal(msgspec.json.encode(later)))
    with pytest.raises(SavepointError, match=r"was written by a newer stqsh \(99\.0\)"):
        restored(str(tmp_path / "newer"), tmp_path, "again")


def test_no_file_of_a_savepoint_lies_outside_of_the_session(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "evil")
    file = tmp_path / "evil" / "savepoint.json"
    manifest = msgspec.json.decode(without_seal(file.read_bytes(), "savepoint.json"))
    manifest["files"][0][0] = "../../out"
    file.write_bytes(with_seal(msgspec.json.encode(manifest)))
    with pytest.raises(SavepointError, match="names a file outside of the session"):
        restored(str(tmp_path / "evil"), tmp_path, "again")


def test_what_a_killed_client_has_left_is_removed(tmp_path: Path) -> None:
    home = new_home(tmp_path, "left")
    folder = home.path / SAVING / "0123"
    folder.mkdir(parents=True)
    (folder / "request").write_text("1:0")
    remove_left(home)
    assert not folder.exists()
