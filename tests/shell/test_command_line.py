"""The command line: wrong input gets one clear text, and the exit codes of language.md, "Output"."""

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.session_fixtures import STREAM
from support.specs import stream_spec

from stqsh.cli.sessions import remove_sessions
from stqsh.errors import SessionNameError
from stqsh.storage import catalogue_writer
from stqsh.storage.control_log import ControlDb
from stqsh.storage.engine_info import EngineInfo, write_engine
from stqsh.storage.home import open_home
from stqsh.storage.processes import boot_id, uptime_us


def stqsh(
    folder: Path, *words: str, text: str | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "stqsh", *words],
        cwd=folder,
        env={**os.environ, "STQSH_HOME": str(folder / "home"), **environ},
        input=text or "",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_wrong_script_ends_with_2_its_place_the_line_and_a_caret(tmp_path: Path) -> None:
    (tmp_path / "demo.stq").write_text("SHOW STATUS;\nREGISTER QUERY q AS\n  SELECT * FORM taxis;\n")
    done = stqsh(tmp_path, "run", "demo.stq")
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0].startswith("demo.stq:3:12: ")
    assert lines[1:3] == ["    SELECT * FORM taxis;", "             ^^^^"]
    assert "FROM" in done.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["run", "y.stq"],
            "cannot read y.stq: no such file or directory\nhint: maybe you meant x.stq",
        ),
        (
            ["run", "x.stq", "--format", "arrow"],
            "arrow is for files\nhint: --output FILE.arrow, or \\o FILE.arrow",
        ),
        (["run", "x.stq", "--format", "jsonk"], "there is no format 'jsonk'\nhint: maybe you meant jsonl"),
        (
            ["run", "x.stq", "--profile", "locall"],
            "there is no profile 'locall'\nhint: maybe you meant local",
        ),
        (["run", "x.stq", "--session", "a/b"], "'a/b' cannot be a session's name"),
        (
            ["run", "x.stq", "--output", "none/out"],
            "cannot write none/out: no such file or directory\nhint: there is no folder none",
        ),
    ],
)
def test_a_wrong_command_line_is_said_in_a_line(tmp_path: Path, words: list[str], text: str) -> None:
    (tmp_path / "x.stq").write_text("SHOW SETTINGS;")
    done = stqsh(tmp_path, *words)
    assert done.stderr.startswith(text)
    assert (done.returncode, done.stdout) == (2, "")


def test_an_unknown_option_ends_with_2(tmp_path: Path) -> None:
    assert stqsh(tmp_path, "run", "--frobnicate").returncode == 2
    assert stqsh(tmp_path, "frobnicate").returncode == 2


def test_a_script_that_is_not_utf8_is_said_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "x.stq").write_bytes(b"SHOW\n\xff;")
    done = stqsh(tmp_path, "run", "x.stq")
    assert (done.returncode, done.stderr) == (2, "x.stq:2: not valid UTF-8\nhint: save it as UTF-8\n")


def test_each_option_c_has_statements_of_its_own(tmp_path: Path) -> None:
    texts = ["SELECT 1 AS x", "-- nothing", "SELECT 2 AS y; SELECT 3 AS z"]
    done = stqsh(tmp_path, "-q", *(word for text in texts for word in ("-c", text)))
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [tuple(line.values()) for line in rows] == [(1, {"x": 1}), (2, {"y": 2}), (3, {"z": 3})]


def test_a_byte_order_mark_is_no_part_of_a_script(tmp_path: Path) -> None:
    (tmp_path / "in.stq").write_bytes(b"\xef\xbb\xbfSHOW SETTINGS;\r\n")
    (tmp_path / "x.stq").write_bytes(b"\xef\xbb\xbf\\i in.stq\r\n")
    done = stqsh(tmp_path, "run", "x.stq")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith('{"statement":1,"row":{"setting":"spark.master"')


