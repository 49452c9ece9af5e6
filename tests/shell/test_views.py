"""TAIL, WATCH and `\\watch` as a user meets them: in a terminal, under 10 000 updates a second.

The engine is played by `shell.played`, which writes an update log and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pexpect
import pytest

from shell.terminal import STQSH, Terminal, environment, kill
from stqsh.storage.control_log import ControlDb
from stqsh.storage.engine_info import is_alive, read_engine
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress

TESTS = Path(__file__).parents[1]
RATE = 10_000
A_BATCH = RATE // 4
ROW = re.compile(r" *\d+  [\dTZ:.-]+ +(\+|- left) +(taxi-\d{7}|calm-\d{5}) ")
KEYS = {"up": "\x1b[A", "pageup": "\x1b[5~", "escape": "\x1b", "tab": "\t", "home": "\x1b[H"}


@contextmanager
def playing(environ: dict[str, str], a_second: int = RATE, steps: int = 0) -> Iterator[None]:
    """Play the engine of the session "mine": `steps` batches at a rate, and batches without an end for 0."""
    root = Path(environ["STQSH_HOME"])
    words = [sys.executable, "-m", "shell.played", str(root), "mine", str(a_second), str(steps)]
    process = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(TESTS)})
    home, deadline = SessionHome(root / "mine"), time.monotonic() + 90
    try:
        while not is_alive(read_engine(home)) or read_progress(ControlDb(home.path, create=True)).step < max(
            1, steps
        ):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def under_load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a session under load; the tests that share it change nothing in it."""
    with environment(tmp_path_factory.mktemp("home")) as values, playing(values):
        yield values


@pytest.fixture
def shell(under_load: dict[str, str]) -> Iterator[Terminal]:
    """A shell at 80 x 24 on the session under load."""
    terminal = Terminal(under_load, "--session", "mine", size=(80, 24))
    terminal.wait("stqsh>.*", 60)
    terminal.wait(r"mine  \|  (engine ready|step )", 100)
    yield terminal
    kill(terminal.child)


def press(terminal: Terminal, name: str) -> None:
    terminal.keys(KEYS[name])


def resize(terminal: Terminal, columns: int, rows: int) -> None:
    terminal.screen.resize(rows, columns)
    terminal.screen.cursor.y = min(terminal.screen.cursor.y, rows - 1)  # pyte leaves it outside
    terminal.child.setwinsize(rows, columns)


def strangers(text: str) -> list[str]:
    """The lines of a TAIL's screen that are neither rows, headers, marks, omissions nor the status line."""
    usual = (ROW, re.compile(r"… [\d ]+ more$|-- |step  at|busy  |stqsh|ds, |$"))
    return [line for line in text.splitlines() if not any(one.match(line) for one in usual)]


def test_a_tail_under_load_never_corrupts_the_screen(shell: Terminal) -> None:
    shell.type("TAIL busy;")
    for _ in range(3):
        text = shell.wait(r"busy  step [\d ]+  .* [\d ]*\d\d \d{3} updates .*q leaves")
        assert strangers(text) == []
        assert max(map(len, text.splitlines())) < 80
        shell.settle(most=1.0)
    history = [line for page in shell.screen.history.top for line in ["".join(c.data for c in page.values())]]
    assert any(re.match(r"… [\d ]+ more", line) for line in history)


def test_a_tail_from_a_step_that_is_yet_to_come_says_so(shell: Terminal) -> None:
    shell.type("TAIL busy FROM STEP 999999999;")
    shell.wait_so_far(r"(?m)^busy: step 999999999 is yet to come; what follows begins after step \d+$")


def test_space_pauses_and_what_comes_meanwhile_is_counted(shell: Terminal) -> None:
    shell.type("TAIL busy;")
    shell.wait(r"\d updates .*q leaves")
    shell.keys(" ")
    before = shell.wait(r"paused, [\d ]+ waiting .*space goes on").splitlines()
    after = shell.wait(r"paused, [1-9]\d 000 waiting").splitlines()
    assert before[:-1] == after[:-1]
    shell.keys(" ")
    shell.wait(r"\d updates  space pauses")
    assert strangers(shell.text()) == []


