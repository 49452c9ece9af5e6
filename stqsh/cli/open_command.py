"""`stqsh open FILE…`: find out what files are, and play them on the map, or say what to type."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stqsh.client.api import connect
from stqsh.client.results import Message
from stqsh.lang.printer.values import identifier, pace
from stqsh.program import program
from stqsh.shell.messages import print_message
from stqsh.shell.repl.app import run_shell
from stqsh.shell.repl.prompt import PROMPT
from stqsh.shell.scripting.console import ShellOptions
from stqsh.shell.terminal.capabilities import is_interactive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stqsh.client.api import Session
    from stqsh.client.opening import OpenedFile, Opening
    from stqsh.shell.repl.guide import GuidedShell

_MIDDLE = 0.25
"""How far the middle of an extent reaches to each side, as a share of the extent."""
_LONG_S = 90.0


@dataclass(frozen=True, slots=True)
class OpeningGuide:
    """Opens files in a shell, shows them on the map, and says what to type next.

    Attributes:
        words: files, folders and patterns.
        session: the name of the session; None for one that is gone when the shell is left.
        profile: the name or path of the settings.
    """

    words: tuple[str, ...]
    session: str | None = None
    profile: str | None = None

    def open(self) -> Session:
        """Open the session."""
        return connect(self.session, temporary=self.session is None, profile=self.profile)

    def begin(self, shell: GuidedShell) -> None:
        """Make the streams and regions, show the first stream on the map, and say what to type next."""
        opening = shell.session().plan_opening(self.words)
        for one in opening.files:
            shell.tell(f"{PROMPT}{one.text}")
            shell.execute(one.text)
        if opening.streams:
            shell.tell(pace_text(opening))
            shell.execute(f"MAP {identifier(opening.streams[0].name)};")
        shell.tell("What next?\n" + "\n".join(f"  {line}" for line in what_next(opening)))
        if self.session is None:
            shell.tell(f"This session is gone when you leave it; {program()} open -s NAME … keeps it.")

    def take(self, text: str, shell: GuidedShell) -> bool:
        """Take nothing of what is typed."""
        del text, shell
        return False


def run_open(words: Sequence[str], session: str | None = None, profile: str | None = None) -> int:
    """Open files and return the exit code.

    On a terminal a shell shows them. Elsewhere they are opened in the session that is named; without one, a
    script with what was found and what to type goes to standard output, and nothing is made.

    Raises:
        StqshError: the files cannot be opened.
    """
    guide = OpeningGuide(tuple(words), session, profile)
    if sys.stdin.isatty() and is_interactive(sys.stdout):
        return run_shell(ShellOptions(session, profile), guide)
    with guide.open() as opened:
        opening = opened.plan_opening(words)
        if session is None:
            print(script(opening))
            return 0
        for one in opening.files:
            for outcome in opened.execute(one.text):
                if isinstance(outcome, Message):
                    print_message(outcome.text)
    if opening.streams:
        print_message(pace_text(opening))
    return 0


def script(opening: Opening) -> str:
    """Return a script that makes what is opened, and says in comments what was found."""
    parts = []
    for one in opening.files:
        parts += [f"-- {one.name}: {one.kind}", *(f"-- {note}" for note in one.notes), one.text, ""]
    if opening.streams:
        parts += [f"-- {line}" for line in pace_text(opening).splitlines()]
    return "\n".join([*parts, "-- What next?", *(f"-- {line}" for line in what_next(opening))])


def pace_text(opening: Opening) -> str:
    """Return at which pace the streams play, for how long, and how to change it."""
    name = identifier(opening.streams[0].name)
    if opening.pace is None:
        return f"plays at 1x; PLAY {name} AT 10x; changes that"
    seconds = opening.seconds
    length = f"{seconds / 60:.0f} min" if seconds >= _LONG_S else f"{seconds:.0f} s"
    slower = pace(max(1.0, opening.pace / 10))
    return (
        f"plays at {pace(opening.pace)}, all of it in about {length}; PLAY {name} AT {slower}; changes that"
    )


def what_next(opening: Opening) -> list[str]:
    """Return statements to type next: a query in the middle of the first stream, an alert, an export."""
    if not opening.streams:
        return [f"SHOW REGIONS;   DESCRIBE {identifier(one.name)};" for one in opening.files]
    stream = opening.streams[0]
    name = identifier(stream.name)
    region = _middle(stream)
    inside = f" INSIDE RECT({region})" if region else ""
    return [
        f"REGISTER QUERY middle AS SELECT * FROM {name}{inside};",
        "CREATE ALERT come ON middle ENTER DO NOTIFY;",
        "TAIL middle;",
        f"MAP {name} middle;",
        f"\\o {stream.name}.geojson",
        f"SELECT * FROM {name};",
    ]


def _middle(stream: OpenedFile) -> str:
    """Return the corners of a rectangle in the middle of a stream's extent; "" where that is not known."""
    if stream.facts is None or stream.facts.extent is None:
        return ""
    x1, y1, x2, y2 = stream.facts.extent
    width, height = (x2 - x1) * _MIDDLE, (y2 - y1) * _MIDDLE
    corners = (x1 + width, y1 + height, x2 - width, y2 - height)
    return ", ".join(f"{corner:.6g}" for corner in corners)
