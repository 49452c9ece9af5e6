"""What the benchmarks of load make of what they saw: latencies by record, growth along a line."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from stqsh.bench.harness.held import HeldNow
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


def test_growth_is_that_of_a_line_through_what_follows_the_warm_up() -> None:
    names = [field.name for field in fields(HeldNow)]
    held = HeldNow(**dict.fromkeys(names, 10))
    java = (500, 400, 100, 110, 110, 120)
    some = [replace(held, java=value) for value in java]
    looks = [SoakSample(60.0 * at, one, 1000, 0.5, 0.1) for at, one in enumerate(some)]
    found = {row["what"]: row for row in rows(looks, 120)}
    assert set(found) == {*names, "records_per_s", "batch_s", "lag_s"}
    early, late = found["java"]["early"], found["java"]["late"]
    assert (early, late, found["java"]["most"]) == (pytest.approx(101), pytest.approx(119), 500)
    assert found["java"]["growth"] == pytest.approx(119 / 101 - 1)
    assert found["open"]["growth"] == pytest.approx(0)


@pytest.mark.parametrize(
    ("options", "given"),
    [(freshness.FreshnessOptions, {"shares": (0.0,)}), (soak.SoakOptions, {"minutes": 0.1})],
)
def test_sizes_that_make_no_sense_are_refused(options: type, given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"share|looks"):
        options(**given)