@pytest.mark.parametrize("buffering", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("words", [["--help"], ["docs", "glossary"], ["-c", "SHOW SETTINGS"], ["doctor"]])
def test_output_to_a_full_disk_is_one_message(tmp_path: Path, words: list[str], buffering: str) -> None:
    settings = {**os.environ, "PYTHONUNBUFFERED": buffering, "STQSH_HOME": str(tmp_path / "home")}
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "stqsh", *words]
        done = subprocess.run(
            words, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=settings
        )
    assert done.returncode == 1
    assert done.stderr.startswith("no space left on device\nhint: ")
    assert len(done.stderr.splitlines()) == 2


def test_a_closed_pipe_hides_no_failure(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    settings = {**os.environ, "PYTHONUNBUFFERED": "", "STQSH_HOME": str(tmp_path / "home")}
    with os.fdopen(writing, "w") as closed:
        words = [sys.executable, "-m", "stqsh", "doctor", "--profile", "nowhere"]
        done = subprocess.run(
            words, cwd=tmp_path, stdout=closed, stderr=subprocess.PIPE, text=True, check=False, env=settings
        )
    assert (done.returncode, done.stderr) == (1, "")


def test_an_unusable_home_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    done = stqsh(tmp_path, "-c", "SHOW SETTINGS")
    assert done.returncode == 1
    assert done.stderr.startswith(f"cannot use the session home {tmp_path}/home: ")
    assert "Traceback" not in done.stderr


def test_show_in_batch_mode_prints_json_lines_numbered_by_statement(tmp_path: Path) -> None:
    done = stqsh(tmp_path, "-c", "SHOW STREAMS; SHOW SETTINGS", STQSH_ENGINE_SLOTS="3")
    assert done.returncode == 0
    assert (
        '{"statement":2,"row":{"setting":"engine.slots","value":3,"origin":"STQSH_ENGINE_SLOTS","meaning":"'
        in done.stdout
    )


def test_a_statement_may_ask_for_a_format_of_its_own(tmp_path: Path) -> None:
    done = stqsh(tmp_path, "-c", "SHOW STREAMS; SHOW SETTINGS FORMAT csv;")
    assert done.stdout.startswith("setting,value,origin,meaning\n")
    wrong = stqsh(tmp_path, "-c", "SHOW STREAMS; SHOW SETTINGS FORMAT cvs;")
    assert (wrong.returncode, wrong.stdout) == (2, "")


def test_a_script_may_come_from_standard_input(tmp_path: Path) -> None:
    by_pipe = stqsh(tmp_path, text="SHOW SETTINGS;")
    by_name = stqsh(tmp_path, "run", "-", "--format", "csv", text="SHOW SETTINGS;")
    assert by_pipe.stdout.startswith('{"statement":1,"row":{"setting":"spark.master"')
    assert by_name.stdout.startswith("setting,value,origin,meaning\nspark.master,")
    assert stqsh(tmp_path, text="SHOW\nSETINGS;").stderr.startswith("stdin:2:1: ")


def test_output_goes_to_a_file(tmp_path: Path) -> None:
    done = stqsh(tmp_path, "-c", "SHOW SETTINGS")
    (tmp_path / "x.stq").write_text("SHOW SETTINGS;")
    to_file = stqsh(tmp_path, "run", "x.stq", "--output", "out.jsonl")
    assert (to_file.returncode, to_file.stdout) == (0, "")
    assert (tmp_path / "out.jsonl").read_text() == done.stdout


def test_output_to_a_dash_is_standard_output(tmp_path: Path) -> None:
    done = stqsh(tmp_path, "--output", "-", "-c", "SHOW STREAMS; SHOW SETTINGS;")
    assert done.returncode == 0
    assert done.stdout == stqsh(tmp_path, "-c", "SHOW STREAMS; SHOW SETTINGS;").stdout != ""
    assert not (tmp_path / "-").exists()


def test_sessions_and_stop(tmp_path: Path) -> None:
    assert stqsh(tmp_path, "sessions").stderr == "no sessions yet\n"
    assert stqsh(tmp_path, "--session", "mine", "-c", "SHOW SETTINGS").returncode == 0
    listed = stqsh(tmp_path, "sessions", "--format", "csv").stdout.splitlines()
    assert listed[0] == "session,engine,pid,changed,home"
    assert listed[1].startswith("mine,stopped,,")
    assert stqsh(tmp_path, "stop", "--session", "mine").stderr == "session mine: no engine was running\n"
    assert stqsh(tmp_path, "stop", "mine").stderr == "session mine: no engine was running\n"
    for words in ["logs", "mine"], ["logs", "--session", "mine"]:
        assert stqsh(tmp_path, *words).stderr.startswith("session mine has no log")
    for command in "stop", "logs", "serve":
        both = stqsh(tmp_path, command, "mine", "--session", "other")
        assert (both.returncode, both.stderr) == (
            2,
            "two sessions are named: mine and other\nhint: name only one\n",
        )
    missing = stqsh(tmp_path, "stop", "--session", "other")
    assert missing.returncode == 2
    assert missing.stderr == "there is no session 'other'\nhint: sessions: mine\n"


def test_a_session_is_removed_with_what_it_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STQSH_HOME", str(tmp_path))
    for name in ("mine", "other"):
        db = ControlDb(open_home(name, root=tmp_path).path, create=True)
        catalogue_writer.create_stream(db, "CREATE MOVING STREAM taxis …;", stream_spec(STREAM))
        db.close()
    with pytest.raises(SessionNameError, match="there is no session 'others'"):
        remove_sessions(["mine", "others"], None, force=False)
    remove_sessions(["mine", "mine"], None, force=False)
    said = rf"session mine removed: 1 stream, \d+(\.\d+)? kB in {tmp_path}/mine\n"
    assert re.fullmatch(said, capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_session_in_use_is_removed_by_force_only(tmp_path: Path) -> None:
    stqsh(tmp_path, "-s", "mine", "-c", "SHOW SETTINGS;")
    engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        home = open_home("mine", root=tmp_path / "home")
        now = uptime_us()
        write_engine(home, EngineInfo(engine.pid, now, now, "ready", boot=boot_id()))
        refused = stqsh(tmp_path, "rm", "mine")
        assert refused.returncode == 1
        assert refused.stderr == (
            f"session mine is in use: its engine runs (pid {engine.pid})\n"
            "hint: stqsh rm --force mine stops and removes it\n"
        )
        assert home.control_db.exists()
        threading.Thread(target=engine.wait).start()
        assert stqsh(tmp_path, "rm", "--force", "mine").returncode == 0
        assert not home.path.exists()
    finally:
        engine.kill()
        engine.wait()


def test_a_script_that_fails_leaves_no_session_that_it_only_made(tmp_path: Path) -> None:
    for words in (("-s", "nope"), ()):
        assert stqsh(tmp_path, *words, "-c", "SHOW SETTINGS; SELECT * FROM nothing;").returncode == 2
        assert list((tmp_path / "home").iterdir()) == []
    kept = stqsh(tmp_path, "-s", "kept", "-c", "SET shedding.keep = 0.5; SELECT * FROM nothing;")
    assert kept.returncode == 2
    assert stqsh(tmp_path, "-s", "kept", "-c", "SELECT * FROM nothing;").returncode == 2
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["kept"]


def test_help_is_data(tmp_path: Path) -> None:
    done = stqsh(tmp_path, "-c", "HELP PAUSE QUERY;")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("PAUSE QUERY: Stops the updates of a query without dropping it.\n")


def test_help_explains_a_backslash_command_and_ends(tmp_path: Path) -> None:
    for text in (r"HELP \watch;", r"SHOW STREAMS; help \watch", "SHOW STREAMS;\n\\? watch\n"):
        done = stqsh(tmp_path, "-c", text)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(r"  \watch [i=SEC] [c=N]") and done.stdout.count("\n") < 5
    wrong = stqsh(tmp_path, "-c", r"HELP \wach;")
    assert (wrong.returncode, wrong.stderr) == (
        1,
        "there is no command \\wach\nhint: maybe you meant \\watch\n",
    )


def test_a_temporary_session_leaves_nothing(tmp_path: Path) -> None:
    stqsh(tmp_path, "run", "-", text="SHOW SETTINGS;")
    assert [path.name for path in (tmp_path / "home").iterdir()] == []


def test_statements_of_the_command_line_work_on_the_session_of_the_shell(tmp_path: Path) -> None:
    stqsh(tmp_path, "-c", "SET shedding.keep = 0.5;")
    shown = stqsh(tmp_path, "-s", "default", "-c", "SHOW SETTINGS FORMAT csv;").stdout
    assert "\nshedding.keep,0.5," in shown
    named = stqsh(tmp_path, "-s", "other", "-c", "SHOW SETTINGS FORMAT csv;").stdout
    assert "\nshedding.keep,0.5," not in named
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["default", "other"]


def test_version(tmp_path: Path) -> None:
    assert stqsh(tmp_path, "version").stdout == stqsh(tmp_path, "--version").stdout == "stqsh 0.1.0\n"


def test_what_cannot_be_fed_is_said(tmp_path: Path) -> None:
    stqsh(tmp_path, "-s", "w", "-c", "SHOW SETTINGS;")
    told = stqsh(tmp_path, "feed", "taxis", "-s", "w", text="")
    assert (told.returncode, told.stderr.splitlines()[0]) == (2, "there is no stream taxis")
    told = stqsh(tmp_path, "feed", "taxis", "-s", "w", "--format", "parquett", text="")
    assert (told.returncode, told.stderr.splitlines()) == (
        2,
        ["unknown format 'parquett'", "hint: maybe you meant parquet"],
    )
    told = stqsh(tmp_path, "feed", "taxis", "away.csv", "-s", "w")
    assert (told.returncode, told.stderr.splitlines()[0]) == (2, "there is no file away.csv")
    told = stqsh(tmp_path, "feed", "taxis", "home", "-s", "w")
    assert (told.returncode, told.stderr.splitlines()[0]) == (2, "home is a folder")


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    command = f"{sys.executable} -m stqsh -c '{'SHOW SETTINGS;' * 200}' | head -n 1"
    environ = {**os.environ, "STQSH_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("<&-", 0),
        ("-c 'SHOW STREAMS' <&-", 0),
        ("-c 'SHOW STREAMS' >&-", 0),
        ("-c 'SHOW STREAMS' <&- >&- 2>&-", 0),
        ("-c 'SHOW STREMS' 2>&-", 2),
    ],
)
def test_standard_streams_may_be_closed(tmp_path: Path, words: str, code: int) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m stqsh {words}"],
        env={**os.environ, "STQSH_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_what_is_said_before_a_command_holds_for_it(tmp_path: Path) -> None:
    done = stqsh(tmp_path, "--profile", "locall", "sessions")
    assert (done.returncode, done.stderr) == (
        2,
        "there is no profile 'locall'\nhint: maybe you meant local\n",
    )
    (tmp_path / "x.stq").write_text("SHOW SETTINGS;")
    assert stqsh(tmp_path, "--format", "csv", "run", "x.stq").stdout.startswith(
        "setting,value,origin,meaning\n"
    )
    (tmp_path / "y.stq").write_text("SHOW :what;")
    done = stqsh(tmp_path, "--format", "csv", "-v", "what=SETTINGS", "run", "y.stq")
    assert done.stdout.startswith("setting,value,origin,meaning\n")
    done = stqsh(tmp_path, "-c", "SHOW SETTINGS;", "run", "x.stq")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("-c and -f run statements, and run is a command")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("stqsh --profile l", ["lafayette", "local"]),
        ("stqsh run x --format m", ["markdown"]),
        ("stqsh stop ", ["mine"]),
        ("stqsh --session m", ["mine"]),
        ("stqsh tu", ["tutorial"]),
    ],
)
def test_a_users_own_shell_completes_the_command_line(tmp_path: Path, words: str, offered: list[str]) -> None:
    ControlDb(open_home("mine", root=tmp_path).path, create=True).close()
    place = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1), "STQSH_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "stqsh"],
        env={**os.environ, **place, "_STQSH_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == offered, done.stderr
