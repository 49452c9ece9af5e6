"""The benchmark of recovery: what it counts is what happened."""

from __future__ import annotations

import pytest

from stqsh.bench.suite import recover

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def test_states_are_rebuilt_where_the_arena_is_lost_and_only_there() -> None:
    left, lost = recover.measure(recover.RecoverOptions(objects=500, queries=20), lambda said: None)
    assert (left["what"], left["rebuilt"]) == ("left", 0)
    assert lost["what"] == "lost"
    assert lost["rebuilt"] > 0
    assert 0 < lost["ready_s"] < lost["step_s"]
