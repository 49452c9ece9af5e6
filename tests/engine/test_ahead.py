"""What the planner takes of pieces that were read ahead, and when it leaves a stream to the workers."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from stqsh.engine.planning import ahead
from stqsh.engine.planning.ahead import ReadAhead, StreamAhead
from stqsh.sources.live.pieces import PieceContent, ReadOrder, ReadPiece, ready_file, write_piece
from stqsh.sources.live.protocol import MessageRange, Position, SourceState
from stqsh.spec.offset import LivePosition
from stqsh.spec.stats import TakenMessages
from stqsh.spec.stream import ColumnSpec, KafkaSourceSpec, StreamSpec

SPEC = StreamSpec(
    name="s",
    columns=(ColumnSpec("oid", "STRING"), ColumnSpec("x", "DOUBLE"), ColumnSpec("y", "DOUBLE")),
    key="oid",
    x="x",
    y="y",
    time="",
    source=KafkaSourceSpec(brokers="nowhere:1", topics=("t",), format="jsonl"),
)
ROOM = 1_000_000


def make(folder: Path, number: int, part: str, start: int, stop: int) -> None:
    content = PieceContent(pa.RecordBatch.from_pydict({"oid": ["a"]}), TakenMessages())
    write_piece(folder, ReadPiece(number, MessageRange(part, start, stop)), content)


class Process:
    """A process that takes orders and makes nothing; `ended` is its exit code once it has ended."""

    def __init__(self, command: list[str], **_: object) -> None:
        self.stdin, self.ended = io.BytesIO(), None
        (Path(command[3]) / ready_file(int(command[5]))).touch()

    def poll(self) -> int | None:
        return self.ended

    def kill(self) -> None:
        self.ended = -9

    @property
    def orders(self) -> list[ReadOrder]:
        return [msgspec.json.decode(line, type=ReadOrder) for line in self.stdin.getvalue().splitlines()]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """The processes that were started."""
    found: list[Process] = []

    def start(command: list[str], **more: object) -> Process:
        found.append(Process(command, **more))
        return found[-1]

    monkeypatch.setattr(ahead.subprocess, "Popen", start)
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the planner sees."""
    now = [100.0]
    monkeypatch.setattr(ahead.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def read(tmp_path: Path, started: list[Process], clock: list[float]) -> ReadAhead:
    """A stream that is read ahead from t/0 5 and t/1 0 on."""
    made = ReadAhead(tmp_path / "ahead", "", 1)
    made.begin(1, SPEC, {"t/0": 5, "t/1": 0})  # starts the process
    made.begin(1, SPEC, {"t/0": 5, "t/1": 0})
    assert len(started) == 1
    return made


def folder_of(started: list[Process], read: ReadAhead) -> Path:
    return read._folder / started[0].orders[-1].folder


def after(read: ReadAhead, at: Position, ends: Position, room: int = ROOM) -> Position | None:
    return read.after(1, LivePosition(at), SourceState({}, ends), room)


def test_a_batch_takes_the_pieces_that_are_there(read: ReadAhead, started: list[Process]) -> None:
    [order] = started[0].orders
    assert (order.stream, order.spec, order.position) == (1, SPEC, {"t/0": 5, "t/1": 0})
    at, ends = {"t/0": 5, "t/1": 0}, {"t/0": 30, "t/1": 4}
    assert after(read, at, ends) == at
    folder = folder_of(started, read)
    make(folder, 0, "t/0", 5, 20)
    make(folder, 1, "t/1", 0, 4)
    make(folder, 2, "t/0", 20, 22)
    assert after(read, at, ends) == {"t/0": 22, "t/1": 4}
    assert after(read, at, ends, room=19) == {"t/0": 20, "t/1": 4}
    assert after(read, at, ends, room=3) == {"t/0": 20, "t/1": 0}, "one piece at least"
    assert read.folder_of(1, at, {"t/0": 22, "t/1": 4}) == str(folder)
    assert read.folder_of(1, at, {"t/0": 21, "t/1": 4}) == ""
    assert read.folder_of(2, at, at) == ""
    assert after(read, {"t/0": 20, "t/1": 4}, ends) == {"t/0": 22, "t/1": 4}
    read.trim({1: LivePosition({"t/0": 20, "t/1": 4}), 2: LivePosition({})})
    assert [each.name[:10] for each in folder.glob("*.piece")] == ["0000000002"]
    assert after(read, {"t/0": 20, "t/1": 4}, ends) == {"t/0": 22, "t/1": 4}


@pytest.mark.parametrize("position", [{"t/0": 6, "t/1": 0}, {"t/0": 5}, {"t/0": 5, "t/1": 0, "t/2": 0}])
def test_a_position_within_a_piece_or_with_other_parts_is_read_by_workers(
    read: ReadAhead, started: list[Process], position: Position
) -> None:
    make(folder_of(started, read), 0, "t/0", 5, 9)
    assert after(read, position, {"t/0": 9}) is None
    last = started[0].orders[-1]
    assert (last.stream, last.spec) == (1, None)
    assert not (read._folder / last.folder).exists()
    read.begin(1, SPEC, position)
    assert started[0].orders[-1].position == position


def test_a_part_that_stands_still_is_read_by_workers(read: ReadAhead, clock: list[float]) -> None:
    at, ends = {"t/0": 5, "t/1": 0}, {"t/0": 9, "t/1": 9}
    assert after(read, at, ends) == at
    clock[0] += 0.9
    assert after(read, at, ends) == at
    clock[0] += 0.2
    assert after(read, at, ends) is None


def test_a_part_may_stand_still_for_longer_while_others_of_a_backlog_are_read(
    read: ReadAhead, started: list[Process], clock: list[float]
) -> None:
    at, ends = {"t/0": 5, "t/1": 0}, {"t/0": 9, "t/1": 9}
    make(folder_of(started, read), 0, "t/0", 5, 7)
    for _ in range(2):
        assert after(read, at, ends) == {"t/0": 7, "t/1": 0}
        clock[0] += 9
    assert after(read, at, ends) is None, "t/1 has not moved"


def test_a_part_without_messages_does_not_stand_still(read: ReadAhead, clock: list[float]) -> None:
    at = {"t/0": 5, "t/1": 0}
    for _ in range(5):
        clock[0] += 3
        assert after(read, at, at) == at


def test_processes_get_the_same_orders_and_start_again_together(
    tmp_path: Path, started: list[Process], clock: list[float]
) -> None:
    made = ReadAhead(tmp_path / "ahead", "", 2)
    for _ in range(2):
        made.begin(1, SPEC, {"t/0": 5, "t/1": 0})
    assert [[order.position for order in each.orders] for each in started] == [[{"t/0": 5, "t/1": 0}]] * 2
    started[1].ended = -9
    clock[0] += 11
    assert after(made, {"t/0": 5, "t/1": 0}, {}) is None
    assert len(started) == 4
    assert started[0].ended == -9


def test_a_process_that_has_died_is_started_again_after_a_while(
    read: ReadAhead, started: list[Process], clock: list[float]
) -> None:
    at = {"t/0": 5, "t/1": 0}
    started[0].ended = -9
    assert after(read, at, at) is None
    read.begin(1, SPEC, at)
    assert len(started) == 1
    clock[0] += 11
    read.begin(1, SPEC, at)
    assert len(started) == 2
    read.begin(1, SPEC, at)
    assert after(read, at, at) == at


def test_a_dropped_stream_is_not_read_further(read: ReadAhead, started: list[Process]) -> None:
    read.keep({1: SPEC})
    assert len(started[0].orders) == 1
    read.keep({})
    assert started[0].orders[-1].spec is None


def test_pieces_that_do_not_follow_are_left_alone(tmp_path: Path) -> None:
    stream = StreamAhead(tmp_path, {"t/0": 5})
    make(tmp_path, 0, "t/0", 6, 9)
    make(tmp_path, 1, "t/9", 0, 9)
    stream.look(0.0)
    assert stream.after({"t/0": 5}, ROOM) == {"t/0": 5}
