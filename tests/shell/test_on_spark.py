"""The shell as a user meets it: typed at a terminal, with the real engine behind it."""

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.shell.terminal import STQSH, Terminal

pytestmark = pytest.mark.spark
CARS = "CREATE MOVING STREAM cars FROM GENERATOR 'network' (objects => 500) TICK 1 s REPORT EVERY 30 s;"
WATCHED = "SELECT oid, lon, lat FROM cars INSIDE (10.0, 50.0, 10.14, 50.09)"


def test_a_session_from_the_first_statement_to_coming_back(environ: dict[str, str]) -> None:
    shell = Terminal(environ, "--session", "mine")
    shell.wait("stqsh>", 10)
    shell.type(CARS)
    shell.wait("stream cars created")
    shell.type(f"REGISTER QUERY town AS {WATCHED};")
    shell.wait("query town registered")
    shell.type("TAIL town;")
    shell.wait(r"step \d+  2025-01-01T08:\d\d:\d\dZ .* updates  Ctrl-C leaves")
    assert re.search(r"\d  2025-01-01T08:0\d:\d\dZ  \+ ", shell.text())
    shell.child.sendintr()
    shell.wait("left town; it goes on")
    shell.type("SHOW QUERIES;")
    shell.wait(r"town +range +cars +active")
    shell.type("PAUSE cars;")
    shell.wait("stream cars stands still")
    shell.type("RUN FOR 100 days;")
    shell.wait(r"RUN .*step .*Ctrl-C stops")
    shell.child.sendintr()
    shell.wait(r"RUN is stopped after [\d ]+ steps")
    shell.type("\\q")
    shell.wait("session mine goes on; stqsh stop --session mine ends it")
    back = Terminal(environ, "--session", "mine")
    back.wait("mine  \\|  engine ready  \\|  step ", 15)
    back.type("SHOW QUERIES;")
    back.wait(r"town +range +cars +active")
    back.child.sendeof()
    back.wait("goes on")


def test_an_interrupted_script_ends_with_130_and_leaves_nothing(
    environ: dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "endless.stq"
    script.write_text(f"{CARS} REGISTER QUERY town AS {WATCHED}; RUN FOR 1000 days;")
    with subprocess.Popen(
        [*STQSH, "run", str(script)], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        first = json.loads(run.stdout.readline())
        assert (first["query"], first["step"], first["op"]) == ("town", 1, "+")
        run.send_signal(signal.SIGINT)
        _, messages = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "interrupted; the script's session is stopped" in messages
    assert "Traceback" not in messages
    assert not [path for path in (tmp_path / "home").iterdir() if path.is_dir()]
