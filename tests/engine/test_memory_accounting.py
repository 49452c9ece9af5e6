"""The resident memory of a process that holds a slot: against SHOW LOAD, and while objects come and go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="asks the kernel")
TESTS = Path(__file__).parents[1]
SHM = Path("/dev/shm")


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What `support.memory_growth` tells, by stage."""
    return _stages("support.memory_growth", tmp_path_factory.mktemp("arena"))


def _stages(module: str, folder: Path) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", module, str(folder)],
        capture_output=True, text=True, check=True, timeout=280, env=os.environ | {"PYTHONPATH": str(TESTS)},
        cwd=TESTS.parent,
    )  # fmt: skip
    return {line["stage"]: line for line in map(json.loads, done.stdout.splitlines())}


def test_what_is_said_to_be_held_grows_as_the_process_does(stages: dict[str, dict[str, Any]]) -> None:
    first, last = stages["begun"], stages["grown"]
    assert (first["objects"], last["objects"]) == (20_000, 400_000)
    said, arena, everything = (last[name] - first[name] for name in ("bytes", "arena", "pss"))
    assert said > 20 << 20
    assert said == pytest.approx(arena, rel=0.15)
    # Nothing of note is held elsewhere; the interpreter's own heap moves by some MB between two looks.
    assert abs(everything - arena) < 0.25 * said


@pytest.mark.parametrize("stage", ["grown", "shed", "few"])
def test_what_is_shed_is_given_back(stages: dict[str, dict[str, Any]], stage: str) -> None:
    # Arrays may have an eighth of room to grow into, and small ones have a file of a page or two each.
    told, fixed = stages[stage], stages["begun"]["arena"] - stages["begun"]["bytes"]
    assert told["bytes"] == pytest.approx(told["arena"] - fixed, rel=0.2)


def test_objects_in_the_shadow_take_less_than_those_that_are_kept(stages: dict[str, dict[str, Any]]) -> None:
    grown, shed, few = (stages[stage] for stage in ("grown", "shed", "few"))
    assert (shed["objects"], shed["shadow"]) == (grown["objects"] - shed["shadow"], shed["shadow"])
    assert shed["shadow"] > 0.75 * grown["objects"]
    assert shed["bytes"] < grown["bytes"]
    assert few["bytes"] < 0.3 * grown["bytes"]


@pytest.mark.slow
def test_what_comes_and_goes_leaves_no_memory_behind(tmp_path: Path) -> None:
    told = _stages("support.memory_churn", tmp_path / "arena")
    early, late = told["40"], told["80"]
    # In between, 320,000 objects and 12,000 queries go: 8 bytes of an object, or 210 of a query, would show.
    assert late["pss"] - late["arena"] < early["pss"] - early["arena"] + 2_500_000
    assert late["arena"] < 2 * early["arena"]
