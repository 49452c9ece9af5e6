"""Batch mode over a whole session without Spark: transcripts to the byte, and what happens at its edges."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.local import local_session

from stqsh.client.api import Session
from stqsh.errors import StqshError
from stqsh.settings import FORMATS
from stqsh.shell.scripting import script_runner
from stqsh.shell.scripting.console import Console
from stqsh.shell.scripting.output_choice import OutputChoice
from stqsh.shell.scripting.script_runner import ScriptRunner
from stqsh.shell.scripting.scripts import read_scripts
from stqsh.storage.engine_info import EngineInfo, write_engine

SCRIPTS = Path(__file__).parents[1] / "scripts"
TRANSCRIPTS = [
    path.with_suffix(f".{form}")
    for path in sorted(SCRIPTS.glob("*.stq"))
    for form in ("jsonl", "csv", "tsv")
    if path.with_suffix(f".{form}").exists()
]


def run(
    folder: Path,
    text: str,
    form: str,
    file: str = "script.stq",
    messages: list[str] | None = None,
    **variables: str,
) -> str:
    """What a script writes in a format."""
    console, out = Console(messages.append if messages is not None else print, form), io.BytesIO()
    console.variables.update(variables)
    steps = read_scripts([(text, file)], console.variables)
    with local_session(folder) as session:
        ScriptRunner(session, steps, OutputChoice(out, console)).run()
    console.close()
    return out.getvalue().decode()


@pytest.mark.parametrize("expected", TRANSCRIPTS, ids=lambda path: path.name)
def test_a_script_writes_its_transcript(expected: Path, tmp_path: Path) -> None:
    script = expected.with_suffix(".stq")
    written = run(tmp_path, script.read_text(encoding="utf-8"), expected.suffix[1:], str(script))
    assert written == expected.read_text(encoding="utf-8")


def test_a_subscription_is_shown_where_it_stands_and_not_again(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "oid,lon,lat,ts\n1,0.5,0.5,2020-01-01T00:00:00Z\n2,9,9,2020-01-01T00:00:02Z\n"
    )
    text = f"""
    CREATE MOVING STREAM s (oid BIGINT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)
      KEY oid LOCATION (lon, lat) TIME ts FROM FILE '{tmp_path}/*.csv' TICK 1 s;
    REGISTER QUERY q AS SELECT oid FROM s INSIDE (0, 0, 1, 1);
    RUN 1 STEPS;
    TAIL q;
    SUBSCRIBE SELECT oid FROM s INSIDE (0, 0, 1, 1);
    DROP QUERY q;
    """
    row = '"op":"+","key":1,"row":{"oid":1}}'
    assert run(tmp_path, text, "jsonl").splitlines() == [
        f'{{"query":"q","step":1,"at":"2020-01-01T00:00:00Z",{row}',
        '{"query":"q","step":1,"snapshot":"begin"}',
        f'{{"query":"q","step":1,"at":"2020-01-01T00:00:00Z",{row}',
        '{"query":"q","step":1,"snapshot":"end"}',
        '{"query":"sub_1","step":1,"snapshot":"begin"}',
        '{"query":"sub_1","step":1,"snapshot":"end"}',
        '{"query":"q","step":2,"at":"2020-01-01T00:00:01Z","op":"-","key":1,"row":{"oid":1},"why":"dropped"}',
    ]


THINGS = """
    CREATE MOVING STREAM s (oid BIGINT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)
      KEY oid LOCATION (lon, lat) TIME ts FROM FILE '{folder}/*.csv' TICK 1 s;
    REGISTER QUERY q AS SELECT oid FROM s INSIDE :box;
"""


@pytest.fixture
def things(tmp_path: Path) -> str:
    (tmp_path / "a.csv").write_text(
        "oid,lon,lat,ts\n1,0.5,0.5,2020-01-01T00:00:00Z\n2,9,9,2020-01-01T00:00:02Z\n"
    )
    return THINGS.format(folder=tmp_path)


def test_results_go_where_the_script_says(things: str, tmp_path: Path) -> None:
    text = rf"""{things}
