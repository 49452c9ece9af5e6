"""`make screens`: the real shell in a pseudo-terminal on the sample data, drawn as .screens/*.svg.

The same from run to run but for what was measured, times and rates: what belongs to this machine (a process
id, a folder) is written over. The pictures need nothing from a network: their font is the reader's own.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pyte
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.style import Style
from rich.text import Text

sys.path.insert(0, str(Path(__file__).parents[1]))
from shell.terminal import STQSH, Terminal

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".screens"
SESSION = "tour"
_FONTS = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
_COLOURS = {"brown": "yellow", "brightbrown": "bright_yellow", "default": "default"}


@dataclass(frozen=True)
class Scene:
    """A picture: the keys that lead to it one after the other, each with the pattern that must be seen then.

    name: of its file; None for what only leads on. after: the keys that leave it.
    """

    name: str | None
    keys: tuple[tuple[str, str], ...]
    after: str = ""


ENTER, TAB, CLEAR = "\r", "\t", "\x0c"
TAXIS = "CREATE MOVING STREAM taxis FROM FILE 'sample_data/taxis/*.csv' TICK 1 s REPORT EVERY 30 s;"
NEAR = "REGISTER QUERY near AS SELECT oid, speed FROM taxis INSIDE RECT(400 m, 400 m) AROUND 'ambulance';"
NEXT = "REGISTER QUERY next AS SELECT oid FROM taxis WHERE status = 'free' NEAREST 3 TO 'ambulance';"
WRONG = "SELECT oid FROM taxis WHERE status = 'free' INSIDE RECT(400 m) AROUND 'ambulance';"
SCENES = (
    Scene(None, ((TAXIS + ENTER, "guessed: KEY oid"),)),
    Scene(
        "tail",
        (
            (NEAR + ENTER, "query near registered"),
            (NEXT + ENTER, "query next registered"),
            (f"RUN FOR 1 min;{ENTER}", r"ran \d+ steps"),
            (f"TAIL near FROM START;{ENTER}", "Ctrl-C leaves|q leaves"),
        ),
        "\x03",
    ),
    Scene("watch", ((f"WATCH near, next;{ENTER}", r"q leaves"),), "q"),
    Scene("map", ((f"MAP taxis near, next;{ENTER}", r"\d+ objects +step"),), "q"),
    Scene(
        "completion",
        (
            (f"{CLEAR}SELECT oid, speed FROM taxis WHERE status = 'free' NEAREST 3 TO 'tax", r"in taxis now"),
            (TAB, r"TO 'taxi-\d+'"),
        ),
        "\x03",
    ),
    Scene(
        "error",
        (
            (f"{CLEAR}SELECT oid, sped FROM taxis WHERE status = 'free';{ENTER}", "did you mean"),
            (WRONG + ENTER, "expected"),
        ),
    ),
    Scene(
        "status",
        (
            (f"{CLEAR}RUN FOR 1 min;{ENTER}", "ran .* steps"),
            (f"{CLEAR}SHOW QUERIES;{ENTER}", r"\(2 rows\)"),
            (f"SHOW STATUS;{ENTER}", "dead letters"),
        ),
    ),
)  # fmt: skip


def main() -> None:
    """Draw all screens."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stqsh-") as home:
        environ = {**os.environ, "STQSH_HOME": home, "TERM": "xterm-256color", "LESS": "FRSX"}
        environ |= {"STQSH_SHELL_AUTOPLAY": "false", "STQSH_ENGINE_SLOTS": "2"}
        environ.pop("NO_COLOR", None)
        os.chdir(ROOT)
        try:
            _tour(Terminal(environ, "--session", SESSION), home)
        finally:
            subprocess.run([*STQSH, "stop", SESSION], env=environ, capture_output=True, check=False)


def _tour(shell: Terminal, home: str) -> None:
    shell.wait("engine ready", 500)
    for scene in SCENES:
        for keys, pattern in scene.keys:
            shell.keys(keys)
            shell.wait(pattern, 200)
        shell.settle()
        if scene.name is not None:
            path = FOLDER / f"{scene.name}.svg"
            path.write_text(picture(shell.screen, home, scene.name), encoding="utf-8")
            print(path.relative_to(ROOT))
        shell.keys(scene.after)
        shell.settle()


def picture(screen: pyte.Screen, home: str, name: str) -> str:
    """A terminal's screen as SVG."""
    console = Console(
        record=True, width=screen.columns, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for line in _lines(screen, home):
        console.print(line, no_wrap=True, overflow="crop", soft_wrap=True)
    code = _FONTS.sub("", CONSOLE_SVG_FORMAT)
    return console.export_svg(title="stqsh", unique_id=f"stqsh-{name}", code_format=code)


def _lines(screen: pyte.Screen, home: str) -> list[Text]:
    """The lines with their colours, without what belongs to this machine; no empty ones at the end."""
    lines = [_line(screen, row, home) for row in range(screen.lines)]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    return lines


def _line(screen: pyte.Screen, row: int, home: str) -> Text:
    cells = [screen.buffer[row][column] for column in range(screen.columns)]
    line = Text()
    for style, alike in groupby(cells, _style):
        line.append("".join(cell.data for cell in alike), style)
    line.rstrip()
    line = _overwritten(line, re.compile(r"(?<=pid)( +)(\d+)"), r"\g<1>4711")
    return _overwritten(line, re.compile(re.escape(home)), "~/.local/state/stqsh")


def _overwritten(line: Text, pattern: re.Pattern[str], instead: str) -> Text:
    """The line with other words for what was found."""
    found = pattern.search(line.plain)
    if found is None:
        return line
    begin, end = found.span()
    style = line.get_style_at_offset(Console(), begin)
    return Text.assemble(line[:begin], (found.expand(instead), style), line[end:])


def _style(cell: pyte.screens.Char) -> Style:
    return Style(
        color=_colour(cell.fg),
        bgcolor=_colour(cell.bg),
        bold=cell.bold,
        italic=cell.italics,
        underline=cell.underscore,
        reverse=cell.reverse,
    )


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    return _COLOURS.get(name, name.replace("bright", "bright_"))


if __name__ == "__main__":
    main()
