"""The prompt at a terminal over the real engine: completion of live objects, and an engine that dies."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.shell.terminal import Terminal

pytestmark = pytest.mark.spark
CARS = "CREATE MOVING STREAM cars FROM GENERATOR 'network' (objects => 50) TICK 1 s REPORT EVERY 30 s;"
TAB = "\t"


def test_a_shell_completes_live_keys_and_survives_its_engine(environ: dict[str, str]) -> None:
    terminal = Terminal(environ, "--session", "mine")
    terminal.wait("stqsh>")
    terminal.type(CARS)
    terminal.wait(r"step \d+")

    terminal.keys("SELECT oid FROM cars NEAREST 3 TO 'tax")
    terminal.wait(r"taxi-\d+ +in cars now", 20)
    terminal.keys(TAB)
    terminal.wait(r"NEAREST 3 TO 'taxi-\d+'")
    terminal.type(";")
    terminal.wait(r"\(3 rows", 20)

    terminal.keys("SELECT oid FROM cars NEAR")  # the history's ghost has the rest
    terminal.wait(r"SELECT oid FROM cars NEAREST 3 TO 'taxi-\d+' *;")
    terminal.keys("\x15")
    terminal.keys("\x12GENERATOR")
    terminal.wait("I-search backward: GENERATOR", 20)
    terminal.keys("\x07")

    engine = Path(environ["STQSH_HOME"]) / "mine" / "engine.json"
    os.kill(json.loads(engine.read_text())["pid"], signal.SIGKILL)
    terminal.wait(r"the engine \(pid \d+\) is not running any more")
    terminal.wait(r"\\restart starts it again")
    terminal.type("\\restart")
    terminal.wait("engine ready")
    terminal.type("\\q")
    terminal.wait("session mine goes on")
