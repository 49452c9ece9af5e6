"""The formats of language.md section 6: one module a format, one protocol for all, one way to open them.

Data goes to the given binary stream and nowhere else, and is flushed after each value.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol, TypeAlias

from stqsh.client import results
from stqsh.errors import CommandLineError
from stqsh.settings import FORMATS
from stqsh.shell.terminal.capabilities import encode_for_terminal

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, Script, SnapshotMark, Updates

    Data: TypeAlias = Rows | Answer | Script

SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".geojson": "geojson",
    ".geojsonl": "geojson",
    ".md": "markdown",
}
"""The format that a file's name asks for."""
COLUMNAR = (".arrow", ".parquet")
"""Files that are tables as a whole; see `stqsh.shell.writers.arrow_files`."""


class Writer(Protocol):
    """Renders what statements answer. `statement` numbers count from 1 within the script."""

    def updates(self, updates: Updates) -> None:
        """Show updates, in the order in which they come."""

    def mark(self, mark: SnapshotMark) -> None:
        """Show where the answer with which a TAIL begins starts or ends."""

    def rows(self, statement: int, rows: Rows) -> None:
        """Show the rows of a SHOW or DESCRIBE."""

    def answer(self, statement: int, answer: Answer) -> None:
        """Show the rows of a snapshot SELECT."""

    def script(self, text: str) -> None:
        """Show a script as it is."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a writer writes: `one_query` says that the updates of a single query are to be shown.

    `colour` and `width` (characters) are what a table may use.
    """

    stream: IO[bytes]
    one_query: bool = False
    colour: bool = False
    width: int | None = None

    def write(self, data: bytes) -> None:
        """Write and flush: a reader at the other end of a pipe sees each batch at once."""
        self.stream.write(data)
        self.stream.flush()

    def draw(self, text: str) -> None:
        """Write text for eyes: on a terminal in its own characters, elsewhere in UTF-8."""
        self.write(text.encode() if self.width is None else encode_for_terminal(text))


def check_format(name: str) -> str:
    """The format's name if there is such a format; raises `CommandLineError` with a near name otherwise."""
    if name in FORMATS:
        return name
    if f".{name}" in COLUMNAR:
        raise CommandLineError(f"{name} is for files", hint=rf"--output FILE.{name}, or \o FILE.{name}")
    near = difflib.get_close_matches(name, FORMATS, n=1)
    hint = f"maybe you meant {near[0]}" if near else f"formats: {', '.join(FORMATS)}"
    raise CommandLineError(f"there is no format '{name}'", hint=hint)


def open_writer(name: str, target: Target) -> Writer:
    """Return a writer of the format called `name`; raises as `check_format`."""
    from stqsh.shell.writers.formats import WRITERS

    return WRITERS[check_format(name)](target)


def write_data(writer: Writer, data: Data, statement: int) -> None:
    """Write what a statement answers; `statement` is its number in the script."""
    match data:
        case results.Rows():
            writer.rows(statement, data)
        case results.Answer():
            writer.answer(statement, data)
        case results.Script():
            writer.script(data.text)
