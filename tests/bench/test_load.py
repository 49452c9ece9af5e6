"""What the benchmarks of load make of what they saw: latencies by record, growth by thirds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stqsh.bench.suite import freshness, soak
from stqsh.bench.suite.freshness import DeliveredBatch, Read, latencies
from stqsh.bench.suite.soak import SoakSample, rows


def test_latency_is_from_when_a_step_was_due_to_when_its_update_was_read() -> None:
    # Two steps a second; three batches of two steps, the last of which was due as the batch says.
    batches = [DeliveredBatch(2, 1_000_000, 1_200_000, 5, 0), DeliveredBatch(4, 2_000_000, 2_300_000, 5, 0),
               DeliveredBatch(6, 3_000_000, 3_100_000, 5, 0)]  # fmt: skip
    reads = [
        Read(np.array([3, 4]), 2_400_000),
        Read(np.array([5, 6, 6]), 3_250_000),
        Read(np.array([7]), 9_000_000),
    ]
    portions = latencies(batches, reads, ticks_per_s=2.0)
    assert [part.round(3).tolist() for part in portions] == [[], [0.9, 0.4], [0.75, 0.25, 0.25]]


def test_growth_compares_the_last_third_with_the_second() -> None:
    look = SoakSample(100, 50, 10, 5, 1, 1, 90, 1000, 0.5)
    looks = [replace(look, java=value) for value in (500, 400, 100, 100, 110, 110)]
    found = {row["what"]: row for row in rows(looks)}
    assert (found["java"]["early"], found["java"]["late"], found["java"]["most"]) == (100, 110, 500)
    assert found["java"]["growth"] == pytest.approx(1.1)
    assert found["files"]["growth"] == 1


@pytest.mark.parametrize(
    ("options", "given"),
    [(freshness.FreshnessOptions, {"shares": (0.0,)}), (soak.SoakOptions, {"minutes": 0.1})],
)
def test_sizes_that_make_no_sense_are_refused(options: type, given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"share|looks"):
        options(**given)
