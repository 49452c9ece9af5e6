"""Arenas of sessions that are gone are removed, those of others are left alone."""

from __future__ import annotations

import os

from stqsh.storage.arena_cleanup import claim_arena, remove_lost_arenas
from stqsh.storage.home import SessionHome


def arena(folder, home, name):
    """An arena with a file of state in it, of a home."""
    made = folder / f"stqsh-{os.getuid()}-{name}"
    made.mkdir()
    (made / "evaluate-0.head").write_text("{}")
    if home is not None:
        (made / "home").write_text(str(home))
    return made


def test_arenas_of_homes_that_are_gone_are_removed(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "control.db").touch()
    shared = tmp_path / "shm"
    shared.mkdir()
    lost = arena(shared, tmp_path / "gone", "1")
    kept = [arena(shared, tmp_path / "there", "2"), arena(shared, None, "3")]
    other = shared / "another-program"
    other.mkdir()
    assert remove_lost_arenas(shared) == 1
    assert not lost.exists() and all(folder.exists() for folder in [*kept, other])
    assert remove_lost_arenas(shared) == 0


def test_an_arena_says_whose_it_is(tmp_path):
    home = SessionHome(tmp_path)
    (tmp_path / "arena").mkdir()
    claim_arena(home)
    claim_arena(home)
    assert (home.arena() / "home").read_text() == str(tmp_path)
