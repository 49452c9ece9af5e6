"""The shell, driven by keys, with a session that is made up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from stqsh.client.results import Message, Rows, Script, WaitNotice
from stqsh.errors import HomeError, StqshError
from stqsh.lang.ast.statements import Statement
from stqsh.profile import load_profile
from stqsh.shell.repl.app import Shell
from stqsh.shell.repl.completion.completer import StqlCompleter
from stqsh.shell.repl.prompt import StqlHighlighter, may_run, toolbar_text
from stqsh.shell.repl.session_thread import SessionSummary
from stqsh.shell.scripting.backslash_commands import COMMANDS
from stqsh.spec.stats import BatchStats
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome, open_home
from stqsh.storage.rows import Progress


class Session:
    """Answers statements by what it was told to answer, and remembers them."""

    def __init__(self, folder: Path, answers: dict[str, Any]) -> None:
        self.home = SessionHome(folder / "mine")
        self.connection = SimpleNamespace(db=ControlDb(folder, create=True))
        self.answers = answers
        self.asked: list[str] = []
        self.closed = False

    def outcomes(
        self, statements: list[Statement], *, file: str | None, on_statement: Callable[[int], None]
    ) -> Iterator[Any]:
        del file
        for number, statement in enumerate(statements, 1):
            self.asked.append(statement.text)
            on_statement(number)
            answer = self.answers.get(statement.text, Message("done"))
            if isinstance(answer, BaseException):
                raise answer
            yield answer

    def start_engine(self, *, wait: bool) -> None:
        assert not wait

    def progress(self) -> Progress:
        return Progress()

    def streams(self) -> list[Any]:
        return []

    def tables(self) -> list[Any]:
        return []

    def areas(self) -> list[Any]:
        return []

    def settings(self) -> Any:
        return load_profile("local", {})

    def queries(self, most: int = -1) -> list[Any]:
        return []

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("STQSH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")

    def type_keys(keys: str, session: Any) -> str:
        def opened() -> Any:
            if isinstance(session, BaseException):
                raise session
            return session

        with create_pipe_input() as pipe, create_app_session(pipe, DummyOutput()):
            pipe.send_text(keys)
            assert Shell("mine", opened, "table").run() == 0
        return capsys.readouterr().out

    return type_keys


def test_a_statement_over_several_lines_runs_at_its_semicolon(typed: Any, tmp_path: Path) -> None:
    session = Session(tmp_path, {})
    shown = typed("SHOW\rSTATUS;\r\\q\r", session)
    assert session.asked == ["SHOW\nSTATUS"]
    assert session.closed
    assert "done" in shown
    assert shown.endswith("session mine goes on; stqsh stop --session mine ends it\n")


def test_rows_are_a_table_and_scripts_are_shown_as_they_are(typed: Any, tmp_path: Path) -> None:
    rows = Rows("streams", ("name", "rows"), (("taxis", 5), ("buses", 12_345)))
    shown = typed(
        "SHOW STREAMS;\rDUMP;\rquit\r", Session(tmp_path, {"SHOW STREAMS": rows, "DUMP": Script("A;\n")})
    )
    assert re.search(r"name +rows\n─+\ntaxis +5\nbuses +12345\n\(2 rows\)", shown)
    assert "\nA;\n" in shown


def test_short_commands_show_what_they_stand_for(typed: Any, tmp_path: Path) -> None:
    session = Session(tmp_path, {"SHOW STATUS": Rows("s", ("item", "value"), (("step", 5),))})
    keys = "\\d taxis\r\\ns st SHOW STATUS;\r\\x\r\\n st\r\\x\r\\n\r\\nd st\r\\n st\r\\!exit 3\r\\q\r"
    shown = typed(keys, session)
    assert session.asked == ["DESCRIBE taxis", "SHOW STATUS"]
    upright, table = shown.index("expanded display is on\n"), shown.index("expanded display is off\n")
    assert re.search(r"item +\S? *step\nvalue +\S? *5\n", shown[upright:table])
    assert "  st  SHOW STATUS\n" in shown
    assert "there is no named query 'st'" in shown
    assert "the command ended with code 3\n" in shown


def test_another_session_is_gone_to_only_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STQSH_HOME", str(tmp_path))
    opened = {}
    for name in ("mine", "other"):
        ControlDb(open_home(name, root=tmp_path).path, create=True).close()
        opened[name] = Session(tmp_path / name, {"SHOW STATUS": Message(f"of {name}")})
        opened[name].home = SessionHome(tmp_path / name)
    with create_pipe_input() as pipe, create_app_session(pipe, DummyOutput()):
        pipe.send_text("\\c\r\\c others\rSHOW STATUS;\r\\c other\rSHOW STATUS;\r\\q\r")
        shell = Shell("mine", lambda: opened["mine"], "table", open_other=lambda name: lambda: opened[name])
        assert shell.run() == 0
    said = capsys.readouterr().out
    places = [
        said.index(text)
        for text in (
            "this is session mine\n",
            "there is no session 'others'\nhint: sessions: mine, other; ",
            "of mine\n",
            "this is session other\n",
            "of other\n",
            "session other goes on; ",
        )
    ]
    assert places == sorted(places)
    assert opened["mine"].closed and opened["other"].closed


def test_a_statement_may_ask_for_a_format_of_its_own(typed: Any, tmp_path: Path) -> None:
    rows = Rows("streams", ("name", "rows"), (("taxis", 5),))
    shown = typed("SHOW STREAMS FORMAT csv;\r\\q\r", Session(tmp_path, {"SHOW STREAMS FORMAT csv": rows}))
    assert "name,rows\ntaxis,5\n" in shown


def test_an_error_is_shown_and_the_session_goes_on(typed: Any, tmp_path: Path) -> None:
    session = Session(
        tmp_path, {"RUN": StqshError("no stream", hint="make one"), "DUMP": ValueError("a defect")}
    )
    shown = typed("RUN;\rDUMP;\rSHOW STATUS;\r\x04", session)
    assert "no stream\nhint: make one\n" in shown
    assert "internal error: ValueError: a defect\nhint: details are in " in shown
    assert "Traceback" not in shown
    assert session.asked[-1] == "SHOW STATUS"


def test_backslash_commands(typed: Any, tmp_path: Path) -> None:
    shown = typed("\\timing\rSHOW STATUS;\r\\tming\r\\?\r\\format json\r\\q\r", Session(tmp_path, {}))
    assert "timing is on" in shown
    assert re.search(r"time: \d+\.\d{3} s", shown)
    assert "there is no command \\tming\nhint: maybe you meant \\timing" in shown
    assert all(command.help.split()[0] in shown for command in COMMANDS)
    assert "there is no format 'json'" in shown


def test_a_script_can_be_included(typed: Any, tmp_path: Path) -> None:
    script, session = tmp_path / "a.stq", Session(tmp_path, {})
    script.write_text("SHOW STATUS;")
    shown = typed(f"\\i {script}\r\\i {tmp_path}/none.stq\r\\q\r", session)
    assert session.asked == ["SHOW STATUS"]
    assert "none.stq: no such file or directory" in shown


def test_a_session_that_does_not_open_ends_the_shell_with_the_reason(typed: Any) -> None:
    with pytest.raises(HomeError, match="no home"):
        typed("", HomeError("no home"))


def test_while_a_stream_is_waited_for_the_session_shows_that_it_lives(
    typed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stqsh.shell.terminal.screen.is_interactive", lambda stream: True)
    told: list[Progress] = []

    def wait(tell: Callable[[Progress], None]) -> None:
        told.append(Progress())
        tell(told[-1])

    waiting = WaitNotice("waiting for taxis", wait)
    session = Session(tmp_path, {"SELECT COUNT(*) FROM taxis": waiting})
    shown = typed("SELECT COUNT(*) FROM taxis;\r\\q\r", session)
    assert told
    assert "waiting for taxis  engine not started" in shown


def test_the_history_keeps_whole_statements_for_its_owner_only(typed: Any, tmp_path: Path) -> None:
    typed("SHOW\rSTATUS;\r\\q\r", Session(tmp_path, {}))
    history = tmp_path / "home" / "history"
    assert history.stat().st_mode & 0o077 == 0
    assert "+SHOW\n+STATUS;\n" in history.read_text()


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("", True),
        ("\\timing", True),
        ("quit", True),
        ("QUIT ", True),
        ("quit it", False),
        ("Help", True),
        ("help tail", True),
        ("helper", False),
        ("SHOW STATUS", False),
        ("SHOW STATUS;", True),
        ("SHOW STATUS; -- why", True),
        ("SELECT ';", False),
        ("SELECT 1 /* ; */", False),
    ],
)
def test_enter_runs_what_is_complete(text: str, runs: bool) -> None:
    assert may_run(text) is runs


def test_the_toolbar_has_session_engine_step_clock_and_lag() -> None:
    progress = Progress(3, 12, 1_201_964_401, 1_000_000, stats=BatchStats(playing=True, lag_s=0.25))
    assert toolbar_text(SessionSummary("mine", "engine ready", progress, ready=True)) == (
        " mine  |  engine ready  |  step 12  2008-02-02T15:00:12Z  lag 0.2 s"
    )


def test_a_narrow_toolbar_keeps_what_matters_most() -> None:
    progress = Progress(3, 12, 1_201_964_401, 1_000_000, stats=BatchStats(playing=True, lag_s=0.25))
    summary = SessionSummary("mine", "engine ready", progress, ready=True)
    assert toolbar_text(summary, 60) == " mine  |  step 12  2008-02-02T15:00:12Z  lag 0.2 s"
    assert toolbar_text(summary, 40) == " mine  |  step 12  lag 0.2 s"
    assert toolbar_text(summary, 5) == " mine"


def completions(text: str) -> list[str]:
    summary = SessionSummary(
        "mine",
        streams=("taxis",),
        tables=("cars",),
        regions=("campus",),
        queries=("q1",),
        columns=(("taxis", (("oid", "STRING"), ("status", "STRING"))),),
    )
    found = StqlCompleter(lambda: summary).get_completions(
        Document(text), CompleteEvent(completion_requested=True)
    )
    return [completion.text for completion in found]


def test_completion_knows_keywords_and_the_names_of_their_kind() -> None:
    assert "STREAM" in completions("CREATE MOVING ST")
    assert completions("TAIL ")[0] == "q1"
    assert completions("SELECT * FROM ")[:2] == ["taxis", "cars"]
    assert completions("SELECT * FROM taxis INSIDE c") == ["campus", "CIRCLE("]
    assert completions("DROP TABLE ") == ["cars", "IF"]
    assert completions("DESCRIBE ") == ["taxis", "cars", "campus", "q1"]
    assert "HOUR(" in completions("SELECT H")
    assert completions("SELECT o")[0] == "oid"
    assert "timing" in completions("\\ti")
    assert completions("\\format g") == ["geojson"]
    assert completions("\\timing o") == ["on", "off"]
    assert completions("\\set o") == []
    assert "engine.slots" in completions("SET engine.s")


def test_completion_of_files(tmp_path: Path) -> None:
    (tmp_path / "cars.csv").touch()
    assert completions(f"CREATE MOVING STREAM t FROM FILE '{tmp_path}/ca") == ["rs.csv"]


def test_the_lexer_colours_words_strings_numbers_and_comments() -> None:
    line = "SELECT 'it''s' FROM taxis -- 5 km"
    fragments = StqlHighlighter(lambda: frozenset({"SELECT", "FROM"})).lex_document(Document(line))(0)
    coloured = [(style.rpartition(".")[2], text) for style, text, *_ in fragments if style]
    assert coloured == [
        ("keyword", "SELECT"),
        ("string", "'it''s'"),
        ("keyword", "FROM"),
        ("comment", "-- 5 km"),
    ]
