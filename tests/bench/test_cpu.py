"""Processor time of a tree of processes, read from a /proc that is made up, and from the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stqsh.bench.harness.cpu import ProcessorTime, grown, spent, tree_of

TICK = os.sysconf("SC_CLK_TCK")


def made(proc: Path, pid: int, name: str, parent: int, *seconds: int) -> None:
    """A process with utime, stime, cutime and cstime."""
    (proc / str(pid)).mkdir(parents=True)
    times = " ".join(str(second * TICK) for second in seconds)
    (proc / str(pid) / "stat").write_text(
        f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {times} 20 0 1 0 99\n"
    )


def test_java_and_python_are_told_apart_and_strangers_left_out(tmp_path: Path) -> None:
    made(tmp_path, 10, "python", 1, 1, 1, 0, 0)
    made(tmp_path, 11, "java", 10, 20, 4, 0, 0)
    made(tmp_path, 12, "python3 (worker)", 11, 3, 0, 5, 1)  # two of its children have ended
    made(tmp_path, 13, "python", 12, 7, 0, 0, 0)
    made(tmp_path, 99, "java", 1, 500, 500, 0, 0)
    assert spent(10, tmp_path) == ProcessorTime(java=24.0, python=18.0)


def test_a_worker_that_has_ended_is_not_lost(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    made(before, 10, "python", 1, 1, 0, 0, 0)
    made(before, 11, "python", 10, 5, 0, 0, 0)
    made(after, 10, "python", 1, 1, 0, 6, 0)
    assert spent(10, before) == ProcessorTime(0.0, 6.0)
    assert spent(10, after) == ProcessorTime(0.0, 7.0)


def test_what_ended_with_nobody_to_wait_for_it_takes_nothing_from_the_others(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for proc, own in ((before, 1), (after, 4)):
        made(proc, 10, "python", 1, own, 0, 2, 0)
        made(proc, 11, "java", 10, own, 0, 0, 0)
    made(before, 12, "python", 11, 50, 0, 3, 0)
    made(before, 13, "python", 12, 9, 0, 0, 0)
    assert grown(tree_of(10, before), tree_of(10, after)) == ProcessorTime(java=3.0, python=3.0)


def test_what_ended_is_counted_with_who_waited_for_it_and_not_twice(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    made(before, 10, "python", 1, 1, 0, 0, 0)
    made(before, 11, "python", 10, 5, 0, 1, 0)
    made(before, 12, "python", 11, 2, 0, 0, 0)
    made(after, 10, "python", 1, 2, 0, 9, 0)  # of 11: 8 of before, and one more
    made(after, 14, "python", 10, 3, 0, 0, 0)
    assert grown(tree_of(10, before), tree_of(10, after)) == ProcessorTime(java=0.0, python=5.0)


def test_nothing_is_known_of_a_process_that_is_not_there(tmp_path: Path) -> None:
    made(tmp_path, 10, "python", 1, 1, 0, 0, 0)
    assert spent(11, tmp_path) is None
    assert spent(10, tmp_path / "no such folder") is None


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_work_of_a_child_shows_while_it_lives_and_when_it_has_ended() -> None:
    before = spent(os.getpid())
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        alive = spent(os.getpid())
        child.communicate("\n")
    ended = spent(os.getpid())
    assert before is not None
    assert alive is not None
    assert ended is not None
    assert alive.python - before.python >= 0.25
    assert ended.python >= alive.python - 0.05
