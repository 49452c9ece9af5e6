"""The protocol of the output formats, and where a writer writes.

Data goes to the given binary stream and nowhere else, and is flushed after each value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol, TypeAlias

from stqsh.client import results
from stqsh.shell.terminal.capabilities import encode_for_terminal

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, Script, SnapshotMark, Updates

    Data: TypeAlias = Rows | Answer | Script


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


def write_data(writer: Writer, data: Data, statement: int) -> None:
    """Write what a statement answers; `statement` is its number in the script."""
    match data:
        case results.Rows():
            writer.rows(statement, data)
        case results.Answer():
            writer.answer(statement, data)
        case results.Script():
            writer.script(data.text)
