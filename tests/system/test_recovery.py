"""`kill -9` of the engine, its JVM, its Python workers, in mid batch: the update log goes on all the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.killing import KILLS, Disturber, disturb_at_rest, run_disturbed
from support.local import local_session
from support.running import Together, agree, log_so_far, parsed, run_script
from support.seeded import moving_script, posts_script, significant_script

from stqsh.client.api import connect
from stqsh.client.run import RunHandle

pytestmark = KILLS
KILLED = ("worker", "engine", "jvm", "worker")
"""What is killed, in order; the rest of the run is left alone."""


def test_the_log_is_the_oracles_whatever_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STQSH_ENGINE_MAX_RECORDS_PER_BATCH", "160")
    monkeypatch.setenv("STQSH_ENGINE_SPOOL_BYTES", "1")  # all payloads by name, as large ones go
    script = Together([moving_script(11), posts_script(12), significant_script(13, steps=150)], [1, 1, 1])
    file = script.write(tmp_path)
    text = file.read_text(encoding="utf-8").removesuffix("RUN;\n")
    with connect(home=tmp_path / "sessions", temporary=True, autoplay=False) as session:
        for _ in session.outcomes(text, file=str(file)):
            pass
        session.start_engine()
        running = next(o for o in session.outcomes("RUN;") if isinstance(o, RunHandle))
        disturber = Disturber(session, random.Random(3), tmp_path)
        disturb_at_rest(disturber, run_disturbed(disturber, running, KILLED))
        output = log_so_far(session, running)
    assert {"engine", "jvm", "worker"} <= set(disturber.done)
    with local_session(tmp_path / "reference") as session:
        assert output == run_script(session, file.read_text(encoding="utf-8"), file)
    agree(parsed(output), script.lines())
