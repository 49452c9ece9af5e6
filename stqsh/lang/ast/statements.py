"""Statements as the user wrote them: one frozen dataclass for each.

`parse` returns these, `to_sql` turns them back into text, and `bind` checks them against the catalogue. Every
statement knows the piece of source that it came from; comparisons ignore that and the spans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from stqsh.lang.ast.expressions import (
    Column,
    Expression,
    Literal,
    Name,
    Nearest,
    Node,
    Parameter,
    Quantity,
    Region,
)
from stqsh.lang.ast.statement import (
    AlertAction,
    ColumnDefinition,
    DataSource,
    DirectorySource,
    FileSource,
    FileTarget,
    GeneratorSource,
    HttpSource,
    HttpTarget,
    InsertsSource,
    KafkaSource,
    KafkaTarget,
    Options,
    SinkTarget,
    SocketSource,
    Statement,
    StdinSource,
)

__all__ = [
    "AlertAction",
    "ColumnDefinition",
    "CreateAlert",
    "CreateRegion",
    "CreateRegions",
    "CreateSink",
    "CreateStream",
    "CreateTable",
    "DataSource",
    "Describe",
    "DirectorySource",
    "Drop",
    "Dump",
    "Explain",
    "ExportDeadLetters",
    "FileSource",
    "FileTarget",
    "Follow",
    "GeneratorSource",
    "Help",
    "HttpSource",
    "HttpTarget",
    "Insert",
    "InsertsSource",
    "KafkaSource",
    "KafkaTarget",
    "Map",
    "ObjectKind",
    "Options",
    "OrderItem",
    "Pause",
    "PauseQuery",
    "Play",
    "Rebalance",
    "RegisterQueries",
    "RegisterQuery",
    "Relation",
    "Repartition",
    "ResumeQuery",
    "Run",
    "Select",
    "SelectItem",
    "SetSetting",
    "Show",
    "ShowQuery",
    "SinkTarget",
    "SocketSource",
    "Statement",
    "StdinSource",
    "Subscribe",
    "Tail",
    "ValueRow",
    "Watch",
]  # fmt: skip

ObjectKind = OneOf["STREAM", "TABLE", "REGION", "REGIONS", "QUERY", "SINK", "ALERT"]


# ---------------------------------------------------------------------------------------- definitions
@dataclass(frozen=True)
class CreateStream(Statement):
    """`CREATE MOVING|EVENT STREAM`: what was left out is None, or empty for the column list.

    `retain` is the word ALL or SIGNIFICANT.
    """

    kind: OneOf["moving", "event"]
    name: Name
    source: DataSource
    columns: tuple[ColumnDefinition, ...] = ()
    if_not_exists: bool = False
    key: Name | None = None
    location: tuple[Name, Name] | None = None
    time: Name | None = None
    text_column: Name | None = None
    bounds: tuple[float, float, float, float] | None = None
    geometry: OneOf["PLANAR", "GEODETIC"] | None = None
    tick: Quantity | None = None
    report_every: Quantity | None = None
    max_speed: Quantity | Literal | None = None
    order_by: OneOf["TIME", "ARRIVAL"] | None = None
    pace: float | OneOf["MAX"] | None = None
    keep: Quantity | OneOf["NONE"] | None = None
    retain: Name | None = None
    archive: Literal | None = None


@dataclass(frozen=True)
class CreateTable(Statement):
    """`CREATE TABLE name [(columns)] FROM source [KEY column]`."""

    name: Name
    source: DataSource
    columns: tuple[ColumnDefinition, ...] = ()
    key: Name | None = None
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateRegion(Statement):
    """`CREATE REGION name AS region`."""

    name: Name
    region: Region
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateRegions(Statement):
    """`CREATE REGIONS name FROM FILE 'glob' [NAME column]`."""

    name: Name
    source: DataSource
    name_column: Name | None = None
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateSink(Statement):
    """`CREATE SINK name FOR q1, q2 | ALL TO target`; without queries it is for all."""

    name: Name
    queries: tuple[Name, ...]
    target: SinkTarget
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateAlert(Statement):
    """`CREATE ALERT name ON query [ENTER | LEAVE] [EVERY d] DO action`."""

    name: Name
    query: Name
    action: AlertAction
    edge: OneOf["ENTER", "LEAVE"] | None = None
    every: Quantity | None = None
    if_not_exists: bool = False


@dataclass(frozen=True)
class Drop(Statement):
    """`DROP STREAM|TABLE|REGION|REGIONS|QUERY|SINK|ALERT [IF EXISTS] name`."""

    kind: ObjectKind
    name: Name
    if_exists: bool = False


@dataclass(frozen=True)
class ValueRow(Node):
    """The values of one record in INSERT INTO."""

    values: tuple[Expression, ...]


@dataclass(frozen=True)
class Insert(Statement):
    """`INSERT INTO stream [(columns)] VALUES (…), …`; without a list, the values are those of all columns."""

    stream: Name
    rows: tuple[ValueRow, ...]
    columns: tuple[Name, ...] = ()


# -------------------------------------------------------------------------------------------- queries
@dataclass(frozen=True)
class SelectItem(Node):
    """One column of a select list."""

    expression: Expression
    alias: str | None = None


@dataclass(frozen=True)
class Relation(Node):
    """A stream or a table in FROM."""

    name: str
    alias: str | None = None


@dataclass(frozen=True)
class OrderItem(Node):
    """One expression of ORDER BY."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Select(Statement):
    """`SELECT …`: a snapshot by itself, or the body of a continuous query."""

    items: tuple[SelectItem, ...]
    relations: tuple[Relation, ...]
    distinct: bool = False
    where: Expression | None = None
    region: Region | None = None
    nearest: Nearest | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order_by: tuple[OrderItem, ...] = ()
    limit: int | None = None
    window: Quantity | None = None
    slide: Quantity | None = None
    sync: Quantity | None = None


