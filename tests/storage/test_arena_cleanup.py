"""Arenas: whose they are, that no other is adopted, and that those of sessions that are gone are removed."""

from __future__ import annotations

import os
import shutil
import stat
import time

import pytest

from stqsh.storage import home as homes
from stqsh.storage.arena_cleanup import claim_arena, remove_lost_arenas
from stqsh.storage.home import SessionHome


@pytest.fixture
def shm(tmp_path, monkeypatch):
    """A folder in the place of shared memory, with room."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(homes, "SHM", folder)
    monkeypatch.setattr(homes, "SHM_FREE_BYTES", 0)
    return folder


@pytest.fixture
def home(tmp_path):
    made = SessionHome(tmp_path / "home")
    made.path.mkdir()
    made.control_db.touch()
    return made


def test_the_arena_goes_to_shared_memory_where_there_is_room(shm, home, monkeypatch):
    monkeypatch.setattr(homes, "SHM_FREE_BYTES", 1 << 62)
    assert claim_arena(home) == home.arena.folder == home.path / "arena"
    shutil.rmtree(home.arena.folder)
    monkeypatch.setattr(homes, "SHM_FREE_BYTES", 0)
    assert claim_arena(home) == home.arena.folder
    assert home.arena.folder.parent == shm
    assert stat.S_IMODE(home.arena.folder.stat().st_mode) == 0o700
    monkeypatch.setattr(homes, "SHM_FREE_BYTES", 1 << 62)
    assert claim_arena(home).parent == shm, "an arena that is there already is kept"


def test_a_lost_arena_is_made_again_where_clients_look_for_it(shm, home):
    first = claim_arena(home)
    shutil.rmtree(first)
    assert claim_arena(home) == first
    assert first.is_dir()


def test_an_arena_says_whose_it_is(shm, home):
    claim_arena(home)
    assert (claim_arena(home) / "home").read_text() == str(home.path)


@pytest.mark.parametrize("how", ["open to others", "a link", "another user's"])
def test_a_folder_that_somebody_else_made_is_not_adopted(shm, home, monkeypatch, how):
    first = claim_arena(home)
    if how == "a link":
        first.rename(first.with_name("elsewhere"))
        first.symlink_to("elsewhere")
    elif how == "open to others":
        first.chmod(0o777)
    else:
        monkeypatch.setattr("stqsh.storage.private_files.os.geteuid", lambda: os.getuid() + 1)
    second = claim_arena(home)
    assert second not in (first, first.with_name("elsewhere"))
    assert home.arena.folder == second


def test_folders_in_the_home_that_are_open_to_others_are_made_again(shm, home):
    for name in ("arena", "arena-on-disk"):
        (home.path / name).mkdir()
        (home.path / name).chmod(0o755)
        (home.path / name / "somebody's").touch()
    claim_arena(home)
    assert not (home.path / "arena").exists()
    assert not (home.path / "arena-on-disk").exists()


def test_a_copy_of_a_home_has_an_arena_of_its_own(shm, home, tmp_path):
    claim_arena(home)
    shutil.copytree(home.path, tmp_path / "copy")
    copy = SessionHome(tmp_path / "copy")
    assert copy.arena.folder == copy.path / "arena"
    assert claim_arena(copy) == copy.arena.folder != home.arena.folder


@pytest.mark.parametrize("name", ["../escape", "stqsh-0-" + "f" * 31 + "/", "/etc", ""])
def test_a_name_that_leaves_shared_memory_is_not_followed(shm, home, name):
    home.arena.name_file.write_text(f'["{name}", "{home.path}"]')
    assert home.arena.folder == home.path / "arena"


def test_arenas_of_homes_that_are_gone_are_removed(shm, home, tmp_path):
    kept, gone = claim_arena(home), SessionHome(tmp_path / "gone")
    gone.path.mkdir()
    gone.control_db.touch()
    lost, unnamed = claim_arena(gone), shm / f"stqsh-{os.getuid()}-{'0' * 32}"
    unnamed.mkdir(mode=0o700)
    (shm / "another-program").mkdir()
    assert remove_lost_arenas() == 0
    gone.control_db.unlink()
    assert remove_lost_arenas() == 1
    assert not lost.exists() and kept.exists() and unnamed.exists()
    home.arena.choose_name()
    assert remove_lost_arenas() == 1, "the home has another arena now"
    assert remove_lost_arenas() == 0


def test_an_arena_of_an_earlier_version_is_removed_after_a_day(shm):
    nameless = [shm / f"stqsh-{os.getuid()}-{name}" for name in ("new", "old")]
    for folder in nameless:
        folder.mkdir(mode=0o700)
        (folder / "array").touch()
    yesterday = time.time() - 25 * 3600
    os.utime(nameless[1], (yesterday, yesterday))
    assert remove_lost_arenas() == 1
    assert [folder.exists() for folder in nameless] == [True, False]
