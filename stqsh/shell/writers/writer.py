"""The formats of language.md, "Output": one module a format, one protocol for all, one way to open them.

Data goes to the given binary stream and nowhere else, and is flushed after each value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol

from stqsh.shell.exit_codes import CommandLineError
from stqsh.shell.terminal.charset import drawn_bytes

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates

FORMATS = ("jsonl", "csv", "tsv", "geojson", "markdown", "table", "vertical")
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
        self.write(text.encode() if self.width is None else drawn_bytes(text))


def check_format(name: str) -> str:
    """The format's name if there is such a format; raises `CommandLineError` with a near name otherwise."""
    import difflib

    if name in FORMATS:
        return name
    if f".{name}" in COLUMNAR:
        raise CommandLineError(f"{name} is for files", hint=rf"--output FILE.{name}, or \o FILE.{name}")
    near = difflib.get_close_matches(name, FORMATS, n=1)
    hint = f"maybe you meant {near[0]}" if near else f"formats: {', '.join(FORMATS)}"
    raise CommandLineError(f"there is no format '{name}'", hint=hint)


def open_writer(name: str, target: Target) -> Writer:
    """A writer of the format called `name`; raises as `check_format`."""
    match check_format(name):
        case "jsonl":
            from stqsh.shell.writers.jsonl import JsonLinesWriter

            return JsonLinesWriter(target)
        case "geojson":
            from stqsh.shell.writers.geojson import GeoJsonWriter

            return GeoJsonWriter(target)
        case "markdown":
            from stqsh.shell.writers.markdown import MarkdownWriter

            return MarkdownWriter(target)
        case "table":
            from stqsh.shell.writers.update_table import TableWriter

            return TableWriter(target)
        case "vertical":
            from stqsh.shell.writers.vertical import VerticalWriter

            return VerticalWriter(target)
    from stqsh.shell.writers.csv_writer import CsvWriter

    return CsvWriter(target, "," if name == "csv" else "\t")
