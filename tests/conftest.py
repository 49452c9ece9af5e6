"""Settings that all tests share."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["support.kafka"]

#: The folders with tests of the whole system.
_WHOLE = ("laws", "repartition", "real_data", "system")
#: How long a test that failed may clean up, in seconds.
_CLEANUP_S = 120
_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]
_USUAL = settings(deadline=None, suppress_health_check=_SLOW_IS_FINE)
# What a developer waits for: each run draws other examples.
settings.register_profile("quick", _USUAL, max_examples=25)
settings.register_profile("thorough", _USUAL, max_examples=250)
# CI says of a change what the change does: the same examples each time. `make hunt` looks for new ones.
settings.register_profile("ci", _USUAL, max_examples=16, derandomize=True, database=None)
settings.load_profile(os.environ.get("STQSH_HYPOTHESIS", "quick"))

# A run in the background ignores Ctrl-C, and so would the shells and engines that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Hints name the program as the user can start it: here by its name alone.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

# A test's engine lives for seconds: what Java would spend on optimising its code never pays.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where processes share the tests (`make test`), the files that take long come first, those of the whole
    system before those of its parts: none is left with a long one when the others are done."""
    if hasattr(config, "workerinput"):
        long = {item.path for item in items if any(map(item.get_closest_marker, ("spark", "slow")))}
        items.sort(key=lambda item: (item.path not in long, item.path.parent.name not in _WHOLE))


def pytest_collection_finish() -> None:
    """What is there before the first test stays: the garbage collector need not look at it time and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Limit how long a failed test cleans up: pytest-timeout takes its timer away when a test fails."""
    if signal.getitimer(signal.ITIMER_REAL)[0]:
        return (yield)

    def stop(*_: object) -> None:
        pytest.fail(f"the test has not cleaned up within {_CLEANUP_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _CLEANUP_S)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
