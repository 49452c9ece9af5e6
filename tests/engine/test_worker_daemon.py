"""Workers' garbage collection: what lasts is passed over, what does not is still freed."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

from stqsh.engine.spark import worker_daemon
from stqsh.engine.spark.worker_daemon import freeze_after_task
from stqsh.garbage import freeze_objects


class Node:
    """Something that refers to itself."""

    def __init__(self) -> None:
        self.me = self


def test_what_lasts_is_passed_over_and_garbage_is_still_found():
    try:
        freeze_objects()
        assert gc.get_freeze_count() > len(gc.get_objects())
        node = weakref.ref(Node())
        gc.collect()
        assert node() is None
    finally:
        gc.unfreeze()


def test_a_worker_settles_ever_more_rarely(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker_daemon, "_tasks", 0)  # others in this process may have had tasks
    try:
        counts = []
        for _ in range(5):
            freeze_after_task()
            counts.append(gc.get_freeze_count())
            counts.append([[] for _ in range(1000)])  # live, young
        frozen = [count for count in counts if isinstance(count, int)]
        assert frozen[1] > frozen[0]
        assert frozen[2] <= frozen[1]  # the third task
        assert frozen[3] > frozen[2]
    finally:
        gc.unfreeze()


def of_a_daemon(expression: str) -> str:
    """What an expression is where the daemon is about to fork its workers."""
    code = (
        "import gc, os, sys, types; from stqsh.engine.spark import worker_daemon as daemon;"
        " sys.argv[1:] = ['pyspark.worker'];"
        f"sys.modules['pyspark.daemon'] = types.SimpleNamespace(manager=lambda: print({expression}));"
        "daemon.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_daemons_workers_begin_settled():
    assert of_a_daemon("gc.get_freeze_count() > 10 * len(gc.get_objects())") == "True"


def test_one_thread_exists_when_workers_are_forked():
    assert of_a_daemon("len(os.listdir('/proc/self/task'))") == "1"