def test_a_filter_shows_what_fits_by_text_or_op(shell: Terminal) -> None:
    shell.type("TAIL busy;")
    shell.wait(r"\d updates .*q leaves")
    shell.keys("/- 99\r")
    so_far = shell.wait_so_far(r"(?ms)^-- only - 99.*^ *\d+  [\dTZ:.-]+ +- left ")
    shell.wait(r"only - 99: [1-9][\d ]* of [\d ]+ updates")
    below = so_far.partition("-- only - 99")[2].splitlines()
    rows = [line for line in below if ROW.match(line)]
    assert rows and all(" - left " in line and "99" in line for line in rows)
    shell.keys("/\x15\r")
    shell.wait_so_far(r"-- all updates again")


def test_a_filter_counts_what_fits_of_all_that_came_before_it(shell: Terminal) -> None:
    resize(shell, 110, 24)  # at 80, what waits leaves no room for the count as soon as it has five digits
    shell.type("TAIL busy;")
    shell.wait(r"\d updates .*q leaves")
    shell.keys(" ")
    shell.wait(r"paused, ")
    shell.keys("/+\r")
    shell.wait(r"only \+: [1-9][\d ]* of [\d ]+ updates")


def test_scrolling_back_finds_what_was_left_out_and_goes_on(shell: Terminal) -> None:
    shell.type("TAIL busy;")
    shell.wait(r"\d \d{3} updates .*q leaves")
    press(shell, "pageup")
    shell.wait(r"scrolled back  20 below .*Esc goes on")
    keys = [int(found) for found in re.findall(r"\+ +taxi-(\d{7})", shell.text())]
    assert len(keys) > 15 and keys == list(range(keys[0], keys[0] + len(keys)))  # none is left out
    press(shell, "home")
    shell.wait(r"scrolled back  [1-9][\d ]{3,} below")
    press(shell, "escape")
    shell.wait(r"\d updates  space pauses")
    shell.keys("q")
    shell.wait("left busy; it goes on")


def test_a_tail_follows_the_terminals_size_and_stays_when_it_is_left(shell: Terminal) -> None:
    shell.type("TAIL busy;")
    shell.wait(r"\d updates .*q leaves")
    resize(shell, 60, 16)
    shell.wait(r"\A(?:.*\n){15}busy  .*q leaves\Z")
    resize(shell, 110, 30)
    shell.wait(r"\d  1970-01-01T[\d:]+Z  \+  ")
    shell.wait(r"busy  step \d+  [\d:]+Z  30 000 records/s  lag 0\.2 s.*/ filters.*q leaves")
    shell.child.sendintr()
    text = shell.wait("left busy; it goes on")
    assert len([line for line in text.splitlines() if ROW.match(line)]) > 10


