"""The base class of statements, and the column definitions and sources that statements contain."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Literal as OneOf

from stqsh.lang.ast.expressions import Expression, Literal, Node, Quantity
from stqsh.lang.ast.source import Piece, Source, Span

_NO_PIECE = Piece(Source(""), 0, "")
Options = tuple[tuple[str, Literal | Quantity], ...]


@dataclass(frozen=True, kw_only=True)
class Statement(Node):
    """The base of statements: the piece of source that contains the statement, and its `FORMAT x`, if any."""

    piece: Piece = field(default=_NO_PIECE, compare=False, repr=False)
    format: str | None = None

    @property
    def text(self) -> str:
        """The statement as typed, without its semicolon."""
        return self.piece.text

    @property
    def line(self) -> int:
        """The line on which it begins, from 1."""
        return self.piece.line

    @property
    def column(self) -> int:
        """The column at which it begins, from 1."""
        return self.piece.column

    def option_name(self, name: str, value: Span) -> Span:
        """Return the position of an option's name in the statement, which directly precedes its value."""
        pattern = re.compile(rf"{re.escape(name)}(?=\"?\s*=>\s*$)", re.IGNORECASE)
        found = pattern.search(self.text, 0, value.start)
        return value if found is None else Span(*found.span())


def statement_fields(kind: type[Statement]) -> tuple[str, ...]:
    """Return the names of a statement's own fields, in their order."""
    return tuple(one.name for one in fields(kind) if not one.kw_only)


@dataclass(frozen=True)
class ColumnDefinition(Node):
    """`oid STRING [AS expression]`; `type` is one of the normalised type names."""

    name: str
    type: str
    value: Expression | None = None


@dataclass(frozen=True)
class FileSource(Node):
    """`FILE 'glob' [FORMAT format [(options)]]`; the format is in lower case."""

    glob: str
    format: str | None = None
    options: Options = ()


@dataclass(frozen=True)
class KafkaSource(Node):
    """`KAFKA 'brokers' TOPIC 'topic', … [FROM EARLIEST | LATEST | TIMESTAMP '…'] [FORMAT …]`.

    `start` is EARLIEST or LATEST, or the text of a time; None if omitted.
    """

    brokers: str
    topics: tuple[str, ...]
    start: str | None = None
    format: str | None = None
    options: Options = ()


@dataclass(frozen=True)
class StdinSource(Node):
    """`STDIN [FORMAT …]`."""

    format: str | None = None
    options: Options = ()


@dataclass(frozen=True)
class SocketSource(Node):
    """`SOCKET 'host:port' [FORMAT …]`."""

    address: str
    format: str | None = None
    options: Options = ()


@dataclass(frozen=True)
class DirectorySource(Node):
    """`DIRECTORY 'dir' [FORMAT …]`."""

    path: str
    format: str | None = None
    options: Options = ()


@dataclass(frozen=True)
class InsertsSource(Node):
    """`INSERTS [FORMAT …]`."""

    format: str | None = None
    options: Options = ()


@dataclass(frozen=True)
class HttpSource(Node):
    """`HTTP PORT n [FORMAT …]`."""

    port: int
    format: str | None = None
    options: Options = ()


@dataclass(frozen=True)
class GeneratorSource(Node):
    """`GENERATOR 'name' [(options)]`."""

    name: str
    options: Options = ()


@dataclass(frozen=True)
class FileTarget(Node):
    """`FILE 'dir' FORMAT format`; the format is in lower case."""

    folder: str
    format: OneOf["parquet", "jsonl", "csv"]


@dataclass(frozen=True)
class HttpTarget(Node):
    """`HTTP 'url'`."""

    url: str


@dataclass(frozen=True)
class KafkaTarget(Node):
    """`KAFKA 'brokers' TOPIC 'topic' [AS UPDATES | ANSWERS]`."""

    brokers: str
    topic: str
    mode: OneOf["updates", "answers"] = "updates"


@dataclass(frozen=True)
class AlertAction(Node):
    """`NOTIFY ['text']`, `BELL ['text']`, `RUN 'command' [WITH 'text']` or `POST 'url' [WITH 'text']`.

    `text` is the command or the address, `template` the text that is shown or sent.
    """

    kind: OneOf["notify", "bell", "run", "post"]
    text: str = ""
    template: Literal | None = None


SinkTarget = FileTarget | HttpTarget | KafkaTarget
LiveDataSource = KafkaSource | StdinSource | SocketSource | DirectorySource | InsertsSource | HttpSource
DataSource = FileSource | GeneratorSource | LiveDataSource
