"""Whole numbers of payloads in few bytes."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.spec.narrow_columns import narrowed, widened

SCHEMA = pa.schema([("step", pa.int64()), ("op", pa.int8())])


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_numbers_are_the_same_when_they_are_wide_again(values):
    given_ = pa.record_batch([pa.array(values, pa.int64()), pa.array([1] * len(values), pa.int8())], SCHEMA)
    assert widened(narrowed(given_), SCHEMA).equals(given_)


@pytest.mark.parametrize(
    ("values", "kind"), [([0, 255], pa.uint8()), ([-1, 127], pa.int8()), ([70_000], pa.uint32())]
)
def test_numbers_take_the_least_bytes(values, kind):
    batch = pa.record_batch([pa.array(values, pa.int64())], ["step"])
    assert narrowed(batch).schema.types == [kind]
    assert narrowed(batch, only_coded=True).equals(batch)


def test_numbers_with_null_stay_wide():
    batch = pa.record_batch([pa.array([1, None], pa.int64())], ["step"])
    assert narrowed(batch).equals(batch)


def test_dictionaries_have_narrow_indices():
    batch = pa.record_batch([pa.array(["bus", "tram", "bus"]).dictionary_encode()], ["kind"])
    [kind] = narrowed(batch, only_coded=True).schema.types
    assert kind.index_type.bit_width == 8
