"""Batches are cut between steps, in whichever order their records come."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stqsh.core.base.clock import BatchTiming
from stqsh.core.contract import batch_pieces
from stqsh.core.contract.batch_pieces import BatchPiece, pieces
from stqsh.core.queries.query_table import digest


@pytest.mark.parametrize("steps", [[2, 2, 3, 5, 5, 5, 6], [5, 2, 6, 5, 3, 2, 5]])
def test_pieces_have_as_many_records_as_there_are_objects(
    steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_pieces, "_SMALL", 1)
    records = [pa.record_batch({"_step": pa.array(some, pa.int64())}) for some in (steps[:3], steps[3:])]
    whole = BatchPiece(BatchTiming(1, 8, 0, 1, -1, 0), records, [], digest([]))
    spans = [(piece.timing.first, piece.timing.last) for piece in pieces(whole, lambda: 3)]
    assert spans == [(1, 4), (5, 5), (6, 8)]
    assert list(pieces(whole, lambda: 7)) == [whole]


def test_a_batch_without_records_is_one_piece() -> None:
    whole = BatchPiece(BatchTiming(1, 8, 0, 1, -1, 0), [], [], digest([]))
    assert list(pieces(whole, lambda: 0)) == [whole]
