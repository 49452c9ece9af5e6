import os
import shutil
import stat
from pathlib import Path

import pytest

from stqsh.errors import HomeError
from stqsh.storage import home as homes
from stqsh.storage.home import SessionHome, list_sessions, open_home, remove_home, sessions_root


def test_a_named_home_is_private_and_found_again(tmp_path):
    made = open_home("city", root=tmp_path / "sessions")
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    assert open_home("city", root=tmp_path / "sessions") == made
    assert made.updates.is_dir() and made.stream(3) == made.path / "streams" / "3"


def test_without_a_name_it_is_the_default_session(tmp_path):
    assert open_home(root=tmp_path).name == "default"


def test_temporary_homes_are_all_different_and_can_be_removed(tmp_path):
    first, second = (open_home(root=tmp_path, temporary=True) for _ in range(2))
    assert first.path != second.path and first.temporary
    remove_home(first)
    remove_home(first)
    assert not first.path.exists() and second.path.exists()


@pytest.mark.parametrize("name", ["../up", "", "a/b", ".hidden", "x" * 65])
def test_a_name_that_is_no_file_name_is_refused(tmp_path, name):
    with pytest.raises(HomeError, match="cannot be a session's name"):
        open_home(name, root=tmp_path)


def test_a_file_in_the_place_of_the_root_is_one_clear_line(tmp_path):
    (tmp_path / "sessions").write_text("")
    with pytest.raises(HomeError, match=r"cannot use the session home .*sessions") as caught:
        open_home(root=tmp_path / "sessions")
    assert "STQSH_HOME" in caught.value.hint


def test_an_unreadable_home_is_one_clear_line(tmp_path, monkeypatch):
    open_home("mine", root=tmp_path)
    monkeypatch.setattr(homes.os, "access", lambda path, mode: False)
    with pytest.raises(HomeError, match=r"cannot use the session home .*mine: permission denied"):
        open_home("mine", root=tmp_path)


def test_the_root_is_the_argument_then_the_variable_then_the_profile(tmp_path, monkeypatch):
    monkeypatch.setenv("STQSH_HOME", str(tmp_path / "variable"))
    assert sessions_root(tmp_path / "argument", default="/profile") == tmp_path / "argument"
    assert sessions_root(default="/profile") == tmp_path / "variable"
    monkeypatch.delenv("STQSH_HOME")
    assert str(sessions_root(default="/profile")) == "/profile"
    assert sessions_root().parts[-2:] == ("stqsh", "sessions")


def test_sessions_are_listed_by_name(tmp_path):
    for name in ("b", "a"):
        open_home(name, root=tmp_path).control_db.touch()
    (tmp_path / "stray").mkdir()
    assert [info.home.name for info in list_sessions(tmp_path)] == ["a", "b"]
    assert list_sessions(tmp_path / "nowhere") == []


def test_a_session_that_ends_while_they_are_listed_hides_no_other(tmp_path, monkeypatch):
    for name in ("a", "b", "z"):
        open_home(name, root=tmp_path).control_db.touch()
    is_file = Path.is_file

    def ending(path):
        found = is_file(path)
        if path.parent.name == "b":
            remove_home(SessionHome(path.parent))
        return found

    monkeypatch.setattr(Path, "is_file", ending)
    assert [info.home.name for info in list_sessions(tmp_path)] == ["a", "z"]


def test_a_session_has_changed_when_its_database_or_that_one_s_log_was_last_written(tmp_path):
    home = open_home("a", root=tmp_path)
    home.control_db.touch()
    os.utime(home.control_db, (1000, 1000))
    assert [info.changed for info in list_sessions(tmp_path)] == [1000]
    log = home.path / "control.db-wal"
    log.touch()
    os.utime(log, (2000, 2000))
    assert [info.changed for info in list_sessions(tmp_path)] == [2000]


def test_the_scratch_of_spark_has_a_name_that_nobody_can_take_beforehand(tmp_path):
    home = open_home("city", root=tmp_path)
    assert not home.scratch.exists()
    first = home.make_scratch()
    assert home.scratch == first and stat.S_IMODE(first.stat().st_mode) == 0o700
    second = home.make_scratch()  # as after a kill
    assert second != first and not first.exists() and home.scratch == second
    shutil.copytree(home.path, tmp_path / "copy")
    assert SessionHome(tmp_path / "copy").scratch != second
    home.remove_scratch()
    assert not second.exists() and not home.scratch.exists()
    third = home.make_scratch()
    remove_home(home)
    assert not third.exists()
