"""A cluster's executors are killed, between batches and within them: the output is that of one machine."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from support.killing import KILLS
from support.local import local_session
from support.running import run_script

from engine.test_cluster import write_cars

pytestmark = KILLS

MIXED = """
CREATE MOVING STREAM fleet FROM GENERATOR 'network' (objects => 1000, bounds => '0, 0, 0.2, 0.2');
REGISTER QUERY held AS SELECT oid FROM fleet INSIDE (0, 0, 0.1, 0.1);
REGISTER QUERY close AS SELECT oid, DISTANCE FROM fleet NEAREST 5 TO (0.05, 0.05);
REGISTER QUERY counted AS SELECT COUNT(*), AVG(speed) FROM fleet GROUP BY kind;
REGISTER QUERY fastest AS SELECT oid, speed FROM fleet ORDER BY speed DESC LIMIT 5;
"""
RUNS, KILLED = 16, 4
#: What is run before a step: how streams are routed and what queries ask changes while executors die.
CHANGES = {
    2: "REPARTITION fleet USING grid;",
    4: "ALTER QUERY held INSIDE (0.05, 0, 0.15, 0.12) WHERE speed > 5;",
    6: "REPARTITION cars USING quadtree;",
    8: "REPARTITION fleet USING quadtree INTO 2 SLOTS;",
    9: "ALTER QUERY close NEAREST 7 TO (0.12, 0.08);",
    11: "REBALANCE fleet;",
    13: "REPARTITION fleet USING object INTO 3 SLOTS;",
    15: "ALTER QUERY held INSIDE CIRCLE(0.1, 0.1, 4 km);",
}


@pytest.mark.parametrize("seed", [1])
def test_executors_that_are_killed_change_nothing_to_the_byte(tmp_path: Path, seed: int) -> None:
    script = tmp_path / "mixed.stq"
    runs = [CHANGES.get(number, "") + "RUN 2 STEPS;\n" for number in range(RUNS)]
    more = "".join(runs) + "SELECT COUNT(*) AS here FROM fleet;\n"
    script.write_text(write_cars(tmp_path) + MIXED + more, encoding="utf-8")
    with local_session(tmp_path / "local", slots=3, published=True) as session:
        expected = run_script(session, script.read_text(encoding="utf-8"), script)
    draw, home = random.Random(seed), tmp_path / "home"
    environ = {
        "STQSH_HOME": str(home),
        "STQSH_SPARK_MASTER": "local-cluster[2,1,1024]",
        "STQSH_SPARK_EXECUTOR_MEMORY": "700m",
        "STQSH_ENGINE_SLOTS": "3",
        "STQSH_ENGINE_MEMORY": "1g",
    }
    command = [sys.executable, "-m", "stqsh", "run", str(script), "--profile", "cluster", "--format", "jsonl"]
    output, told = tmp_path / "output", tmp_path / "told"
    killed = 0
    with output.open("wb") as out, told.open("wb") as err:
        running = subprocess.Popen(command, env={**os.environ, **environ}, stdout=out, stderr=err)
        try:
            while running.poll() is None:
                time.sleep(draw.uniform(0.2, 2.0))
                if output.stat().st_size and killed < KILLED and kill_executor(home, draw):
                    killed += 1
                    time.sleep(draw.uniform(2.0, 10.0))
        finally:
            running.kill()
    assert running.returncode == 0, told.read_text(encoding="utf-8")
    assert killed == KILLED, "the script took long enough to be disturbed"
    assert output.read_bytes() == expected


def kill_executor(home: Path, draw: random.Random) -> bool:
    """Kill one of the executors of a session with its Python workers; return whether there was one."""
    found = [
        one
        for one in psutil.process_iter()
        if "CoarseGrainedExecutorBackend" in words(one)
        and any(f"--home {home}" in words(parent) for parent in parents(one))
    ]
    if not found:
        return False
    victim = draw.choice(sorted(found, key=lambda one: one.pid))
    with suppress(psutil.NoSuchProcess):
        for one in [*victim.children(recursive=True), victim]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
    return True


def words(process: psutil.Process) -> str:
    """The command line of a process, "" if it has ended."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def parents(process: psutil.Process) -> list[psutil.Process]:
    """The processes above one, none if it has ended."""
    with suppress(psutil.Error):
        return process.parents()
    return []
