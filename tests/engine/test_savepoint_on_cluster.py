"""A session moves between one machine and a cluster by savepoints, and prints what it would have printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.local import local_session
from support.mixed import archived_elsewhere, mixed_script
from support.running import run_script

ANSWER = b'{"row"'
"""How the answers of SELECT begin, without the numbers of their statements."""
STEPS = 18
PARTS = (
    "RUN 3 STEPS; REPARTITION fleet USING grid; RUN 2 STEPS;",
    "RUN 2 STEPS; REPARTITION fleet USING quadtree; REPARTITION ships USING grid; RUN 2 STEPS;",
    "RUN 2 STEPS;",
    "RUN 9 STEPS;",
)
"""What is run before the first savepoint, a lost host, the second savepoint, and the end."""
GENERATED = """
CREATE MOVING STREAM {name} FROM GENERATOR 'network' (objects => 60, bounds => '0, 0, 0.2, 0.2') TICK 1 s;
REGISTER QUERY near_{name} AS SELECT oid, DISTANCE FROM {name} NEAREST 5 TO (0.05, 0.05);
"""


def stqsh(folder: Path, *words: str) -> bytes:
    environ = {**os.environ, "STQSH_HOME": str(folder / "homes")}
    command = [sys.executable, "-m", "stqsh", *words]
    done = subprocess.run(command, env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def write_profile(folder: Path, name: str, settings: dict[str, object]) -> str:
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump({"engine": {"slots": 2, "memory": "1g"}} | settings), encoding="utf-8")
    return str(file)


@pytest.mark.spark
@pytest.mark.cluster
@pytest.mark.timeout(1500)
def test_a_session_goes_from_one_machine_to_a_cluster_and_back(tmp_path: Path) -> None:
    script = mixed_script(tmp_path, seed=2, steps=STEPS)
    before, *_ = script.read_text(encoding="utf-8").split("\nRUN")
    before += "".join(GENERATED.format(name=name) for name in ("fleet", "ships"))
    spark = {"master": "local-cluster[2,1,1024]", "executor.memory": "700m"}
    stored = {"session": {"storage": f"file://{tmp_path}/storage"}}
    one, cluster = write_profile(tmp_path, "one", {}), write_profile(tmp_path, "c", {"spark": spark} | stored)

    def printed(session: str, profile: str, text: str) -> list[bytes]:
        script.write_text(text, encoding="utf-8")
        words = ["run", str(script), "--session", session, "--profile", profile, "--format", "jsonl"]
        lines = stqsh(tmp_path, *words).splitlines()
        stqsh(tmp_path, "stop", session)
        return [without_number(line) for line in lines]

    def moved(session: str, to: str, profile: str) -> None:
        stqsh(tmp_path, "restore", to, "FROM", f"{tmp_path}/of-{session}", "--profile", profile)

    def saves(session: str) -> str:
        return f"\nSAVE TO '{tmp_path}/of-{session}';\n"

    asked = "\nSELECT COUNT(*) AS n, SUM(x) AS x FROM taxis INSIDE RECT(0, 0, 7, 7);\n"
    asked += "SELECT COUNT(*) AS n, SUM(y) AS y FROM posts WHERE ts > '1960-01-01';\n"
    first, second, third, last = (f"{part}\n{asked}" for part in PARTS)
    with local_session(tmp_path / "local", slots=2, published=True) as session:
        whole = f"{archived_elsewhere(before)}\n{first}{second}{third}{last}"
        expected = [without_number(line) for line in run_script(session, whole, script).splitlines()]
    found = up_to_answers(printed("a", one, f"{before}\n{first}{saves('a')}"))
    moved("a", "b", cluster)
    found += printed("b", cluster, second)
    shutil.rmtree(tmp_path / "homes" / "b")  # another host opens the session, with what the storage has
    found += printed("b", cluster, f"{third}{saves('b')}")
    moved("b", "c", one)
    found += printed("c", one, last)
    assert found == expected


def up_to_answers(lines: list[bytes]) -> list[bytes]:
    """What was printed before the SAVE: a script that has made its session runs to the end of the streams."""
    last = max(number for number, line in enumerate(lines) if line.startswith(ANSWER))
    return lines[: last + 1]


def without_number(line: bytes) -> bytes:
    """What is printed, without the number of the statement in its script."""
    return re.sub(rb'^{"statement":\d+,', b"{", line)
