"""The prompt is up in 0.3 s because hardly anything is loaded before it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pexpect
import pytest

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
)
PROMPT_S = 0.3
SLACK = 4
"""The machine that tests run on is slower and busier than a user's."""

LOADED = """
import sys
from stqsh.shell.app import Shell
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


@pytest.mark.parametrize("module", ["stqsh.cli", "stqsh.shell.commandline"])
def test_nothing_heavy_is_loaded_by_the_command_line(module: str) -> None:
    text = f"import sys, {module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert not {"pyspark", "numpy", "pandas", "pyarrow", "numba", "scipy"} & set(done.stdout.split())


def test_the_prompt_is_up_at_once(tmp_path: Path) -> None:
    profile = tmp_path / "none.yaml"  # a session that fails to open, so that no engine starts
    profile.write_text("engine.slotz: 1\n")
    times = []
    for _ in range(2):  # the first one may have to compile Python's files
        began = time.perf_counter()
        child = pexpect.spawn(
            sys.executable, ["-m", "stqsh", "--profile", str(profile)], env=environment(tmp_path), timeout=20
        )
        child.expect("stqsh>")
        times.append(time.perf_counter() - began)
        child.expect("unknown setting 'engine.slotz'")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 2
    assert min(times) < PROMPT_S * SLACK
