"""Chunks survive the way through a table, and keys hash by value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from stqsh.core.kernels.index.hashing import hash_keys, key_bytes
from stqsh.routing.table import slots_of
from stqsh.spec.chunk import (
    Chunk,
    ChunkOrder,
    Phase,
    columns_schema,
    from_table,
    in_order,
    pack,
    pack_json,
    to_table,
    unpack,
    unpack_json,
)


def test_chunks_come_back_from_a_table():
    chunks = [
        Chunk(0, 3, "records", ChunkOrder(Phase.RECORDS, 1, 2, 3), 1, 5, 2, b"\x00\xff"),
        Chunk(1, 0, "clock", ChunkOrder(), 1, 1, 0, b""),
    ]
    assert from_table(to_table(chunks)) == chunks
    assert from_table(to_table([])) == []
    assert in_order(chunks) == [chunks[1], chunks[0]]


def test_record_batches_and_json_come_back():
    schema = columns_schema([["oid", "STRING"], ["ts", "TIMESTAMP"], ["n", "INT"]])
    batch = pa.record_batch([["a", None], [1, None], [None, 3]], schema=schema)
    assert unpack(pack(batch)).equals(batch)
    assert unpack(pack(batch.slice(0, 0))).num_rows == 0
    assert unpack_json(pack_json({"a": [1, None, 2.5]})) == {"a": [1, None, 2.5]}


def test_an_unknown_column_type_is_named():
    with pytest.raises(ValueError, match="BLOB"):
        columns_schema([["a", "BLOB"]])


def test_integers_hash_by_value_whatever_their_width():
    values = [0, 1, -1, 2**31 - 1, -(2**31)]
    assert (hash_keys(pa.array(values, pa.int32())) == hash_keys(pa.array(values, pa.int64()))).all()


def test_a_slice_hashes_as_its_own_values():
    keys = pa.array(["", "a", "é", "long key " * 9])
    assert (hash_keys(keys.slice(1, 2)) == hash_keys(pa.array(["a", "é"]))).all()
    offsets, data = key_bytes(keys.slice(2, 1))
    assert bytes(data[offsets[0] : offsets[1]]) == "é".encode()
    assert len(hash_keys(pa.array([], pa.string()))) == 0


def test_hashes_are_fixed_for_ever():
    """A stored session is routed by them: they must not change between versions."""
    assert hash_keys(pa.array(["", "368"])).tolist() == [17280346270528514342, 8721602177437162252]
    assert hash_keys(pa.array([0, 368])).tolist() == [11286133854226296554, 14542988135732702796]


@pytest.mark.parametrize("slots", [1, 2, 4, 7])
def test_slots_are_evenly_used(slots):
    found = slots_of(hash_keys(pa.array(np.arange(70_000))), slots)
    assert found.dtype == np.int32
    counts = np.bincount(found, minlength=slots)
    assert len(counts) == slots
    assert counts.min() > 0.95 * 70_000 / slots
