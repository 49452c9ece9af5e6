"""The map in a pseudo-terminal of 80 by 24: read, moved, left; in colour, without, and in plain ASCII."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from shell.map.conftest import Town
from shell.terminal import STQSH, Terminal, exit_status
from stqsh.errors import StqshError
from stqsh.shell.map.dispatch import print_or_write
from stqsh.shell.terminal.screen import Screen
from stqsh.storage.engine_info import EngineInfo, write_engine

COLOUR = re.compile(rb"\x1b\[[0-9;]*\b(3[0-8]|4[0-8]|9[0-7]|10[0-7])\b[0-9;]*m")


def opened(town: Town, *words: str, **more: str) -> Terminal:
    return Terminal({**town.environ, **more}, "map", "--session", "local", *words, size=(80, 24))


def test_a_map_fits_80_by_24_and_shows_the_answers_with_their_letters(town: Town) -> None:
    terminal = opened(town, "taxis")
    terminal.wait(r"q leaves")
    sizes = [town.size(name) for name in ("station", "caller", "favourite", "make_way")]
    terminal.wait("A station {}  B caller {}  C favourite {}  D make_way {} @ambulance".format(*sizes))
    lines = terminal.text().split("\n")
    assert lines[0].startswith(f"taxis  201 objects  step {town.step}  2025-06-14T18:0")
    assert (lines[1], lines[21][0], lines[21][-1]) == ("┌" + "─" * 78 + "┐", "└", "┘")
    assert all(line[0] in "│├" and line[-1] == "│" for line in lines[2:21])
    drawn = "".join(lines[2:21])
    assert (
        "@" in drawn and "B" in drawn and "+" in drawn and "make_way" not in drawn
    )  # too small for its name
    assert "├50.02" in terminal.text() and "┴10.04" in lines[21]
    assert re.search(r"├─+┤ 1 km", lines[23])
    terminal.keys("q")
    left = terminal.wait("left the map of taxis; it goes on")
    assert "A station" in left and "q leaves" not in left and "└" in left


def test_keys_move_zoom_pick_follow_and_hide(town: Town) -> None:
    terminal = opened(town, "taxis")
    terminal.wait("A station")
    terminal.settle()
    before = terminal.text().split("\n")
    terminal.keys("+")
    terminal.wait("500 m")
    terminal.keys("\x1b[D\x1b[D\x1b[D\x1b[D")
    terminal.wait("taxis  [0-9]+ of 201 objects")
    terminal.keys("0")
    terminal.until(lambda text: text.split("\n")[1:] == before[1:], "picture as before")
    terminal.keys("n")
    terminal.wait(r"oid +(taxi-\d+|ambulance)(.|\n)*speed")
    terminal.keys("\x1b")
    terminal.until(lambda text: "speed" not in text, "picture without the record")
    terminal.keys("/taxi-042\r")
    terminal.wait(r"oid +taxi-042")
    terminal.keys("\x1bt")
    terminal.wait("follows ambulance")
    terminal.keys("1")
    terminal.wait(r"\(A station\)")
    terminal.keys("?")
    terminal.wait("hide a query")
    terminal.keys("\x03")
    terminal.wait("left the map")


def mouse(button: int, column: int, row: int, *, up: bool = False) -> str:
    """What a terminal sends of its mouse; button 64 and 65 are the wheel, 32 more says that it moves."""
    return f"\x1b[<{button};{column};{row}{'m' if up else 'M'}"


def test_the_mouse_moves_zooms_and_picks(town: Town) -> None:
    terminal = opened(town, "taxis")
    terminal.wait("A station")
    terminal.keys(mouse(64, 40, 12))
    terminal.wait("[0-9]+ of 201 objects")
    terminal.keys(mouse(65, 40, 12))
    terminal.wait("taxis  201 objects")
    terminal.keys(mouse(0, 20, 12) + mouse(32, 45, 12) + mouse(32, 70, 12) + mouse(0, 70, 12, up=True))
    terminal.wait("[0-9]+ of 201 objects")
    terminal.keys("0/ambulance\r")
    terminal.wait(r"oid +ambulance")
    terminal.keys("\x1b")

    def rows(text: str) -> list[int]:
        return [place for place, line in enumerate(text.split("\n")) if "@" in line and line[0] in "│├"]

    text = terminal.until(lambda text: "oid " not in text and rows(text) != [], "@ without its record")
    row = rows(text)[0]
    column = terminal.screen.display[row].index("@")
    terminal.keys(mouse(0, column + 1, row + 1) + mouse(0, column + 1, row + 1, up=True))
    terminal.wait(r"oid +(ambulance|taxi-\d+)")
    terminal.keys("q")
    terminal.wait("left the map")


def test_a_map_is_live(town: Town) -> None:
    terminal = opened(town, "taxis")
    terminal.wait(f"step {town.step} ")
    town.run(16)
    terminal.wait(f"step {town.step} ")
    terminal.wait(f"A station {town.size('station')} ")
    terminal.keys(" ")
    terminal.wait("paused; space continues")
    town.run(1)
    terminal.settle()
    terminal.keys(" ")
    terminal.wait(f"step {town.step} ")
    terminal.keys("q")
    terminal.wait("left the map")


def test_without_colours_and_without_utf_8_all_can_still_be_read(town: Town) -> None:
    terminal = opened(town, "taxis", NO_COLOR="1", LC_ALL="C")
    received: list[bytes] = []
    feed = terminal._stream.feed
    terminal._stream.feed = lambda data: (received.append(data), feed(data))[1]  # type: ignore[method-assign]
    text = terminal.wait(r"A station \d+  B caller 3(.|\n)*q leaves")
    assert text.isascii() and "|" in text and "@" in text and "+----" in text
    terminal.keys("s")
    terminal.wait("slots 0 1")

    def has_slots(text: str) -> bool:
        drawn = "".join(line[1:-1] for line in text.split("\n")[2:21])
        return drawn.count("0") + drawn.count("1") > 60  # a digit for an object: its slot

    terminal.until(has_slots, "digits of slots")
    terminal.keys("q")
    terminal.wait("left the map")
    assert not COLOUR.search(b"".join(received))


def test_colours_are_used_where_they_may_be(town: Town) -> None:
    terminal = opened(town, "posts")
    terminal.wait("A wanted")

    def is_green(text: str) -> bool:
        cells = [cell for row in terminal.screen.buffer.values() for cell in row.values()]
        return any(cell.fg == "brightgreen" for cell in cells if cell.data == "A")

    terminal.until(is_green, "green A")
    terminal.keys("q")
    terminal.wait("left the map")


@pytest.mark.parametrize(
    ("words", "statement", "shown", "codes"),
    [
        ((), "", "stqsh>", [b"?2004l"]),
        (("--format", "table"), "TAIL station;", r"(?<!\\)q leaves", [b"?25h"]),
        ((), "WATCH station;", r"(?<!\\)q leaves", [b"?1049l", b"?25h"]),
        ((), "MAP taxis;", r"(?<!\\)q leaves", [b"?1049l", b"?1000l", b"?25h"]),
    ],
)
def test_a_signal_that_ends_the_shell_leaves_the_terminal_as_it_was(
    town: Town, words: tuple[str, ...], statement: str, shown: str, codes: list[bytes]
) -> None:
    town.beat()
    terminal = Terminal(town.environ, "--session", "local", *words, size=(80, 24))
    terminal.wait("stqsh>")
    terminal.settle()
    if statement:
        terminal.type(statement)
        terminal.wait(shown)
    terminal.child.kill(signal.SIGTERM)
    rest = terminal.child.read()
    assert [code for code in codes if b"\x1b[" + code not in rest] == []
    assert b"Traceback" not in rest
    assert exit_status(terminal.child) == 128 + signal.SIGTERM


def test_without_a_terminal_it_is_one_frame_of_text(town: Town) -> None:
    done = subprocess.run(
        [*STQSH, "map", "--session", "local", "make_way"], env=town.environ, capture_output=True, check=True
    )
    lines = done.stdout.decode().split("\n")
    assert (len(lines), lines[0][:17]) == (25, "taxis  201 object")
    assert f"A make_way {town.size('make_way')} @ambulance" in lines[22]
    assert b"\x1b" not in done.stdout
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["nothing"], "unknown stream or query 'nothing'", 2),
        ([], "say which: MAP taxis; MAP posts", 2),
        (["posts", "station"], "station asks about taxis", 2),
        (["--serve", "--to", "f.html"], "not both", 2),
        (["--serve", "99999"], "up to 65535", 2),
        (["taxis", "--to", "no/such/folder/map.html"], "cannot write no/such/folder/map.html", 1),
    ],
)
def test_what_cannot_be_is_said(town: Town, words: list[str], said: str, code: int) -> None:
    command = [*STQSH, "map", "--session", "local", *words]
    done = subprocess.run(command, env=town.environ, capture_output=True, text=True, check=False)
    assert said in done.stderr and "Traceback" not in done.stderr
    assert (done.returncode, done.stdout) == (code, "")


def test_in_a_script_a_page_is_written_once(town: Town, tmp_path: Path) -> None:
    file = tmp_path / "map.html"
    feed = town.feed(f"MAP taxis station TO '{file}';")
    told = print_or_write(feed, Screen(io.BytesIO(), visible=False))
    assert told == f"map of taxis after step {town.step} written to {file}"
    assert "one picture, taken at" in file.read_text()
    print_or_write(feed, Screen(io.BytesIO(), visible=False))  # a page takes the place of an older one


def test_a_page_takes_no_other_file_s_place(town: Town, tmp_path: Path) -> None:
    file = tmp_path / "precious.txt"
    file.write_text("mine")
    with pytest.raises(StqshError, match=r"precious.txt is there already and is not a map's page") as caught:
        print_or_write(town.feed(f"MAP taxis TO '{file}';"), Screen(io.BytesIO(), visible=False))
    assert caught.value.hint == "name another place, or delete the file first"
    assert file.read_text() == "mine"


def test_a_page_is_told_when_the_engine_has_stopped(town: Town, tmp_path: Path) -> None:
    file = tmp_path / "map.html"
    with town.mapped("taxis", "--to", str(file)) as process:
        deadline = time.monotonic() + 120
        while not file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.2)
        write_engine(town.session.home, EngineInfo(2**30, 0, 0, "ready"))
        try:
            _, told = process.communicate(timeout=120)
        finally:
            town.beat()
    assert process.returncode == 0
    assert "the session's engine has stopped; the last state, of step" in told
    assert "has stopped; this is the last state" in file.read_text()
