"""An engine that has gone: why, its last words, and how to go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from stqsh.errors import EngineDeadError, OtherVersionError
from stqsh.shell.messages import format_engine_death
from stqsh.shell.status import engine_text, explain_engine_death
from stqsh.storage.engine_info import EngineInfo, EngineState, write_engine
from stqsh.storage.home import SessionHome, open_home

NOBODY = 2**22 + 1
"""A pid that no process has."""


@pytest.fixture
def home(tmp_path: Path) -> SessionHome:
    return open_home("mine", root=tmp_path)


def gone(home: SessionHome, state: EngineState, message: str = "") -> None:
    write_engine(home, EngineInfo.now(NOBODY, state, message))


def test_a_killed_engine_has_last_words_and_a_way_on(home: SessionHome) -> None:
    home.engine_log.write_text("starting\njava.lang.OutOfMemoryError: Java heap space\n\tat a.b(c)\n")
    gone(home, "ready")
    told = explain_engine_death(home)
    assert f"the engine (pid {NOBODY}) is not running any more" in told
    assert "java.lang.OutOfMemoryError: Java heap space" in told
    assert "\tat" not in told
    assert str(home.engine_log) in told
    assert r"\restart starts it again" in told


def test_what_went_well_is_no_reason(home: SessionHome) -> None:
    home.engine_log.write_text("2026-01-01 00:00:00,000 INFO stqsh.engine: the update log is folded\n")
    gone(home, "ready")
    assert "folded" not in explain_engine_death(home)


def test_what_java_logs_after_the_engine_is_gone_is_no_reason(home: SessionHome) -> None:
    home.engine_log.write_text(
        "org.apache.spark.SparkException: Error while sending a command. SQLSTATE: 39000\n"
        "Caused by: py4j.Py4JNetworkException: Error while sending a command: c\n"
    )
    gone(home, "ready")
    assert "rror while sending" not in explain_engine_death(home)


def test_one_that_failed_says_why_itself(home: SessionHome) -> None:
    gone(home, "failed", "no Java")
    assert "the engine failed: no Java" in explain_engine_death(home)


def test_one_that_was_stopped_needs_no_reason(home: SessionHome) -> None:
    gone(home, "stopping")
    assert explain_engine_death(home).startswith("the engine was stopped\n")


def test_a_status_line_tells_the_reason_and_leaves_the_remedy_to_what_has_room(home: SessionHome) -> None:
    gone(home, "failed", "no Spark cluster at x\nhint: start one")
    assert engine_text(home) == "engine failed: no Spark cluster at x"
    assert "hint: start one" in explain_engine_death(home)


def test_a_restart_is_not_advised_where_it_does_not_help() -> None:
    other = OtherVersionError()
    text = format_engine_death(EngineDeadError(f"the engine failed: {other.message}"))
    assert "restart" not in text and str(other.hint) in text
    assert r"\restart" in format_engine_death(EngineDeadError("the engine failed"))
