"""Slot keys: one slot on each of Spark's partitions."""

from __future__ import annotations

import pytest

from stqsh.engine.spark.spark_internals import slot_keys, spark_hash


@pytest.mark.parametrize(
    ("key", "expected"),
    [(0, 933211791), (1, -559580957), (-1, -1604776387), (2**31 - 1, 133916647)],
)
def test_the_hash_is_that_of_spark(key: int, expected: int) -> None:
    assert spark_hash(key) == expected


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 7, 64])
def test_each_slot_falls_on_the_partition_of_its_number(slots: int) -> None:
    assert [spark_hash(key) % slots for key in slot_keys(slots)] == list(range(slots))
