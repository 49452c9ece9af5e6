"""Statements that create and drop objects, and fill them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from stqsh.lang.ast.expressions import Expression, Literal, Name, Node, Quantity, Region
from stqsh.lang.ast.statement import AlertAction, ColumnDefinition, DataSource, SinkTarget, Statement

ObjectKind = OneOf[
    "STREAM", "TABLE", "REGION", "REGIONS", "QUERY", "QUERIES", "SINK", "ALERT", "VIEW", "FUNCTION"
]
"""The word of DROP; QUERIES is a query stream."""
PLURALS: dict[ObjectKind, str] = {
    "STREAM": "STREAMS",
    "TABLE": "TABLES",
    "REGION": "REGIONS",
    "VIEW": "VIEWS",
    "FUNCTION": "FUNCTIONS",
    "QUERY": "QUERIES",
    "SINK": "SINKS",
    "ALERT": "ALERTS",
}
"""The plural words of object kinds, as used in SHOW and DROP … LIKE."""


class WithColumns:
    """A statement with a list of columns."""

    columns: tuple[ColumnDefinition, ...]

    @property
    def listed(self) -> tuple[ColumnDefinition, ...]:
        """The columns of the source that are listed; without any, the source tells its columns."""
        return tuple(column for column in self.columns if column.value is None)

    @property
    def derived(self) -> tuple[ColumnDefinition, ...]:
        """The columns that are computed from others."""
        return tuple(column for column in self.columns if column.value is not None)


@dataclass(frozen=True)
class Kept(Node):
    """What `KEEP 1 day, 2 GB` asks for: a duration, a size, or both."""

    time: Quantity | None
    size: Quantity | None


@dataclass(frozen=True)
class CreateStream(WithColumns, Statement):
    """`CREATE MOVING|EVENT STREAM`: omitted parts are None, or empty for the column list.

    `extent` is the column of `LOCATION (shape)`. `retain` is the word ALL or SIGNIFICANT. `columns` includes
    derived ones.
    """

    kind: OneOf["moving", "event"]
    name: Name
    source: DataSource
    columns: tuple[ColumnDefinition, ...] = ()
    if_not_exists: bool = False
    key: Name | None = None
    location: tuple[Name, Name] | None = None
    extent: Name | None = None
    time: Name | None = None
    text_column: Name | None = None
    bounds: tuple[float, float, float, float] | None = None
    grid: Literal | None = None
    geometry: OneOf["PLANAR", "GEODETIC"] | None = None
    tick: Quantity | None = None
    report_every: Quantity | None = None
    max_speed: Quantity | Literal | None = None
    order_by: OneOf["TIME", "ARRIVAL"] | None = None
    pace: float | OneOf["MAX"] | None = None
    keep: Kept | OneOf["NONE"] | None = None
    retain: Name | None = None
    archive: Literal | None = None


@dataclass(frozen=True)
class CreateTable(WithColumns, Statement):
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
    """`CREATE SINK name FOR q1, q2 | ALL TO target`; no queries means all."""

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
    """`DROP STREAM|TABLE|REGION|REGIONS|VIEW|QUERY|SINK|ALERT [IF EXISTS] name, …`, `DROP QUERIES LIKE 'x%'`.

    REGION with a pattern also applies to sets of regions.
    """

    kind: ObjectKind
    names: tuple[Name, ...] = ()
    if_exists: bool = False
    like: Literal | None = None


@dataclass(frozen=True)
class Parameters(Node):
    """The parameters of a function: a name and a type for each, "" for no type."""

    names: tuple[str, ...]
    types: tuple[str, ...]


@dataclass(frozen=True)
class CreateFunction(Statement):
    """`CREATE FUNCTION [IF NOT EXISTS] name (parameter [type], …) [RETURNS type] FROM 'file.py' | AS 'code'`.

    `code` is the path of the file if `is_file`, or else the Python code itself.
    """

    name: Name
    parameters: Parameters
    code: Literal
    is_file: bool
    returns: Name | None = None
    if_not_exists: bool = False


@dataclass(frozen=True)
class ValueRow(Node):
    """The values of one record in an INSERT INTO."""

    values: tuple[Expression, ...]


@dataclass(frozen=True)
class Insert(Statement):
    """`INSERT INTO stream [(columns)] VALUES (…), …`; without a list, there is a value for each column."""

    stream: Name
    rows: tuple[ValueRow, ...]
    columns: tuple[Name, ...] = ()
