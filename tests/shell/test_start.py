"""Hardly anything is loaded before the prompt, and nothing is waited for."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from shell.terminal import exit_status

HEAVY = (
    "pyspark",
    "numpy",
    "pandas",
    "pyarrow",
    "numba",
    "scipy",
    "shapely",
    "lark",
    "typer",
    "pydantic",
    "yaml",
    "rich",
)

LOADED = """
import sys
from stqsh.shell.repl.app import Shell
shell = Shell("default", lambda: None)
shell._front.prompt()
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "STQSH_HOME": str(home), "TERM": "xterm-256color"}


def test_nothing_heavy_is_loaded_before_the_prompt(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert not set(HEAVY) & set(done.stdout.split())


@pytest.mark.parametrize("module", ["stqsh.cli", "stqsh.cli.commands"])
def test_nothing_heavy_is_loaded_by_the_command_line(module: str) -> None:
    text = f"import sys, {module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert not {"pyspark", "numpy", "pandas", "pyarrow", "numba", "scipy"} & set(done.stdout.split())


def test_a_statement_of_the_command_line_loads_nothing_that_draws_on_terminals() -> None:
    text = "import sys, stqsh.shell.scripting.batch; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert not {"pyspark", "pandas", "numba", "scipy", "prompt_toolkit"} & set(done.stdout.split())


def test_the_collector_hardly_runs_while_a_command_runs(tmp_path: Path) -> None:
    text = """
import atexit, gc, runpy, sys
runs = []
atexit.register(lambda: print("collections:", len(runs), file=sys.stderr))
gc.callbacks.append(lambda phase, info: phase == "stop" and runs.append(info))
sys.argv = ["stqsh", "-c", "SHOW STREAMS;"]
runpy.run_module("stqsh", run_name="__main__")
"""
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=True)
    [count] = re.findall(r"collections: (\d+)", done.stderr)
    assert int(count) < 60  # nearly 200 otherwise


def test_the_prompt_stands_before_the_session_is_opened(tmp_path: Path) -> None:
    """How long that takes is measured by `stqsh bench start`."""
    profile = tmp_path / "none.yaml"  # a session that fails to open, so that no engine starts
    profile.write_text("engine.slotz: 1\n")
    child = pexpect.spawn(
        sys.executable, ["-m", "stqsh", "--profile", str(profile)], env=environment(tmp_path), timeout=60
    )
    child.expect("stqsh>")
    child.expect("unknown setting 'engine.slotz'")
    assert exit_status(child) == 2
