"""A sink of a real engine, of which engine and sink are killed at random times."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from support.running import log_so_far
from support.sinks import QUERIES, STREAM, write_records

from stqsh.client.api import connect
from stqsh.client.run import RunHandle
from stqsh.client.sink_wait import finish_sinks
from stqsh.storage.engine_info import read_engine

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def sink_processes(engine: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return [one for one in psutil.Process(engine).children() if "stqsh.sinks.main" in one.cmdline()]
    return []


def test_killed_engines_and_sinks_write_each_update_once(tmp_path: Path) -> None:
    write_records(tmp_path, objects=100)
    draw = random.Random(2)
    with connect(home=tmp_path / "home", temporary=True, autoplay=False) as session:
        for text in (STREAM.format(folder=tmp_path), QUERIES):
            list(session.execute(text))
        list(session.execute(f"CREATE SINK out FOR ALL TO FILE '{tmp_path}/out' FORMAT JSONL;"))
        killed = []
        for number in range(4):
            for outcome in session.execute("RUN 15 STEPS;"):
                assert isinstance(outcome, RunHandle)
                outcome.wait()
            info = read_engine(session.home)
            assert info is not None
            found = sink_processes(info.pid)
            time.sleep(draw.uniform(0, 1))
            if number == 1:
                os.kill(info.pid, signal.SIGKILL)
                killed.append("engine")
            elif number < 3 and found:
                found[0].kill()
                killed.append("sink")
        [last] = session.execute("RUN;")
        assert isinstance(last, RunHandle)
        last.wait()
        expected = log_so_far(session, last)
        finish_sinks(session.link)
        files = sorted((tmp_path / "out").iterdir())
        assert b"".join(file.read_bytes() for file in files) == expected
        assert set(killed) == {"engine", "sink"}
