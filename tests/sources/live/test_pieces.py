"""Pieces: what was decoded ahead is found again by its places, all of it or nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from stqsh.sources.live.pieces import PieceContent, ReadPiece, piece_named, read_pieces, write_piece
from stqsh.sources.live.protocol import MessageRange
from stqsh.spec.stats import TakenMessages


def write(folder: Path, number: int, part: str, start: int, stop: int) -> None:
    records = pa.RecordBatch.from_pydict({"oid": [f"{part}:{place}" for place in range(start, stop)]})
    taken = TakenMessages(stop - start, 1, 100, '{"text":"\\u2028"}\n')
    assert write_piece(
        folder, ReadPiece(number, MessageRange(part, start, stop)), PieceContent(records, taken)
    )


def keys(folder: Path, *wanted: MessageRange) -> list[str] | None:
    found = read_pieces(folder, wanted)
    return None if found is None else [key for each in found for key in each.records["oid"].to_pylist()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, 0, "t/0", 3, 5)
    write(tmp_path, 1, "odd ~name/1", 0, 2)
    write(tmp_path, 2, "t/0", 5, 8)
    return tmp_path


def test_ranges_are_made_of_whole_pieces_in_the_order_of_ranges(folder: Path) -> None:
    whole = MessageRange("t/0", 3, 8)
    assert keys(folder, MessageRange("odd ~name/1", 0, 2), whole) == [
        *("odd ~name/1:0", "odd ~name/1:1"),
        *(f"t/0:{place}" for place in range(3, 8)),
    ]
    assert keys(folder, MessageRange("t/0", 5, 8)) == ["t/0:5", "t/0:6", "t/0:7"]
    found = read_pieces(folder, [whole])
    assert found is not None
    assert [each.taken for each in found] == [
        TakenMessages(2, 1, 100, '{"text":"\\u2028"}\n'),
        TakenMessages(3, 1, 100, '{"text":"\\u2028"}\n'),
    ]
    assert found[0].records.schema.metadata is None


@pytest.mark.parametrize(
    "missing",
    [
        MessageRange("t/0", 4, 8),
        MessageRange("t/0", 3, 7),
        MessageRange("t/0", 3, 9),
        MessageRange("t/1", 0, 1),
    ],
)
def test_where_a_piece_is_missing_or_cut_there_is_nothing(folder: Path, missing: MessageRange) -> None:
    assert keys(folder, MessageRange("t/0", 3, 5), missing) is None


def test_a_folder_that_is_gone_has_nothing(tmp_path: Path) -> None:
    assert keys(tmp_path / "gone", MessageRange("t/0", 0, 1)) is None


def test_other_files_are_no_pieces(folder: Path) -> None:
    (folder / "3.unfinished").touch()
    assert piece_named("3.unfinished") is None
    assert keys(folder, MessageRange("t/0", 3, 5)) == ["t/0:3", "t/0:4"]
