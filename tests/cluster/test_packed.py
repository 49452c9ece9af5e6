"""Executors that run what `stqsh pack` has made, by either way, print what one machine prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.local import local_session
from support.running import run_script
from support.standalone import standalone

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(900)]
SCRIPT = """
CREATE MOVING STREAM cars FROM FILE '{folder}/cars.csv' REPORT EVERY 30 s;
REGISTER QUERY inside AS SELECT oid FROM cars INSIDE (0, 0, 1, 1);
REGISTER QUERY nearest AS SELECT oid, DISTANCE FROM cars NEAREST 3 TO (0.7, 0.5);
RUN;
"""


def run_packed(master: str, folder: Path, script: str, python: dict[str, str]) -> bytes:
    """What `stqsh run` prints on a cluster whose executors use a Python of their own."""
    usual = {
        "spark.master": master,
        "spark.executor.memory": "700m",
        "engine.slots": 2,
        "engine.memory": "1g",
    }
    profile, file = folder / "packed.yaml", folder / "script.stq"
    profile.write_text(yaml.safe_dump(usual | python), encoding="utf-8")
    file.write_text(script, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "stqsh",
        "run",
        str(file),
        "--profile",
        str(profile),
        "--format",
        "jsonl",
    ]
    environ = {**os.environ, "STQSH_HOME": str(folder / "home")}
    done = subprocess.run(command, env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("way", ["archive", "path"])
def test_executors_run_what_was_packed(tmp_path: Path, packed: Path, unpacked: Path, way: str) -> None:
    rows = [f"c{n},{0.05 * n + 0.03 * second:.3f},0.5,{second}" for second in range(4) for n in range(30)]
    (tmp_path / "cars.csv").write_text("\n".join(["oid,lon,lat,ts", *rows, ""]), encoding="utf-8")
    script = SCRIPT.format(folder=tmp_path)
    with local_session(tmp_path / "local", slots=1) as session:
        expected = run_script(session, script)
    python = {"spark.archives": f"{packed}#stqsh"}
    if way == "path":
        python = {"spark.pyspark.python": str(unpacked / "bin" / "python")}
    with standalone(tmp_path, workers=2, memory="1g") as master:
        assert run_packed(master, tmp_path, script, python) == expected
