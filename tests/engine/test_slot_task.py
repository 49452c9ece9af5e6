"""What a slot sends to Aggregate goes to the slots of its queries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from stqsh.engine.operators.slot_task import address_partials
from stqsh.spec.chunk import Chunk, ChunkOrder, pack, unpack


def partial(queries: list[int]) -> Chunk:
    """A chunk of slot 1 about queries, with the number of each row."""
    rows = pa.RecordBatch.from_arrays(
        [pa.array(np.array(queries, np.uint32)), pa.array(np.arange(len(queries)))], names=["query", "row"]
    )
    return Chunk(1, 3, "partial/aggregate", ChunkOrder(6, number=4), 7, 8, len(queries), pack(rows))


@pytest.mark.parametrize(
    ("queries", "slots", "expected"),
    [
        ([], 2, {}),
        ([5, 2, 9, 4, 4], 2, {0: [2, 4, 4], 1: [5, 9]}),
        ([5, 2, 9, 4, 4], 1, {0: [5, 2, 9, 4, 4]}),
        ([7, 1, 4], 3, {1: [7, 1, 4]}),
    ],
)
def test_each_row_goes_to_the_slot_of_its_query(
    queries: list[int], slots: int, expected: dict[int, list[int]]
) -> None:
    sent = list(address_partials([partial(queries)], slots))
    assert {chunk.slot: unpack(chunk.payload)["query"].to_pylist() for chunk in sent} == expected
    assert [chunk.rows for chunk in sent] == [len(rows) for rows in expected.values()]
    assert all(chunk.order == ChunkOrder(6, number=4, sender=1) for chunk in sent)


def test_a_payload_for_one_slot_is_not_packed_again() -> None:
    chunk = partial([6, 2])
    [sent] = address_partials([chunk], 4)
    assert (sent.slot, sent.payload is chunk.payload) == (2, True)
