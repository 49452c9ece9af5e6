"""Statements that query: snapshots, continuous queries, and statements that show their updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

from stqsh.lang.ast.expressions import Expression, Literal, Name, Nearest, Node, Parameter, Quantity, Region
from stqsh.lang.ast.statement import DataSource, FileSource, Options, Statement


@dataclass(frozen=True)
class SelectItem(Node):
    """One column of a select list."""

    expression: Expression
    alias: str | None = None


@dataclass(frozen=True)
class Relation(Node):
    """A stream or a table in FROM, or a file, whose glob is the name."""

    name: str
    alias: str | None = None
    file: FileSource | None = None


@dataclass(frozen=True)
class OrderItem(Node):
    """One expression of ORDER BY."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Select(Statement):
    """`SELECT …`: a snapshot on its own, or the body of a continuous query."""

    items: tuple[SelectItem, ...]
    relations: tuple[Relation, ...]
    distinct: bool = False
    where: Expression | None = None
    region: Region | None = None
    intersects: Region | None = None
    nearest: Nearest | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order_by: tuple[OrderItem, ...] = ()
    limit: int | None = None
    window: Quantity | None = None
    slide: Quantity | None = None
    sync: Quantity | None = None
    options: Options = ()


@dataclass(frozen=True)
class CreateView(Statement):
    """`CREATE VIEW [IF NOT EXISTS] name AS SELECT …`."""

    name: Name
    select: Select
    if_not_exists: bool = False


@dataclass(frozen=True)
class RegisterQuery(Statement):
    """`REGISTER QUERY name [SINCE NOW] [FOR d] [WITH (…)] AS SELECT …`.

    Thousands of them may be alike: the parser then leaves out `select` until somebody reads it, see
    `stqsh.lang.syntax.forms`.
    """

    name: Name
    select: Select
    since_now: bool = False
    duration: Quantity | None = None
    options: Options = ()

    def __getattr__(self, field: str) -> Any:
        if field != "select":
            raise AttributeError(field)
        from stqsh.lang.syntax.parse import parse_whole  # it imports this module

        whole = parse_whole(self.piece)
        assert isinstance(whole, RegisterQuery), "a text of this form registers a query"
        self.__dict__["select"] = whole.select
        return whole.select


@dataclass(frozen=True)
class RegisterQueries(Statement):
    """`REGISTER QUERIES [name] [FROM source] [KEY column] [FOR d] [WITH (…)] AS SELECT …`.

    It registers a query for each row. With a live source it makes a query stream, which has a name. `source`
    is None if `Session.register_many` supplies the rows.
    """

    select: Select
    name: Name | None = None
    source: DataSource | None = None
    key: Name | None = None
    since_now: bool = False
    duration: Quantity | None = None
    options: Options = ()


@dataclass(frozen=True)
class Subscribe(Statement):
    """`SUBSCRIBE SELECT …`; a bare `SELECT … SYNC d` is parsed as a Select, but treated like a Subscribe."""

    select: Select


@dataclass(frozen=True)
class Explain(Statement):
    """`EXPLAIN [ANALYZE] SELECT …`, or `EXPLAIN [ANALYZE] [QUERY] name` of a registered query."""

    select: Select | None = None
    analyze: bool = False
    query: Name | None = None


@dataclass(frozen=True)
class PauseQuery(Statement):
    """`PAUSE QUERY name`."""

    name: Name


@dataclass(frozen=True)
class ResumeQuery(Statement):
    """`RESUME QUERY name`."""

    name: Name


@dataclass(frozen=True)
class AlterQuery(Statement):
    """`ALTER QUERY name [INSIDE region | NEAREST k TO place] [WHERE condition]`, one of them at least."""

    name: Name
    region: Region | None = None
    nearest: Nearest | None = None
    where: Expression | None = None


@dataclass(frozen=True)
class Tail(Statement):
    """`TAIL name [FROM START | FROM STEP n | FROM 'time' | SINCE d] [ONLY + | ONLY -] [WHERE c] [LIMIT n]`.

    FROM START is step 0.
    """

    name: Name
    begin: int | Literal | Quantity | None = None
    only: OneOf["+", "-"] | None = None
    where: Expression | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Follow(Statement):
    """`FOLLOW id [IN stream]`."""

    key: Literal | Parameter
    stream: Name | None = None


@dataclass(frozen=True)
class ShowQuery(Statement):
    """`SHOW QUERY name`."""

    name: Name