def test_a_pipe_gets_every_update(environ: dict[str, str]) -> None:
    steps = 8
    words = [*STQSH, "run", "--session", "mine", "--format", "jsonl", "-"]
    with playing(environ, steps=steps):
        lines = run_until(words, "TAIL busy FROM START;", environ, count=(2 * steps - 1) * A_BATCH // 2)
    told = [json.loads(line) for line in lines]
    assert Counter((one["step"], one["op"]) for one in told) == expected(steps)


def expected(steps: int) -> Counter[tuple[int, str]]:
    came = {(step, "+"): A_BATCH // 2 for step in range(1, steps + 1)}
    return Counter(came | {(step, "-"): A_BATCH // 2 for step in range(2, steps + 1)})


def test_a_dashboard_shows_answers_loads_and_what_is_new(shell: Terminal) -> None:
    shell.type("WATCH busy, calm;")
    text = shell.wait(
        r"mine  step \d+ .*\n.*slots  0 █+▁+ [\d ]+  1 █{8} [\d ]+ records[^█]*\n busy   1 250 rows, 1 to "
    )
    assert re.search(r"\n\+ taxi-\d{7} +11[67]\.\d+ +39\.\d+|\n\+ taxi", shell.wait(r"\n\+ taxi-"))
    assert re.search(r"\n calm   \d+ rows?.* updates/s  ▁*█", text)
    shell.wait(r"q leaves  space pauses  Tab next query")
    shell.keys(" ")
    shell.wait(r"paused, [1-9][\d ]* updates since")
    shell.keys(" ")
    press(shell, "tab")
    shell.keys("\r")  # one query alone
    shell.wait(r"Enter all queries")
    assert "busy" not in shell.text()
    shell.keys("/00001\r")
    shell.wait(r"1 of \d+ rows")
    shell.keys("q")
    text = shell.wait("left WATCH; busy, calm go on")
    assert "calm-00001" in text  # the last frame stays


@pytest.mark.parametrize("leave", ["q", "\x03"])
def test_a_dashboard_in_monochrome_follows_the_terminals_size(under_load: dict[str, str], leave: str) -> None:
    shell = Terminal({**under_load, "NO_COLOR": "1"}, "--session", "mine", size=(80, 24))
    shell.wait(r"mine  \|  (engine ready|step )", 100)
    drawn = shell.child.logfile_read = Log()
    shell.type("WATCH busy, calm;")
    shell.wait(r"\n\+ taxi-\d{7}")
    resize(shell, 50, 12)
    shell.wait(r"\A(?:.*\n){11}q leaves  space pauses")
    shell.keys(leave)
    shell.wait("left WATCH; busy, calm go on")
    kill(shell.child)
    colours = [
        found for found in re.findall(rb"\x1b\[([\d;]*)m", drawn.data) if re.search(rb"(^|;)[34]\d", found)
    ]
    assert colours == []


class Log:
    """Takes what a terminal is sent."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    def flush(self) -> None:
        pass


def test_a_dashboard_needs_a_terminal(environ: dict[str, str]) -> None:
    done = subprocess.run(
        [*STQSH, "-c", "WATCH busy;"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "WATCH needs a terminal to draw on\nhint: TAIL name;" in done.stderr


def test_watch_repeats_in_place_until_it_is_left(shell: Terminal) -> None:
    shell.type(r"SHOW STREAMS \watch i=0.2")
    # A screen that is just being drawn has the line without the table.
    text = shell.wait(r"(?s)(?=.*taxis).*SHOW STREAMS  every 0.2 s  [1-9]\d+  .*q leaves")
    assert text.count("taxis") == 1
    shell.child.sendintr()
    assert shell.wait(r"left \\watch; the session goes on").count("taxis") == 1
    shell.type(r"\watch i=0.1 c=3")
    shell.wait(r"SHOW STREAMS  every 0.1 s  3  [^<]*\nstqsh>\n")
    shell.type(r"TAIL busy \watch")
    shell.wait(r"\\watch repeats only statements that change nothing, not TAIL busy")


def test_watch_prints_one_answer_after_the_other_in_a_pipe(environ: dict[str, str]) -> None:
    script = "SHOW STREAMS FORMAT csv \\watch i=0.01 c=2\n\\watch c=1\nSHOW TABLES FORMAT csv;"
    words = [*STQSH, "run", "--session", "mine", "-q", "-"]
    with playing(environ, steps=2):
        lines = run_until(words, script, environ, count=6)
    assert [line.partition(",")[0] for line in lines] == ["name", *["taxis"] * 3, "\n", "name"]


def run_until(words: list[str], script: str, environ: dict[str, str], count: int) -> list[str]:
    """The first lines that a script prints; then it is stopped, as its stream never ends."""
    with subprocess.Popen(
        words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdin is not None and run.stdout is not None
        run.stdin.write(script)
        run.stdin.close()
        lines = list(islice(run.stdout, count))
        run.terminate()
    return lines


def test_a_dumb_terminal_gets_lines_without_a_single_code(under_load: dict[str, str]) -> None:
    dumb = {**under_load, "TERM": "dumb"}
    child = pexpect.spawn(
        STQSH[0], [*STQSH[1:], "--session", "mine"], env=dumb, dimensions=(24, 80), timeout=100
    )
    child.expect("stqsh> ")
    said = [
        ("TAIL calm FROM START LIMIT 1;", "calm-"),
        ("WATCH calm;", "hint: TAIL name;"),
        ("SHOW QUERIES \\watch i=0.1 c=2", "calm.*calm"),
        ("HELP;", "CREATE MOVING STREAM.*HELP"),  # more than a screen, and no pager that asks for RETURN
    ]
    for typed, expected in said:
        child.send(typed + "\r")
        child.expect(f"(?s){expected}.*stqsh> ")
        assert b"\x1b" not in child.before + child.after, typed
    kill(child)
