"""The script that a profile lets a new session begin with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stqsh.client.api import connect
from stqsh.errors import StqshError
from stqsh.shell.user_files import is_new_session, profile_script
from stqsh.spec.log import SettingChanged
from stqsh.storage.control_log import ControlDb, append


def test_a_profile_that_is_asked_for_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STQSH_PROFILE", raising=False)
    monkeypatch.delenv("STQSH_SESSION_SCRIPT", raising=False)
    profile = tmp_path / "mine.yaml"
    profile.write_text("session:\n  script: begin.stq\n")
    assert profile_script(None) is None
    assert profile_script(str(profile)) == tmp_path / "begin.stq"
    monkeypatch.setenv("STQSH_PROFILE", str(profile))
    assert profile_script(None) == tmp_path / "begin.stq"


def test_a_session_is_new_until_it_is_asked_for_something(tmp_path: Path) -> None:
    session: Any = SimpleNamespace(connection=SimpleNamespace(db=ControlDb(tmp_path, create=True)))
    assert is_new_session(session)
    append(session.connection.db, SettingChanged("", None), "SET shell.scheme = dark;")
    assert not is_new_session(session)


def test_a_session_that_only_showed_something_is_not_new(tmp_path: Path) -> None:
    with connect(home=tmp_path) as session:
        assert is_new_session(session)
        with pytest.raises(StqshError):
            session.execute("DESCRIBE nothing;")
        assert is_new_session(session)
        session.execute("SHOW STATUS;")
    with connect(home=tmp_path, autoplay=False) as again:
        assert not is_new_session(again)
