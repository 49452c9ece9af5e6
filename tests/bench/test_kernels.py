"""The benchmark of the kernels, in sizes that measure nothing."""

from __future__ import annotations

import pytest

from stqsh.bench.suite.kernels import KernelsOptions, measure

SMALL = {"queries": 20, "objects": 400, "per_tick": 200, "ticks": 1, "batches": 2}


def test_every_family_gives_a_row() -> None:
    said: list[str] = []
    rows = measure(KernelsOptions(**SMALL), said.append)
    assert len(rows) == len(said) == len({row["family"] for row in rows})
    for row in rows:
        assert all(rate > 0 for rate in row["kernel_per_s"]), row
        assert len(row["kernel_per_s"]) == SMALL["batches"]


def test_an_unknown_family_is_refused_and_the_others_named() -> None:
    with pytest.raises(ValueError, match="no family 'squares'; there are rectangles, "):
        KernelsOptions(("squares",))


def test_each_query_follows_an_object_of_its_own() -> None:
    with pytest.raises(ValueError, match="need as many objects"):
        KernelsOptions(queries=11, objects=10)
