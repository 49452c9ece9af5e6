"""The output formats: their names, the protocol of their writers, and where a writer writes.

Data goes to the given binary stream and nowhere else, and is flushed after each value.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from stqsh.control_characters import escape_controls, has_controls
from stqsh.errors import CommandLineError
from stqsh.settings import FORMATS
from stqsh.shell.terminal.capabilities import RESET, encode_for_terminal

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates

SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".geojson": "geojson",
    ".geojsonl": "geojson",
    ".md": "markdown",
}
"""The format that a file name asks for, by its suffix."""
PLAIN = (".txt", ".log", ".out", ".stq", ".sql")
"""Endings of files that may hold any format."""
COLUMNAR = (".arrow", ".parquet")
"""Files that are tables as a whole; see `stqsh.shell.writers.arrow_files`."""


def check_format(name: str) -> str:
    """Return the name of a format.

    Raises:
        CommandLineError: There is no such format; the hint is a similar name.
    """
    if name in FORMATS:
        return name
    if f".{name}" in COLUMNAR:
        raise CommandLineError(f"{name} is for files", hint=rf"--output FILE.{name}, or \o FILE.{name}")
    near = difflib.get_close_matches(name, FORMATS, n=1)
    hint = f"maybe you meant {near[0]}" if near else f"formats: {', '.join(FORMATS)}"
    raise CommandLineError(f"there is no format '{name}'", hint=hint)


class Writer(Protocol):
    """Renders what statements answer. `statement` numbers count from 1 within the script."""

    def updates(self, updates: Updates) -> None:
        """Write updates in their order."""

    def mark(self, mark: SnapshotMark) -> None:
        """Write where the answer with which a TAIL starts begins or ends."""

    def rows(self, statement: int, rows: Rows) -> None:
        """Write the rows of a SHOW or DESCRIBE."""

    def answer(self, statement: int, answer: Answer) -> None:
        """Write the rows of a snapshot SELECT."""

    def script(self, text: str) -> None:
        """Write a script unchanged."""


class ByteSink(Protocol):
    """As much of a binary stream as a `Target` needs."""

    def write(self, data: bytes, /) -> object:
        """Write bytes."""

    def flush(self) -> object:
        """Send what is buffered."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a writer writes.

    Attributes:
        stream: What takes the bytes.
        one_query: Whether only the updates of a single query can come.
        colour: Whether tables may use colours.
        width: The columns that tables may take on a terminal; None elsewhere.
    """

    stream: ByteSink
    one_query: bool = False
    colour: bool = False
    width: int | None = None

    def write(self, data: bytes) -> None:
        """Write and flush: a reader at the other end of a pipe sees each batch at once."""
        self.stream.write(data)
        self.stream.flush()

    def write_script(self, text: str) -> None:
        """Write a script, with a newline at its end."""
        self.draw(self.shown([text.removesuffix("\n")], keep="\t\n")[0] + "\n")

    def shown(self, values: list[str], keep: str) -> list[str]:
        """Return texts with control characters escaped on a terminal, and unchanged elsewhere."""
        if self.width is None or not has_controls("".join(values)):
            return values
        return [escape_controls(value, keep) for value in values]

    def draw(self, text: str) -> None:
        """Write text for people: on a terminal in its own characters, elsewhere in UTF-8."""
        self.write(text.encode() if self.width is None else encode_for_terminal(text))

    def style(self, line: str, style: str) -> str:
        """Return the line in a style (a control code) where colours may be used."""
        return f"{style}{line}{RESET}" if self.colour else line
