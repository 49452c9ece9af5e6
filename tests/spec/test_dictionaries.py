"""Dictionaries within payloads: they stay where they save much, and readers see plain columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stqsh.spec.chunk import decoded, pack, unpack


def batch(values: list[str | None]) -> pa.RecordBatch:
    schema = pa.schema(
        [("word", pa.dictionary(pa.int32(), pa.string())), ("n", pa.int64())], {b"key": b"word"}
    )
    numbers = pa.array(range(len(values)), pa.int64())
    return pa.RecordBatch.from_arrays([pa.array(values).dictionary_encode(), numbers], schema=schema)


@pytest.mark.parametrize(("values", "stays"), [(["a", "b"] * 4, True), (["a", "b"] * 3, False), ([], True)])
def test_a_dictionary_stays_if_there_are_four_rows_for_each_value(
    values: list[str | None], stays: bool
) -> None:
    found = decoded(batch(values))
    assert pa.types.is_dictionary(found.column("word").type) == stays
    assert found.column("word").to_pylist() == values


def test_readers_see_plain_columns_and_the_name_of_the_key() -> None:
    values = ["a", None, "a", "b", "a", "a", "a", "a", "a"]
    found = decoded(unpack(pack(batch(values))), 0)
    assert found.schema.types == [pa.string(), pa.int64()]
    assert found.column("word").to_pylist() == values
    assert found.schema.metadata == {b"key": b"word"}
