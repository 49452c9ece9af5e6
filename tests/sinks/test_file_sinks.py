"""Sinks TO FILE: what they write, from where on, and that each update is written once whatever dies."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from support.power_loss import recorded
from support.sinks import folded, lines_in, printed_log, run_text, runner_of

from stqsh.client.api import Session
from stqsh.fs import DURABILITY, force
from stqsh.sinks.file_target import FileSink
from stqsh.sinks.sink_reader import SinkPart
from stqsh.storage.home import SessionHome
from stqsh.storage.output_files import hidden_name
from stqsh.storage.sinks.sink_catalogue import find_sink
from stqsh.storage.sinks.sink_position import SinkPosition, read_position


def test_the_lines_are_those_that_a_script_prints(session: Session, tmp_path: Path) -> None:
    run_text(session, f"CREATE SINK out FOR ALL TO FILE '{tmp_path}/out' FORMAT JSONL;")
    expected = printed_log(session, "RUN;")
    assert runner_of(session, "out").step()
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) > 5
    assert b"".join(file.read_bytes() for file in files) == expected
    assert files[0].name == "out-000000000001-0000.jsonl"
    assert (files[0].stat().st_mode & 0o666) == ((tmp_path / "out").stat().st_mode & 0o666)


def test_a_sink_whose_folder_is_removed_waits_until_it_is_there_again(
    session: Session, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    run_text(session, f"CREATE SINK out FOR west TO FILE '{folder}' FORMAT JSONL;")
    run_text(session, "RUN 10 STEPS;")
    folder.rmdir()
    runner = runner_of(session, "out")
    assert not runner.step()
    assert not folder.exists()
    [shown] = list(session.execute("SHOW SINKS;"))
    assert "it is not there; make it again, or drop the sink" in str(shown)
    folder.mkdir()
    assert runner.step()
    whole = folded(map(json.loads, printed_log(session).splitlines()))
    assert runner_of(session, "out").step()
    assert folded(lines_in(folder)) == {key: row for key, row in whole.items() if key[0] == "west"}


def test_the_bytes_depend_on_the_log_alone(session: Session, tmp_path: Path) -> None:
    for name in ("a", "b"):
        run_text(session, f"CREATE SINK {name} FOR near, west TO FILE '{tmp_path}/{name}' FORMAT PARQUET;")
    first = runner_of(session, "a")
    for _ in range(6):
        run_text(session, "RUN 10 STEPS;")
        assert first.step()
    assert runner_of(session, "b").step()
    read = [{file.name[1:]: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("a", "b")]
    assert read[0] == read[1]
    assert len(read[0]) > 5


def test_a_sink_of_a_query_that_runs_begins_with_its_answer(session: Session, tmp_path: Path) -> None:
    run_text(session, "RUN 20 STEPS;")
    run_text(session, f"CREATE SINK out FOR west TO FILE '{tmp_path}/out' FORMAT JSONL;")
    run_text(session, "RUN 20 STEPS;")
    assert runner_of(session, "out").step()
    lines = lines_in(tmp_path / "out")
    assert {line["query"] for line in lines} == {"west"}
    began = [line for line in lines if line["step"] == 20]
    assert began and all(line["op"] == "+" for line in began)
    assert min(line["step"] for line in lines) == 20
    whole = folded(map(json.loads, printed_log(session).splitlines()))
    run_text(session, "RUN 5 STEPS;")
    assert runner_of(session, "out").step()
    lines = lines_in(tmp_path / "out")
    whole = folded(map(json.loads, printed_log(session, "RUN 1 STEPS;").splitlines()))
    assert runner_of(session, "out").step()
    assert folded(lines_in(tmp_path / "out")) == {key: row for key, row in whole.items() if key[0] == "west"}


def test_the_lines_of_an_aggregate_are_those_that_a_script_prints(session: Session, tmp_path: Path) -> None:
    counted = "SELECT n % 2 AS odd, count(*) AS k FROM m INSIDE RECT(0, 0, 5, 10) GROUP BY n % 2"
    run_text(session, f"REGISTER QUERY counted AS {counted};")
    run_text(session, f"CREATE SINK whole FOR counted TO FILE '{tmp_path}/whole' FORMAT JSONL; RUN 20 STEPS;")
    run_text(session, f"CREATE SINK later FOR counted, near TO FILE '{tmp_path}/later' FORMAT JSONL;")
    printed = printed_log(session, "RUN;").splitlines(keepends=True)
    expected = [line for line in printed if json.loads(line)["query"] == "counted"]
    assert runner_of(session, "whole").step()
    assert runner_of(session, "later").step()
    files = sorted((tmp_path / "whole").iterdir())
    assert b"".join(file.read_bytes() for file in files) == b"".join(expected)
    assert {len(json.loads(line)["key"]) for line in expected} == {1}
    answers = folded(map(json.loads, printed))
    assert folded(lines_in(tmp_path / "later")) == {k: row for k, row in answers.items() if k[0] != "west"}


def test_a_dropped_query_leaves_and_its_name_goes_on(session: Session, tmp_path: Path) -> None:
    run_text(session, f"CREATE SINK out FOR west TO FILE '{tmp_path}/out' FORMAT JSONL; RUN 10 STEPS;")
    messages = [outcome.text for outcome in session.outcomes("DROP QUERY west;")]  # type: ignore[union-attr]
    assert messages == ["query west dropped; sink out goes on with the next query of this name"]
    run_text(session, "RUN 2 STEPS;")
    runner = runner_of(session, "out")
    assert runner.step()
    lines = lines_in(tmp_path / "out")
    assert folded(lines) == {}
    assert {line.get("why") for line in lines if line["step"] == 11} == {"dropped"}
    run_text(session, "REGISTER QUERY west AS SELECT id FROM m INSIDE RECT(0, 0, 9, 9); RUN 2 STEPS;")
    assert runner.step()
    assert folded(lines_in(tmp_path / "out"))


def test_parquet_has_typed_columns_and_csv_the_select_list(session: Session, tmp_path: Path) -> None:
    run_text(
        session,
        f"CREATE SINK p FOR west TO FILE '{tmp_path}/p' FORMAT PARQUET;"
        f"CREATE SINK c FOR west TO FILE '{tmp_path}/c' FORMAT CSV; RUN;",
    )
    assert runner_of(session, "p").step()
    assert runner_of(session, "c").step()
    table = parquet.read_table(tmp_path / "p")
    assert table.schema.names == ["query", "step", "at", "op", "why", "key", "id", "n"]
    assert table.schema.field("n").type == pa.int64()
    assert table.schema.field("at").type == pa.timestamp("us", "UTC")
    cells = pa.concat_tables([csv.read_csv(file) for file in sorted((tmp_path / "c").iterdir())])
    assert cells.column_names == ["query", "step", "at", "op", "key", "id", "n"]
    assert cells.num_rows == table.num_rows > 100


class Killed(BaseException):
    """The death of the process at one point."""


class DyingTarget(FileSink):
    """Dies at one point of its work, by the number of the call."""

    rows = 30
    left = 0

    def _die(self) -> None:
        type(self).left -= 1
        if type(self).left == 0:
            raise Killed

    def write(self, part: SinkPart) -> SinkPosition:
        self._die()
        position = super().write(part)
        self._die()
        return position

    def settle(self, position: SinkPosition) -> None:
        self._die()
        super().settle(position)
        self._die()


@pytest.mark.parametrize("seed", range(5))
def test_each_update_is_written_once_wherever_the_process_dies(
    session: Session, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    run_text(session, f"CREATE SINK out FOR ALL TO FILE '{tmp_path}/out' FORMAT JSONL;")
    expected = printed_log(session, "RUN;")
    sink = find_sink(session.connection.db, "out")
    assert sink is not None
    taken: dict[str, bytes] = {}
    deaths = 0
    while True:
        DyingTarget.left = draw.randint(1, 60)
        try:
            finished = runner_of(session, "out", DyingTarget(sink.spec, sink.spec.target)).step()  # type: ignore[arg-type]
        except Killed:
            finished = False
            deaths += 1
        for file in sorted((tmp_path / "out").glob("out-*")):
            if draw.random() < 0.5:  # a reader takes it away
                assert file.name not in taken
                taken[file.name] = file.read_bytes()
                file.unlink()
        if finished:
            break
    taken |= {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    assert deaths > 3
    assert b"".join(content for _, content in sorted(taken.items())) == expected
    assert read_position(session.home, sink.id).updates == len(expected.splitlines())
    assert not list((tmp_path / "out").glob(".*"))


def test_after_a_power_failure_what_a_position_counts_is_there(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, home = tmp_path / "out", session.home.path.relative_to(tmp_path)
    run_text(session, f"CREATE SINK s FOR west TO FILE '{out}' FORMAT JSONL; RUN 20 STEPS;")
    [(sink,)] = session.connection.db.query("SELECT id FROM sinks")
    monkeypatch.setenv(DURABILITY, "disk")
    with recorded(tmp_path, monkeypatch) as disk:
        for folder, _, _ in os.walk(tmp_path):
            force(Path(folder))
        begin = len(disk.events)
        assert runner_of(session, "s").step()
    written, last = 0, read_position(session.home, sink)
    for event in range(begin, len(disk.events) + 1):
        after = tmp_path / "cuts" / str(event)
        after.parent.mkdir(exist_ok=True)
        disk.cut(event, after)
        position = read_position(SessionHome(after / home), sink)
        there = {path.name: path.read_bytes() for path in (after / "out").iterdir()}
        for name in position.placed:
            left = [there[one] for one in (name, hidden_name(name)) if one in there]
            assert left == [(out / name).read_bytes()], disk.events[event - 1]
        assert position.updates >= written
        written = position.updates
    assert position == last and written > 0 and len(there) > 3
