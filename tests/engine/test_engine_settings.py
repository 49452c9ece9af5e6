"""What an engine takes over from a session's first start: the number of slots, and where their state lies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stqsh.engine.config import STATE_FORMAT, STATE_FORMATS, EngineSettings
from stqsh.engine.launch.main import engine_settings
from stqsh.errors import StqshError
from stqsh.storage.control_log import ControlDb, set_meta
from stqsh.storage.home import SessionHome


def test_the_number_of_slots_is_that_of_the_first_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, control = SessionHome(tmp_path), ControlDb(tmp_path, create=True)
    first = engine_settings(home, control)
    more = replace(first, slots=first.slots + 3)
    monkeypatch.setattr(EngineSettings, "from_profile", lambda *_: more)
    assert engine_settings(home, control) == first


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (f"spark/{STATE_FORMATS['spark']}", "has run on a cluster"),
        (f"files/{STATE_FORMAT - 1}", "another version"),
        ("files", "another version"),
        (None, "another version"),
    ],
)
def test_state_that_lies_elsewhere_is_told_at_the_start(tmp_path: Path, state: str | None, told: str) -> None:
    home, control = SessionHome(tmp_path), ControlDb(tmp_path, create=True)
    set_meta(control, "slots", "2")
    if state:
        set_meta(control, "state", state)
    with pytest.raises(StqshError, match=told):
        engine_settings(home, control)