\o '{tmp_path}/all of it''s.geojson'
RUN 1 STEPS;
\o | cat > {tmp_path}/piped
SHOW STREAMS FORMAT csv;
\o {tmp_path}/found.parquet
SELECT oid, lon FROM s;
\o
SELECT oid FROM s \G
"""
    messages: list[str] = []
    (tmp_path / "unused.arrow").write_text("of yesterday")
    text += f"\\o {tmp_path}/unused.arrow\n\\o\n"
    shown = run(tmp_path, text, "jsonl", messages=messages, box="(0, 0, 1, 1)")
    assert not (tmp_path / "unused.arrow").exists()
    assert shown == "-- 1 -----------------------------------\noid  1\n(1 row)\n"
    [feature] = json.loads((tmp_path / "all of it's.geojson").read_text())["features"]
    assert feature["geometry"] == {"type": "Point", "coordinates": [0.5, 0.5]}
    assert feature["properties"]["query"] == "q"
    assert (tmp_path / "piped").read_text().startswith("name,kind,")
    assert pq.read_table(tmp_path / "found.parquet").to_pylist() == [{"oid": 1, "lon": 0.5}]
    assert messages[-1] == "results go to standard output"


def test_statements_are_numbered_through_commands_and_blocks(things: str, tmp_path: Path) -> None:
    text = f"{things}\nRUN 1 STEPS;\n\\echo hello :box\nSELECT oid FROM s;\n\\q\nSHOW STATUS;"
    messages: list[str] = []
    lines = run(tmp_path, text, "jsonl", messages=messages, box="(0, 0, 1, 1)").splitlines()
    assert lines[1] == '{"statement":4,"row":{"oid":1}}'
    assert messages == ["hello (0, 0, 1, 1)"]
    assert not any('"statement":5' in line for line in lines)


def test_timing_is_told_for_each_statement(things: str, tmp_path: Path) -> None:
    messages: list[str] = []
    text = f"\\timing\n{things}\nRUN;\n\\timing off\nSHOW STREAMS;"
    run(tmp_path, text, "csv", messages=messages, box="(0, 0, 1, 1)")
    times = [message for message in messages if re.fullmatch(r"time: \d+\.\d{3} s", message)]
    assert len(times) == 3


def test_every_format_can_be_written_by_a_script(things: str, tmp_path: Path) -> None:
    text = f"{things}\nRUN;\nSELECT oid FROM s;\nSHOW STREAMS;\nDUMP;\nTAIL q;"
    for form in FORMATS:
        (tmp_path / form).mkdir()
        written = run(tmp_path / form, text, form, box="(0, 0, 1, 1)")
        assert written and "\x1b" not in written


def test_a_whole_table_takes_no_format(things: str, tmp_path: Path) -> None:
    text = f"{things}\n\\o {tmp_path}/x.arrow\nSHOW STREAMS FORMAT csv;"
    with pytest.raises(StqshError, match="takes whole tables, not csv"):
        run(tmp_path, text, "jsonl", messages=[], box="(0, 0, 1, 1)")
    assert not (tmp_path / "x.arrow").exists()


def test_a_script_runs_a_session_to_its_end_only_if_it_made_it(tmp_path: Path) -> None:
    rows = [f"1,{second / 10},0.5,{second}" for second in range(5)]
    (tmp_path / "a.csv").write_text("\n".join(["oid,lon,lat,ts", *rows]) + "\n")
    made = f"""CREATE MOVING STREAM s FROM FILE '{tmp_path}/a.csv';
      REGISTER QUERY q AS SELECT oid FROM s INSIDE (0, 0, 1, 1);"""

    def step_after(session: Session, text: str) -> int:
        ScriptRunner(
            session, read_scripts([(text, "x")], {}), OutputChoice(io.BytesIO(), Console(print, "jsonl"))
        ).run()
        return session.connection.progress().step

    with local_session(tmp_path / "own") as session:
        assert step_after(session, made) == 5
    with local_session(tmp_path / "served") as session:
        write_engine(session.home, EngineInfo.now(os.getpid(), "ready"))  # as a shell or `serve` does
        assert step_after(session, made) == 0
    with local_session(tmp_path / "live") as session:
        for _ in session.outcomes(made + "RUN 1 STEPS;"):
            pass
        assert step_after(session, "SHOW STATUS; SELECT * FROM s; TAIL q LIMIT 1;") == 1
        assert step_after(session, "REGISTER QUERY r AS SELECT oid FROM s; SET shell.format = csv;") == 1
        assert step_after(session, "RUN;") == 5


def test_a_script_says_which_records_it_could_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["oid,lon,lat,ts", "1,0.5,0.5,2020-01-01T00:00:00Z", "2,x,0,2020-01-01T00:00:00Z", "3,4"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    (tmp_path / "t.csv").write_text("oid,owner\n1,a\n1,b\n")
    text = f"""
    CREATE TABLE t FROM FILE '{tmp_path}/t.csv' KEY oid;
    CREATE MOVING STREAM s (oid BIGINT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)
      KEY oid LOCATION (lon, lat) TIME ts FROM FILE '{tmp_path}/a.csv';
    RUN;
    """
    assert run(tmp_path / "home", text, "jsonl") == ""
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"2 records of s could not be read, such as {tmp_path}/a.csv:3: lon: 'x' is not a valid DOUBLE",
        f"1 record of t could not be read, such as {tmp_path}/t.csv:3: oid: 1 occurs again"
        "; SHOW DEAD LETTERS lists them",
    ]


def test_an_interrupt_is_told_where_the_status_line_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(script_runner, "print_message", said.append)
    with local_session(tmp_path) as session:
        runner = ScriptRunner(session, [], OutputChoice(io.BytesIO(), Console(print, "jsonl")))
        monkeypatch.setattr(type(runner.screen), "close", lambda _: said.append("closed"))
        runner.stop()
    assert said == ["closed", "interrupted; session local and its queries go on"]