@dataclass(frozen=True)
class RegisterQuery(Statement):
    """`REGISTER QUERY name [SINCE NOW] [FOR d] [WITH (…)] AS SELECT …`."""

    name: Name
    select: Select
    since_now: bool = False
    duration: Quantity | None = None
    options: Options = ()


@dataclass(frozen=True)
class RegisterQueries(Statement):
    """`REGISTER QUERIES [FROM FILE 'glob'] [KEY column] [FOR d] [WITH (…)] AS SELECT …`.

    It registers a query for each row. `source` is None where `Session.register_many` supplies the rows.
    """

    select: Select
    source: DataSource | None = None
    key: Name | None = None
    since_now: bool = False
    duration: Quantity | None = None
    options: Options = ()


@dataclass(frozen=True)
class Subscribe(Statement):
    """`SUBSCRIBE SELECT …`; a bare `SELECT … SYNC d` remains a Select, to be treated as one of these."""

    select: Select


@dataclass(frozen=True)
class Explain(Statement):
    """`EXPLAIN [ANALYZE] SELECT …`, or `EXPLAIN [ANALYZE] [QUERY] name` of a registered query."""

    select: Select | None = None
    analyze: bool = False
    query: Name | None = None


# -------------------------------------------------------------------------------------------- running
@dataclass(frozen=True)
class Run(Statement):
    """`RUN`, `RUN UNTIL 'time'`, `RUN FOR d` or `RUN n STEPS`."""

    until: Literal | None = None
    duration: Quantity | None = None
    steps: int | None = None


@dataclass(frozen=True)
class Play(Statement):
    """`PLAY stream [AT 10x | AT MAX]`."""

    stream: Name
    pace: float | OneOf["MAX"] | None = None


@dataclass(frozen=True)
class Pause(Statement):
    """`PAUSE stream`."""

    stream: Name


@dataclass(frozen=True)
class PauseQuery(Statement):
    """`PAUSE QUERY name`."""

    name: Name


@dataclass(frozen=True)
class ResumeQuery(Statement):
    """`RESUME QUERY name`."""

    name: Name


@dataclass(frozen=True)
class Tail(Statement):
    """`TAIL name [FROM START | FROM STEP n] [ONLY + | ONLY -] [WHERE c] [LIMIT n]`; FROM START is step 0."""

    name: Name
    from_step: int | None = None
    only: OneOf["+", "-"] | None = None
    where: Expression | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Follow(Statement):
    """`FOLLOW id [IN stream]`."""

    key: Literal | Parameter
    stream: Name | None = None


# ------------------------------------------------------------------------------------- administration
@dataclass(frozen=True)
class Show(Statement):
    """`SHOW STATUS` and similar; `what` is in capitals, with one space between words."""

    what: str


@dataclass(frozen=True)
class ShowQuery(Statement):
    """`SHOW QUERY name`."""

    name: Name


@dataclass(frozen=True)
class Describe(Statement):
    """`DESCRIBE name`."""

    name: Name


@dataclass(frozen=True)
class Repartition(Statement):
    """`REPARTITION [stream] USING strategy [INTO n SLOTS]`."""

    strategy: str
    stream: Name | None = None
    slots: Literal | None = None


@dataclass(frozen=True)
class Rebalance(Statement):
    """`REBALANCE [stream] [USING strategy]`."""

    stream: Name | None = None
    strategy: str | None = None


@dataclass(frozen=True)
class SetSetting(Statement):
    """`SET key = value`; a bare word as the value is a Column."""

    key: Name
    value: Literal | Quantity | Column


@dataclass(frozen=True)
class Watch(Statement):
    """`WATCH q1, q2`."""

    names: tuple[Name, ...]


@dataclass(frozen=True)
class Map(Statement):
    """`MAP [stream] [q1, …] [TO 'file.html']`; the binder decides which of the two a single name is."""

    stream: Name | None = None
    queries: tuple[Name, ...] = ()
    file: str | None = None


@dataclass(frozen=True)
class Help(Statement):
    """`HELP [statement]`; `topic` is in capitals, with one space between words; empty for all."""

    topic: str = ""


@dataclass(frozen=True)
class Dump(Statement):
    """`DUMP`."""


@dataclass(frozen=True)
class ExportDeadLetters(Statement):
    """`EXPORT DEAD LETTERS [OF name] TO 'file'`; the name is that of a stream or table, None for all."""

    name: Name | None
    file: Literal
