"""The shell as a user meets it: typed at a terminal, with the real engine behind it."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell.terminal import STQSH, Terminal, environment

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
CARS = "CREATE MOVING STREAM cars FROM GENERATOR 'network' (objects => 500) TICK 1 s REPORT EVERY 30 s;"
TAB = "\t"
READY = r"mine  \|  (engine ready  \|  )?step "
"""The toolbar of an engine that takes batches; where there is little room, it says no more than its step."""
WATCHED = "SELECT oid, lon, lat FROM cars INSIDE (10.0, 50.0, 10.14, 50.09)"


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a session "mine" with a stream that plays, which several tests share."""
    with environment(tmp_path_factory.mktemp("mine") / "home") as environ:
        shell = Terminal(environ, "--session", "mine")
        shell.wait("stqsh>")
        shell.type(CARS)
        shell.wait("stream cars created")
        shell.type("\\q")
        shell.wait("session mine goes on; stqsh stop --session mine ends it")
        yield environ


def test_a_session_from_the_first_query_to_coming_back(mine: dict[str, str]) -> None:
    shell = Terminal(mine, "--session", "mine")
    shell.wait("stqsh>")
    shell.type(f"REGISTER QUERY town AS {WATCHED};")
    shell.wait("query town registered")
    shell.type("TAIL town;")
    shell.wait(r"town +step \d+ .*\d\d:\d\d:\d\dZ .* updates .*q leaves")
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
    shell.wait(r"RUN is stopped after [\d ]+ steps?|left RUN, which stops after the batch under way")
    shell.type("\\q")
    shell.wait("session mine goes on; stqsh stop --session mine ends it")
    back = Terminal(mine, "--session", "mine")
    back.wait(READY)
    back.type("SHOW QUERIES;")
    back.wait(r"town +range +cars +active")
    back.type("PLAY cars;")
    back.wait(r"stream cars plays at 1x\s+stqsh>")
    back.child.sendeof()
    back.wait("goes on")


def test_a_shell_completes_live_keys_and_survives_its_engine(mine: dict[str, str]) -> None:
    terminal = Terminal(mine, "--session", "mine")
    terminal.wait(r"step \d+")

    terminal.keys("SELECT oid FROM cars NEAREST 3 TO 'tax")
    terminal.wait(r"taxi-\d+ +in cars now")
    terminal.keys(TAB)
    terminal.wait(r"NEAREST 3 TO 'taxi-\d+'")
    terminal.type(";")
    terminal.wait(r"\(3 rows")

    terminal.keys("SELECT oid FROM cars NEAR")  # the history's ghost has the rest
    terminal.wait(r"SELECT oid FROM cars NEAREST 3 TO 'taxi-\d+' *;")
    terminal.keys("\x15")
    terminal.keys("\x12GENERATOR")
    terminal.wait("I-search backward: GENERATOR")
    terminal.keys("\x07")

    engine = Path(mine["STQSH_HOME"]) / "mine" / "engine.json"
    os.kill(json.loads(engine.read_text())["pid"], signal.SIGKILL)
    # Its parent starts it again, without a statement.
    terminal.wait(r"engine restarted 1 time, last: it was killed \(SIGKILL\)|starting")
    terminal.wait(READY)
    terminal.type("SHOW STATUS;")
    terminal.wait(r"restarts +1 time, last: it was killed \(SIGKILL\)")
    terminal.type("\\q")
    terminal.wait("session mine goes on")


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
        _, messages = run.communicate(timeout=200)
    assert run.returncode == 130
    assert "interrupted; the script's session is stopped" in messages
    assert "Traceback" not in messages
    assert not [path for path in (tmp_path / "home").iterdir() if path.is_dir()]


def test_a_map_shows_what_the_engine_publishes(mine: dict[str, str], tmp_path: Path) -> None:
    shell = Terminal(mine, "--session", "mine")
    shell.wait(r"step \d+", 400)
    shell.type(f"REGISTER QUERY seen AS {WATCHED};")
    shell.wait("query seen registered")
    shell.type("MAP cars seen;")
    shell.wait(r"cars  500 objects  step \d+")
    shell.wait(r"A seen [1-9]\d*")
    shell.keys("+")
    shell.wait(r"cars  \d+ of 500 objects")
    shell.keys("\x1b[<65;50;15M")  # the wheel, back
    shell.wait(r"cars  500 objects")
    shell.keys("q")
    shell.wait("left the map of cars; it goes on")
    page = tmp_path / "map.html"
    done = subprocess.run(
        [*STQSH, "map", "--session", "mine", "cars", "--to", str(page), "--once"],
        env=mine,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written = page.read_text(encoding="utf-8")
    assert '"stream":"cars"' in written and "taxi-" in written
    shell.type("DROP QUERY seen;")
    shell.wait("query seen dropped")
