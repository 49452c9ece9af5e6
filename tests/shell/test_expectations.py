"""What users of such shells expect, and what they complain of elsewhere, each on a real screen of two sizes.

One session with the real engine is shared. Each expectation is typed at the prompt, or at the command line,
and its screen must show what it names. The screens are kept in `captures`, a text file each;
`STQSH_CAPTURE=1` writes them anew. Quick tests hold the files against the same expectations, so that none is
missing or out of date.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shell.terminal import STQSH, Terminal, environment

CAPTURES = Path(__file__).parent / "captures"
SIZES = ((80, 24), (160, 45))
INTERRUPT, CLEAR_SCREEN, SEARCH, LEAVE_SEARCH = "\x03", "\x0c", "\x12", "\x07"
FOLLOWING = r"q leaves"
SETUP = """
SET shell.autoplay = false;
CREATE MOVING STREAM taxis FROM FILE 'sample_data/taxis/*.csv' TICK 1 s REPORT EVERY 30 s;
CREATE EVENT STREAM chat (id BIGINT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, topic STRING, body STRING)
  KEY id LOCATION (lon, lat) TIME ts TEXT body FROM FILE 'sample_data/chat.jsonl' TICK 1 s KEEP 1 min;
REGISTER QUERY near AS SELECT oid, speed FROM taxis INSIDE RECT(400 m, 400 m) AROUND 'ambulance';
REGISTER QUERY next AS SELECT oid, DISTANCE FROM taxis WHERE status = 'free' NEAREST 3 TO (10.029, 50.0157);
REGISTER QUERY calm WITH (dwell => 5 s) AS SELECT oid FROM taxis INSIDE RECT(400 m, 400 m) AROUND 'ambulance';
REGISTER QUERY recent AS SELECT id, topic FROM chat;
REGISTER QUERY nobody AS SELECT oid FROM taxis WHERE speed > 1000;
RUN FOR 2 min;
"""
WIDE = ", ".join(f"speed AS a_long_name_{number}" for number in range(16))


@dataclass(frozen=True)
class Expectation:
    """A feature or a complaint.

    Attributes:
        name: Its name, also that of its capture.
        typed: What is typed, one line after another; a function drives the terminal itself.
        shown: Patterns that the screen must show.
        hidden: A pattern that it must not show.
    """

    name: str
    typed: tuple[str, ...] | Callable[[Terminal], None]
    shown: tuple[str, ...]
    hidden: str = "Traceback"

    def holds(self, screen: str) -> bool:
        """Whether a screen shows all that it must, and nothing that it must not."""
        return all(re.search(one, screen, re.MULTILINE) for one in self.shown) and not re.search(
            self.hidden, screen
        )


@dataclass(frozen=True)
class CommandLine:
    """A feature or a complaint of the command line, without a terminal.

    Attributes:
        words: The arguments.
        code: The exit code.
        out: A pattern that standard output must match as a whole.
        told: A pattern on standard error.
    """

    name: str
    words: tuple[str, ...]
    code: int
    out: str
    told: str = ""


def complete(shell: Terminal) -> None:
    shell.keys("SELECT * FROM taxis WHERE status = 'f")
    shell.wait("free +in taxis now")


def search_history(shell: Terminal) -> None:
    shell.type("SELECT COUNT(*) FROM taxis;")
    shell.wait(r"\(1 row")
    shell.keys(f"{SEARCH}COUNT")
    shell.wait("I-search backward: COUNT")


def time_and_watch(shell: Terminal) -> None:
    shell.type("\\timing on")
    shell.type("SELECT COUNT(*) FROM taxis;")
    shell.wait(r"time: \d")
    shell.type("SELECT COUNT(*) FROM chat;")
    shell.wait(r"time: [\s\S]*time: \d")
    shell.type("\\watch i=1 c=2")
    shell.wait(r"every 1 s +2 +\d\d:\d\d:\d\d")
    shell.type("\\timing off")
    shell.wait("timing is off")


def interrupt_a_tail(shell: Terminal) -> None:
    shell.type("TAIL near;")
    shell.wait(FOLLOWING)
    shell.keys(INTERRUPT)
    shell.wait("left near; it goes on")


def interrupt_and_go_on(shell: Terminal) -> None:
    interrupt_a_tail(shell)
    shell.type("SHOW QUERIES LIKE 'near';")
    shell.wait(r"near +range")


def subscribe_and_leave(shell: Terminal) -> None:
    shell.type("SUBSCRIBE SELECT oid FROM taxis INSIDE RECT(1 km, 1 km) AROUND 'ambulance';")
    shell.wait(FOLLOWING)
    shell.keys(INTERRUPT)
    shell.wait(r"left sub_\d+; it is dropped")


def leave_nothing_listed(shell: Terminal) -> None:
    subscribe_and_leave(shell)
    shell.keys(CLEAR_SCREEN)
    shell.type("SHOW QUERIES;")
    shell.wait(r"\(\d rows")


def watch_full_screen(shell: Terminal) -> None:
    shell.type("WATCH near, next;")
    shell.wait("near[\\s\\S]*next[\\s\\S]*taxi-")
    shell.settle()


def follow_what_is_silent(shell: Terminal) -> None:
    shell.type("TAIL nobody;")
    shell.wait(rf"step \d+.*{FOLLOWING}")
    shell.settle()


def begin_with_the_answer(shell: Terminal) -> None:
    shell.type("TAIL next;")
    shell.wait("the changes since then")
    shell.wait(FOLLOWING)


def draw_a_map(shell: Terminal) -> None:
    shell.type("MAP taxis near;")
    shell.wait("[\u2801-\u28ff]")
    shell.settle()


FEATURES = (
    Expectation(
        "multi-line statements run at their semicolon",
        ("SELECT COUNT(*)", "FROM taxis;"),
        (r"stqsh> SELECT COUNT\(\*\)", r"-> FROM taxis;", r"\(1 row"),
    ),
    Expectation("completion offers values that are live", complete, ("free +in taxis now",)),
    Expectation("history is searched backward", search_history, ("I-search backward: COUNT",)),
    Expectation("timing and watch", time_and_watch, (r"time: \d+\.\d+ s", r"every 1 s +2 +\d\d:\d\d:\d\d")),
    Expectation(
        "a format applies once",
        (
            "SELECT oid, status FROM taxis WHERE oid = 'ambulance' FORMAT csv;",
            "SELECT oid, status FROM taxis WHERE oid = 'ambulance' \\G",
        ),
        (r"^oid,status$", r"^ambulance,\w*$", r"^-- 1 -+$", r"^oid +ambulance$"),
    ),
    Expectation(
        "settings say where they come from and what they mean",
        ("SHOW SETTINGS LIKE 'shell.auto%';",),
        (r"shell\.autoplay +no +SET", r"whether streams created in the shell play at\s+once"),
    ),
    Expectation("Ctrl-C leaves a tail and says what goes on", interrupt_a_tail, ("left near; it goes on",)),
    Expectation(
        "queries are listed with state, age, answer and cost",
        ("SHOW QUERIES LIKE 'ne%';",),
        (r"name +kind +stream +state +age +answer", r"near +range +taxis +active", r"next +nearest"),
    ),
    Expectation(
        "explain analyze says rows a second of each operator",
        ("EXPLAIN ANALYZE near;",),
        (r"operator +rows in +rows out +ms +rows/s", r"index probe, filter, k nearest, aggregate +\d"),
    ),
    Expectation(
        "errors show line, caret and a near name",
        ("SELECT * FROM taxi;",),
        (r"SELECT \* FROM taxi;\n +\^\^\^\^", "(did you mean|maybe you meant) taxis"),
    ),
    Expectation("a full-screen view of several queries", watch_full_screen, ("near", "next", "q leaves")),
    Expectation(
        "a tail starts where it is told to",
        ("TAIL near FROM STEP 10 LIMIT 3;",),
        (r"step +at +op", r"^ +\d\d+ +\d\d:\d\d:\d\d|^ +\d+  2025-"),
    ),
    Expectation(
        "a tail shows only what leaves",
        ("TAIL next FROM START ONLY - LIMIT 3;",),
        (r"- (left|overtaken) +taxi",),
        r"  \+  +taxi",
    ),
    Expectation("a map of queries and objects in the terminal", draw_a_map, ("[\u2801-\u28ff]", "taxis")),
    Expectation(
        "the session is dumped as a script that runs",
        ("DUMP;",),
        (r"REGISTER QUERY near AS", r"REGISTER QUERY nobody AS"),
    ),
)
"""The features of a prompt; the command line has the one of pipes, and that of scripts."""

COMPLAINTS = (
    Expectation(
        "1 Ctrl-C neither stops the query nor breaks the session",
        interrupt_and_go_on,
        ("left near; it goes on", r"near +range +taxis +active"),
    ),
    Expectation(
        "2 the wording says what has stopped", subscribe_and_leave, (r"left sub_\d+; it is dropped",)
    ),
    Expectation(
        "3 every query has a name and a state, and none stays listed",
        leave_nothing_listed,
        (r"near +range +taxis +active", r"nobody +range"),
        r"sub_\d+ +range",
    ),
    Expectation(
        "4 output comes with each batch",
        begin_with_the_answer,
        (r"taxi-\d+ +\d+\.\d", FOLLOWING),
    ),
    Expectation(
        "5 silence has a clock and a state",
        follow_what_is_silent,
        (r"nobody +step \d+", r"2025-06-14|18:0\d"),
    ),
    Expectation(
        "6 marks say where the answer ends and the changes begin",
        begin_with_the_answer,
        (r"-- next: the answer after step \d+", "-- the changes since then"),
    ),
    Expectation(
        "7 signs and words instead of numeric codes",
        ("TAIL near FROM START LIMIT 12;",),
        (r"  \+  ", r"  - (left|disconnected)"),
    ),
    Expectation(
        "8 what expires leaves with a reason",
        ("TAIL recent FROM START ONLY - LIMIT 3;",),
        (r"- expired +\d+",),
    ),
    Expectation(
        "9 only members leave, with the reason",
        (
            "TAIL next FROM START ONLY - WHERE why = 'overtaken' LIMIT 3;",
            "TAIL next FROM START ONLY - LIMIT 3;",
        ),
        (r"- (overtaken|left) +taxi-\d+",),
    ),
    Expectation("10 dwell holds back jitter at a border", ("SHOW QUERY calm;",), (r"options +dwell 5 s",)),
    Expectation(
        "11 updates come in order",
        ("TAIL near FROM START LIMIT 6;",),
        (r"step +at +op",),
    ),
    Expectation(
        "14 wide answers stay aligned and count their columns",
        (f"SELECT oid, {WIDE} FROM taxis WHERE oid = 'ambulance';",),
        (r"… \d+ more", r"17 columns, \d+ shown; \\G shows all", r"^oid +a_long_name_0 "),
    ),
    Expectation(
        "15 a mistake has its place, and swapped axes are named",
        ("SELECT COUNT(*) FROM taxis INSIDE (50, 10, 50.1, 10.1);",),
        ("lies outside of the data", "longitude comes\\s+first"),
    ),
)
"""The complaints that concern a prompt; 12 and 13 are of the command line."""

COMMANDS = (
    CommandLine(
        "not a terminal gets data only",
        ("-s", "mine", "-c", "SELECT oid FROM taxis WHERE oid = 'ambulance'"),
        0,
        r'\{"statement":1,"row":\{"oid":"ambulance"\}\}\n',
    ),
    CommandLine(
        "scripts have variables and a format",
        (
            *("-s", "mine", "-v", "who=ambulance", "-q", "--format", "csv"),
            *("-c", "SELECT oid FROM taxis WHERE oid = :'who'"),
        ),
        0,
        "oid\nambulance\n",
    ),
    CommandLine(
        "12 a failure has its exit code",
        ("-s", "mine", "-c", "SELECT nope FROM taxis"),
        2,
        "",
        r"1:8: stream taxis has no column 'nope'",
    ),
    CommandLine(
        "13 pipes are clean, and messages are apart",
        ("-s", "mine", "-c", "SELECT oid FROM taxis WHERE oid = 'ambulanze'"),
        0,
        "",
        "no object 'ambulanze' of taxis has reported so far; maybe you meant 'ambulance'",
    ),
)
"""Features and complaints of the command line."""


def capture_of(name: str, size: tuple[int, int]) -> Path:
    """The file of a screen."""
    words = re.sub(r"\W+", "-", name.lower()).strip("-")
    return CAPTURES / f"{words}.{size[0]}x{size[1]}.txt"


def keep(path: Path, text: str) -> None:
    """Write a capture where that is asked for."""
    if os.environ.get("STQSH_CAPTURE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.rstrip() + "\n")


# -- the captures, without an engine -------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("expected", (*FEATURES, *COMPLAINTS), ids=lambda one: one.name)
def test_each_expectation_has_a_captured_screen(expected: Expectation, size: tuple[int, int]) -> None:
    screen = capture_of(expected.name, size).read_text()
    assert expected.holds(screen), screen
    lines = screen.splitlines()
    assert len(lines) <= size[1] and max(map(len, lines)) <= size[0]


@pytest.mark.parametrize("expected", COMMANDS, ids=lambda one: one.name)
def test_each_command_line_has_its_capture(expected: CommandLine) -> None:
    kept = capture_of(expected.name, (0, 0)).read_text()
    assert re.search(f"{expected.out}.*{expected.told}", kept, re.DOTALL)


# -- the same, in a session ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a session "mine" that has run for two minutes of event time."""
    with environment(tmp_path_factory.mktemp("expected") / "home") as environ:
        environ["STQSH_PAGER"] = "cat"
        subprocess.run(
            [*STQSH, "-s", "mine", "-q", "-c", SETUP], env=environ, check=True, capture_output=True
        )
        yield environ


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def shell(mine: dict[str, str], request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """A shell of one size in that session."""
    terminal = Terminal(mine, "--session", "mine", size=request.param)
    terminal.wait(r"step \d+")
    yield terminal
    terminal.keys(INTERRUPT)
    terminal.type("\\q")
    terminal.child.close(force=True)


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("expected", (*FEATURES, *COMPLAINTS), ids=lambda one: one.name)
def test_the_screen_shows_what_is_expected(shell: Terminal, expected: Expectation) -> None:
    shell.keys(INTERRUPT + CLEAR_SCREEN)
    shell.until(lambda text: text.startswith("stqsh>"), "empty prompt", 30)
    try:
        if callable(expected.typed):
            expected.typed(shell)
        else:
            for line in expected.typed:
                shell.type(line)
        shell.until(expected.holds, f"{expected.shown}, without {expected.hidden}", 60)
        size = (shell.screen.columns, shell.screen.lines)
        keep(capture_of(expected.name, size), shell.text())
    finally:
        shell.keys(INTERRUPT)
        shell.settle()


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("expected", COMMANDS, ids=lambda one: one.name)
def test_the_command_line_does_what_is_expected(mine: dict[str, str], expected: CommandLine) -> None:
    done = subprocess.run(
        [*STQSH, *expected.words], env=mine, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == expected.code, done.stderr
    assert re.fullmatch(expected.out, done.stdout), done.stdout
    assert re.search(expected.told, done.stderr)
    keep(capture_of(expected.name, (0, 0)), f"{done.stdout}{done.stderr}")


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_11_every_update_comes_once_and_in_order(mine: dict[str, str]) -> None:
    words = [*STQSH, "-s", "mine", "-q", "-c", "TAIL near FROM START"]
    first, second = (
        subprocess.run(words, env=mine, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert first == second and len(first.splitlines()) > 10
    records = [json.loads(line) for line in first.splitlines()]
    order = [(one["step"], one["op"] == "+", one["key"]) for one in records]
    assert order == sorted(order) and len(set(order)) == len(order)
