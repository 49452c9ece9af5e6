"""Aggregates of a query: its groups, its measures, and its output columns (language.md section 7).

The expressions of `select`, `having` and `order` read the columns of a group: `g0`, `g1`, … are the values of
its groups, `m0`, `m1`, … those of its measures.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from stqsh.spec.expression import ColumnExpr, Expr, NowExpr, has_node

MeasureFunction: TypeAlias = Literal["count", "distinct", "sum", "avg", "min", "max", "topk"]
OutputType: TypeAlias = str
"""The type of an aggregate's output column: a stream's column type, or TOPK, terms with their counts."""


class GroupColumn(msgspec.Struct, frozen=True, array_like=True):
    """An expression of GROUP BY over a record, and its type."""

    value: Expr
    type: str


class Measure(msgspec.Struct, frozen=True, array_like=True):
    """An aggregate function of the records of a group.

    Attributes:
        function: COUNT(*) is "count" without an argument, COUNT(DISTINCT x) is "distinct".
        argument: the expression over a record, None for COUNT(*).
        argument_type: its type; BIGINT for COUNT(*).
        k: the number of terms of TOPK.
    """

    function: MeasureFunction
    argument: Expr | None = None
    argument_type: str = "BIGINT"
    k: int = 0

    @property
    def type(self) -> OutputType:
        """The type of the measure's value."""
        match self.function:
            case "count" | "distinct":
                return "BIGINT"
            case "sum":
                return "BIGINT" if self.argument_type in ("INT", "BIGINT") else "DOUBLE"
            case "avg":
                return "DOUBLE"
            case "min" | "max":
                return self.argument_type
        return "TOPK"


class GroupOutput(msgspec.Struct, frozen=True, array_like=True):
    """A column of the answer: its name, its expression over a group's columns, and its type."""

    name: str
    value: Expr
    type: OutputType


class GroupOrder(msgspec.Struct, frozen=True, array_like=True):
    """An expression of ORDER BY over a group's columns; NULLs come last unless NULLS FIRST is given."""

    value: Expr
    is_descending: bool
    nulls_first: bool = False


class AggregateSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The aggregation of a query's members; a query without GROUP BY has one group, which always exists.

    Attributes:
        error: the maximum overcount of TOPK, as a share of a group's records; 0 for exact counts.
        distinct: whether groups that show equal values are one row of the answer; ORDER BY then reads only
            what is shown.
    """

    groups: tuple[GroupColumn, ...] = ()
    measures: tuple[Measure, ...] = ()
    select: tuple[GroupOutput, ...] = ()
    having: Expr | None = None
    order: tuple[GroupOrder, ...] = ()
    limit: int | None = None
    error: float = 0.0
    distinct: bool = False

    @property
    def key_types(self) -> tuple[str, ...]:
        """The types of the values that identify a row: its groups, or with `distinct` all it shows."""
        if not self.distinct:
            return tuple(group.type for group in self.groups)
        return tuple("STRING" if one.type == "TOPK" else one.type for one in self.select)

    @property
    def over_records(self) -> list[Expr | None]:
        """The expressions over records."""
        return [*(group.value for group in self.groups), *(measure.argument for measure in self.measures)]

    @property
    def values(self) -> tuple[Expr, ...]:
        """The expressions over records, each once, without the missing argument of COUNT(*)."""
        return tuple(dict.fromkeys(expr for expr in self.over_records if expr is not None))

    @property
    def over_groups(self) -> list[Expr | None]:
        """The expressions over groups."""
        return [*(one.value for one in self.select), self.having, *(one.value for one in self.order)]

    @property
    def heeds_time(self) -> bool:
        """Whether expressions over groups read NOW, so that rows change with time."""
        return any(has_node(expr, NowExpr) for expr in self.over_groups)


def group_column(number: int) -> ColumnExpr:
    """Return the expression for the value of a group."""
    return ColumnExpr(f"g{number}")


def measure_column(number: int) -> ColumnExpr:
    """Return the expression for the value of a measure."""
    return ColumnExpr(f"m{number}")


def shown_column(number: int, output: GroupOutput) -> str:
    """Return a select column's name in the log: by position and type, so that tables can be concatenated."""
    return f"s{number}:{output.type}"
