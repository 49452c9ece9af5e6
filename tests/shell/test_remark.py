"""A script says once why a live stream waits, and only if it waits for a while."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from stqsh.shell.scripting import script_runner
from stqsh.shell.scripting.script_runner import Remark
from stqsh.shell.status import status_text, waiting_part
from stqsh.spec.stats import BatchStats, LiveState
from stqsh.storage.rows import Progress


def test_a_text_is_shown_once_it_has_stood_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(script_runner, "time", SimpleNamespace(monotonic=lambda: now[0], time=time.time))
    remark = Remark(2.0)

    def looks(*texts: str) -> list[str]:
        shown = []
        for text in texts:
            now[0] += 1
            shown.append(remark.look(text))
        return shown

    assert looks("", "away", "away", "away", "away") == ["", "", "", "away", ""]
    assert looks("", "", "", "away", "") == [""] * 5  # for a moment only
    assert looks("away", "away", "away", "away") == ["", "", "away", ""]


def test_the_status_line_says_why_a_stream_waits() -> None:
    away = LiveState({}, "the stream waits: Kafka at b:9092 does not answer: no answer")
    progress = Progress(step=0, stats=BatchStats(live={1: LiveState({"t/0": 3}), 2: away}))
    assert waiting_part(progress) == away.message
    assert status_text(progress) == away.message
