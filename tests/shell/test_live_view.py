"""The live view as it stands on a terminal, read back with a terminal emulator."""

import io
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pyte
import pytest

from stqsh.client.read.subscription import TailOptions
from stqsh.client.results import SnapshotMark
from stqsh.shell import render, status
from stqsh.shell.live import run_progress
from stqsh.shell.live.tail import watch
from stqsh.shell.repl.prompt_controller import PromptController
from stqsh.shell.scripting.watch_command import RedrawnFrame, repeat_in_place
from stqsh.shell.scripting.watch_interval import WatchInterval
from stqsh.shell.status import READY, alive_text, status_text
from stqsh.shell.terminal import raw_keys
from stqsh.shell.terminal.screen import BURST, Screen
from stqsh.spec.stats import BatchStats, MemoryStats
from stqsh.storage.engine_info import COMPILING
from stqsh.storage.home import SessionHome
from stqsh.storage.rows import Progress
from stqsh.storage.sinks.notices import Notice
from stqsh.units import group_digits
from tests.shell.samples import START_US, query, updates

Q1 = query(7, "q1")
ALIVE = Progress(
    3, 12, 1_201_964_401, 1_000_000, stats=BatchStats(records_per_s=125_000, playing=True, lag_s=0.25)
)


class Clock:
    """A clock that goes on by itself a little each time it is asked."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.3
        return self.now


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        status, "engine_text", lambda home: status.READY if home is None else "starting Spark… 3 s"
    )


@dataclass
class Query:
    """Stands for a `Following`: gives its items, is alive between them, may be interrupted."""

    items: list[Any]
    temporary: bool = False
    interrupted: bool = True
    query: Any = Q1
    options: TailOptions = field(default_factory=TailOptions)
    on_idle: Any = None
    connection: Any = field(default_factory=lambda: SimpleNamespace(home=None))
    closed: bool = False
    accuracy_text: str = ""
    notice: str = ""
    on_notice: Any = None

    def __iter__(self) -> Iterator[Any]:
        if self.notice:
            self.on_notice(self.notice)
        for item in self.items:
            yield item
            self.on_idle(ALIVE)
        if self.interrupted:
            raise KeyboardInterrupt

    def close(self) -> None:
        self.closed = True


@dataclass
class Terminal:
    """A terminal of 24 lines of 100 characters that a screen draws on."""

    screen: Screen
    buffer: io.BytesIO

    def lines(self, upto: int | None = None) -> list[str]:
        """What stands on it after the first `upto` bytes, empty lines left out."""
        emulated = pyte.Screen(100, 24)
        stream = pyte.ByteStream(emulated)
        stream.feed(self.buffer.getvalue()[:upto].replace(b"\n", b"\r\n"))
        return [line.rstrip() for line in emulated.display if line.strip()]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "24")
    buffer = io.BytesIO()
    return Terminal(Screen(buffer, colour=True, clock=Clock()), buffer)


def enters(step: int, key: str) -> Any:
    return (step, 7, "+", key, key, 116.4, 39.9, START_US, "free")


def test_updates_scroll_above_a_status_line_that_goes_when_the_user_leaves(terminal: Terminal) -> None:
    items = [
        SnapshotMark(Q1, 11, START_US, "begin"),
        updates([Q1], [enters(11, "1")]),
        SnapshotMark(Q1, 11, START_US, "end"),
        updates([Q1], [(12, 7, "left", "1", "1", 116.5, 39.9, START_US, None), enters(12, "2")]),
    ]
    following = Query(items)
    assert watch(following, terminal.screen) == "left q1; it goes on"
    assert following.closed
    assert terminal.lines() == [
        "-- q1: the answer after step 11 (2008-02-02T15:00:12Z)",
        "step  at                    op      key  oid    lon   lat",
        "  11  2008-02-02T15:00:11Z  +       1    1    116.4  39.9",
        "-- the changes since then",
        "  12  2008-02-02T15:00:12Z  - left  1    1    116.5  39.9",
        "  12  2008-02-02T15:00:12Z  +       2    2    116.4  39.9",
    ]


@pytest.mark.parametrize("has_items", [True, False])
def test_a_notice_precedes_the_updates_that_it_is_about(terminal: Terminal, has_items: bool) -> None:
    notice = "q1: step 99 is yet to come; what follows begins after step 11"
    items = [updates([Q1], [enters(12, "1")])] if has_items else []
    watch(Query(items, interrupted=has_items, notice=notice), terminal.screen)
    shown = ["step  at                    op      key  oid    lon   lat"] if has_items else []
    assert [line for line in terminal.lines() if "12Z" not in line] == [notice, *shown]


def test_the_status_line_shows_that_the_stream_is_alive(terminal: Terminal) -> None:
    following = Query([updates([Q1], [enters(12, "1")])])
    following.items.append(updates([Q1], []))
    watch(following, terminal.screen)
    drawn = terminal.buffer.getvalue()
    line = "q1  step 12  2008-02-02T15:00:12Z  125 000 records/s  lag 0.2 s  1 update  Ctrl-C leaves"
    assert line in drawn.decode()
    assert terminal.lines(drawn.index(b"Ctrl-C leaves") + 20)[-1] == line


def test_the_status_line_says_what_is_not_exact_and_what_is_shed(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = MemoryStats(k=2, shadow=12, objects=88)
    sheds = Progress(3, 12, ALIVE.base_tick, ALIVE.tick_us, stats=BatchStats(playing=True, memory=memory))
    monkeypatch.setitem(globals(), "ALIVE", sheds)
    watch(Query([updates([Q1], [enters(12, "1")])], accuracy_text="accuracy 0.87"), terminal.screen)
    drawn = terminal.buffer.getvalue().decode()
    assert "q1  accuracy 0.87  shedding: object, k 2, 12 % dropped  step 12" in drawn


def test_the_status_line_tells_of_the_start(terminal: Terminal) -> None:
    watch(Query([updates([Q1], [])], connection=SimpleNamespace(home="a home")), terminal.screen)
    assert "q1  starting Spark… 3 s  0 updates  Ctrl-C leaves" in terminal.buffer.getvalue().decode()


def test_a_name_and_a_notice_reach_the_terminal_without_control_characters(terminal: Terminal) -> None:
    named = query(7, "q\x1b[41m\nz")
    items = [updates([named], [enters(12, "1")]), updates([named], [])]
    watch(Query(items, query=named, notice="key \x1b[42m\x9b1m"), terminal.screen)
    drawn = terminal.buffer.getvalue().decode()
    assert "\x1b[4" not in drawn and "\x9b" not in drawn
    assert r"q\x1b[41m\nz  step 12" in drawn
    assert r"key \x1b[42m\x9b1m" in drawn


def test_an_alert_rings_and_its_text_is_harmless(terminal: Terminal) -> None:
    prompt = PromptController("mine", lambda: pytest.fail("no session"), lambda text: None)
    prompt._hear(Notice("q + k\x1b[41m\x07", bell=True))
    terminal.screen.status("q1", now=True)
    drawn = terminal.buffer.getvalue()
    assert b"\aq + k\\x1b[41m\\x07\n" in drawn
    assert drawn.count(b"\a") == 1


@pytest.mark.parametrize("how", ["follow", "watch", "run", "map"])
def test_what_a_view_says_at_its_end_reaches_the_terminal_without_control_characters(
    how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "left q\x1b[41m"
    monkeypatch.setattr(render, "is_interactive", lambda stream: True)
    monkeypatch.setattr(render, "open_screen", lambda stream: None)
    for name in ("watch", "show_dashboard"):
        monkeypatch.setattr(render, name, lambda *_: said)
    monkeypatch.setattr(render, "run_with_progress", lambda *_: (said, True))
    monkeypatch.setattr("stqsh.shell.map.dispatch.show_or_write", lambda *_: said)
    settings = SimpleNamespace(text=lambda name: "table")
    console: Any = SimpleNamespace(outlet=None, format="table")
    session: Any = SimpleNamespace(settings=lambda: settings)
    getattr(render.PromptRenderer(console, session), how)(None)
    assert capsys.readouterr().out == "left q\\x1b[41m\n"


def test_a_watched_statement_of_long_lines_is_redrawn_in_its_place(terminal: Terminal) -> None:
    frame = RedrawnFrame(terminal.buffer, colour=False)
    for number in range(3):
        frame.draw(f"title {number}", ["wide " * 40, "below"])
    frame.close()
    shown = terminal.lines()
    assert [shown[0], shown[2:]] == ["title 2", ["below"]]
    assert shown[1].startswith("wide wide")
    assert terminal.buffer.getvalue().count(b"\x1b[?7h") == 3


@pytest.mark.parametrize("interval_s", [0.0, 0.01])
def test_q_leaves_a_watched_statement_that_takes_longer_than_its_interval(
    terminal: Terminal, interval_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed, keys = os.openpty()
    pressed = [0]

    def lines() -> list[str]:
        pressed[0] += 1
        if pressed[0] == 2:
            os.write(typed, b"q")
        time.sleep(0.02)
        return ["row"]

    with os.fdopen(keys) as stream:
        monkeypatch.setattr(raw_keys.sys, "stdin", stream)
        monkeypatch.setattr(raw_keys, "_in_foreground", lambda stream: True)
        how = WatchInterval(interval_s, 50)
        assert repeat_in_place(how, "SHOW", lines, terminal.buffer) in (2, 3)
    os.close(typed)


def test_signs_are_coloured(terminal: Terminal) -> None:
    watch(
        Query([updates([Q1], [enters(12, "1"), (13, 7, "left", "1", "1", None, None, None, None)])]),
        terminal.screen,
    )
    drawn = terminal.buffer.getvalue()
    assert b"\x1b[32m  12" in drawn
    assert b"\x1b[31m  13" in drawn


def test_leaving_a_subscription_says_that_it_is_dropped(terminal: Terminal) -> None:
    assert watch(Query([], temporary=True), terminal.screen) == "left q1; it is dropped"


def test_a_query_that_ends_says_so(terminal: Terminal) -> None:
    assert watch(Query([], interrupted=False), terminal.screen) == "q1 has ended"


def test_what_is_too_much_for_a_terminal_is_sampled_and_counted(terminal: Terminal) -> None:
    many = updates([Q1], [enters(12, str(number)) for number in range(5000)])
    watch(Query([many]), terminal.screen)
    shown = terminal.buffer.getvalue().decode()
    assert f"… {group_digits(5000 - BURST)} more\n" in shown.partition(f" {5000 - BURST} ")[0]
    assert "4999" in terminal.lines()[-1]  # the latest
    assert len(shown) < 40_000


def test_a_narrow_terminal_gets_short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    buffer = io.BytesIO()
    watch(Query([updates([Q1], [enters(12, "12345678901234567890")])]), Screen(buffer, clock=Clock()))
    shown = buffer.getvalue().decode()
    assert not re.search(r"\x1b\[\d*m", shown)
    assert max(map(len, re.sub(r"\x1b\[[?\dJlh]*", "", shown).replace("\r", "\n").splitlines())) < 40


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (Progress(), "no step yet"),
        (Progress(0, 5, 0, 1_000_000), "step 5  1970-01-01T00:00:04Z  streams idle"),
        (Progress(0, 5, 0, 1_000_000, ended=True), "step 5  1970-01-01T00:00:04Z  streams at their end"),
        (
            Progress(0, 5, 0, 1_000_000, stats=BatchStats(running=True, backlog=12_345)),
            "step 5  1970-01-01T00:00:04Z  12 345 records to go",
        ),
    ],
)
def test_status_words(progress: Progress, words: str) -> None:
    assert status_text(progress) == words


@pytest.mark.parametrize(
    ("engine", "step", "shows_steps"),
    [
        (READY, 5, True),
        ("starting Spark… 3 s", 5, False),  # restarted
        (f"{COMPILING}… 63 s", 5, True),
        (f"{COMPILING}… 63 s", 0, False),
    ],
)
def test_an_engine_that_takes_steps_while_it_compiles_shows_them(
    engine: str, step: int, shows_steps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "engine_text", lambda home: engine)
    shown = alive_text(cast(SessionHome, None), Progress(0, step, 0, 1_000_000))
    assert shown.startswith("step 5") if shows_steps else shown == engine


@pytest.mark.parametrize(("is_stepping", "least"), [(False, 0.0), (True, 0.1)])
def test_one_interrupt_leaves_a_run_whose_batch_takes_long(
    is_stepping: bool, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(show: object) -> None:
        raise KeyboardInterrupt

    running = mock.Mock(finished=False, wait=interrupted)
    session = mock.Mock(progress=Progress)
    monkeypatch.setattr(run_progress, "_STOP_WAIT_S", 0.1)
    monkeypatch.setattr(run_progress.RunView, "is_stepping", is_stepping)
    began = time.monotonic()
    said, is_done = run_progress.run_with_progress(session, running, mock.Mock())
    assert least <= time.monotonic() - began < 1
    assert "stops after the batch under way" in said
    assert not is_done
    running.cancel.assert_called_once_with()
