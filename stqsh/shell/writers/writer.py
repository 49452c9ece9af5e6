"""The output formats: their names, the protocol of their writers, and the target of a writer.

Data is written only to the given binary stream, which is flushed after each value.
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
"""The format of a file name, by its suffix."""
PLAIN = (".txt", ".log", ".out", ".stq", ".sql")
"""Endings of files for any format."""
COLUMNAR = (".arrow", ".parquet")
"""Endings of files of whole tables; see `stqsh.shell.writers.arrow_files`."""


def check_format(name: str) -> str:
    """Return the name of a format.

    Raises:
        CommandLineError: There is no such format; the hint has a similar name.
    """
    if name in FORMATS:
        return name
    if f".{name}" in COLUMNAR:
        raise CommandLineError(f"{name} is for files", hint=rf"--output FILE.{name}, or \o FILE.{name}")
    near = difflib.get_close_matches(name, FORMATS, n=1)
    hint = f"maybe you meant {near[0]}" if near else f"formats: {', '.join(FORMATS)}"
    raise CommandLineError(f"there is no format '{name}'", hint=hint)


class Writer(Protocol):
    """Renders the outcomes of statements. `statement` numbers count from 1 within the script."""

    def updates(self, updates: Updates) -> None:
        """Write updates in their order."""

    def mark(self, mark: SnapshotMark) -> None:
        """Write a mark at the beginning or end of a TAIL's initial answer."""

    def rows(self, statement: int, rows: Rows) -> None:
        """Write the rows of a SHOW or DESCRIBE."""

    def answer(self, statement: int, answer: Answer) -> None:
        """Write the rows of a snapshot SELECT."""

    def script(self, text: str) -> None:
        """Write a script unchanged."""


class ByteSink(Protocol):
    """The part of a binary stream's interface that a `Target` needs."""

    def write(self, data: bytes, /) -> object:
        """Write bytes."""

    def flush(self) -> object:
        """Flush the buffer."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a writer.

    Attributes:
        stream: The stream of bytes.
        one_query: Whether only updates of a single query can arrive.
        colour: Whether tables may use colours.
        width: The maximum width of tables on a terminal; None elsewhere.
    """

    stream: ByteSink
    one_query: bool = False
    colour: bool = False
    width: int | None = None

    def write(self, data: bytes) -> None:
        """Write and flush, so that the reader of a pipe sees each batch immediately."""
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
        """Write text for people: on a terminal in its character set, elsewhere in UTF-8."""
        self.write(text.encode() if self.width is None else encode_for_terminal(text))

    def style(self, line: str, style: str) -> str:
        """Return the line in a style (a control code) if colours may be used."""
        return f"{style}{line}{RESET}" if self.colour else line
