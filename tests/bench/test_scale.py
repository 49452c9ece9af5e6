"""The benchmark of many slots, in sizes that measure nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from stqsh.bench.harness.drive import create_stream, execute
from stqsh.bench.harness.serial_engine import BatchTimes, serial_session
from stqsh.bench.harness.workload import Motion
from stqsh.bench.suite import scale
from stqsh.bench.suite.scale import ScaleOptions, cost_of, measure
from stqsh.client.results import Answer


def times(records: int, seconds: float, tasks: int) -> BatchTimes:
    """A batch whose slowest tasks took so long, the others half of it."""
    each = (seconds, *[seconds / 2] * (tasks - 1))
    return BatchTimes(records, 0, seconds / 2, seconds / 2, each, each, ())


def test_batches_of_two_sizes_tell_what_a_batch_costs_and_what_a_million_records_do() -> None:
    small, large = [times(100_000, 0.3, 4)], [times(1_000_000, 1.2, 4)]
    driver = cost_of(small, large, "driver")
    assert (driver.task_s, driver.million_s) == pytest.approx((0.2, 1.0))
    source = cost_of(small, large, "source")
    assert (source.task_s, source.million_s) == pytest.approx((0.2, 4.0))
    assert source.at(2.0, 8) == pytest.approx(1.2)
    nothing = cost_of(small, large, "aggregate")
    assert (nothing.task_s, nothing.million_s) == (0.0, 0.0)


def test_every_number_of_slots_and_queries_gives_a_row_and_says_how_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scale, "keep_freed_memory", lambda: None)
    said: list[str] = []
    options = ScaleOptions((1, 3), (200,), objects=300, per_tick=100, batches=1)
    rows = measure(options, said.append)
    assert [(row["queries"], row["slots"]) for row in rows] == [(200, 1), (200, 3)]
    assert all(float(str(row["records_per_s"])) > 0 and float(str(row["evaluate_s"])) > 0 for row in rows)
    assert said[0].startswith("seconds of a batch of n million records")
    assert sum(" M records in 0.30 Spark + " in line for line in said) == 2


def test_the_engine_in_this_process_does_what_a_session_asks_for(tmp_path: Path) -> None:
    Motion(50, 50, 4).write(tmp_path / "reports.parquet")
    with serial_session(tmp_path, 3) as (session, engine):
        execute(session, create_stream(tmp_path / "reports.parquet"))
        execute(session, "REGISTER QUERY q AS SELECT COUNT(*) AS n FROM m INSIDE (0, 0, 1, 1); RUN 4 STEPS;")
        engine.advance()
        (answer,) = session.outcomes("SELECT * FROM q;")
        assert isinstance(answer, Answer)
        assert answer.table.to_pylist() == [{"n": 50}]
    batch = engine.batches[-1]
    assert sum(one.records for one in engine.batches) == 200
    assert len(batch.evaluate) == 3 and len(batch.source) == 1
    assert 0 < len(batch.aggregate) <= 3
    assert 0 < batch.driver < 5
