"""Statements about the session: its clock, its settings, and what it can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from stqsh.lang.ast.expressions import Column, Literal, Name, Quantity
from stqsh.lang.ast.statement import Statement


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
class Show(Statement):
    """`SHOW STATUS`, `SHOW QUERIES LIKE 'pattern'`, `SHOW CELLS stream`.

    `what` is in capitals, with one space between words.
    """

    what: str
    like: Literal | None = None
    stream: Name | None = None


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
    """`SET key = value`; a value that is a bare word is a Column."""

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
    """`HELP [statement]`; `topic` is in capitals, with one space between words; None for all."""

    topic: Name | None = None


@dataclass(frozen=True)
class Dump(Statement):
    """`DUMP`."""


@dataclass(frozen=True)
class ExportDeadLetters(Statement):
    """`EXPORT DEAD LETTERS [OF name] TO 'file'`; the name is a stream's or a table's, None for all."""

    name: Name | None
    file: Literal


@dataclass(frozen=True)
class Save(Statement):
    """`SAVE TO 'uri'`."""

    uri: Literal
