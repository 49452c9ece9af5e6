"""Aggregate values by region, which a map shades: answers of queries with GROUP BY REGION(…)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from stqsh.client.connection import Connection
from stqsh.client.map.region_outlines import RegionOutline, RegionOutlines
from stqsh.client.read.answer_fold import AnswerFold, read_on
from stqsh.client.read.group_keys import group_types, group_values
from stqsh.spec.aggregate import AggregateSpec, GroupOutput, shown_column
from stqsh.spec.expression import ColumnExpr, RegionOfExpr, find_nodes
from stqsh.storage.rows import QueryRow

Number: TypeAlias = int | float
_NUMBERS = ("INT", "BIGINT", "DOUBLE")


@dataclass(frozen=True, slots=True)
class ShadedRegion:
    """A region with its group's value; `share` is 0 for the least value, 1 for the greatest."""

    outline: RegionOutline
    value: Number
    share: float


@dataclass(frozen=True, slots=True)
class RegionShades:
    """The regions of one query that have a value.

    Attributes:
        column: the name of the column with the values.
        area: the id of the set of regions.
        least, most: the ends of the scale; the least is 0 if no value is negative and they differ enough.
        regions: in the order of their names.
    """

    column: str
    area: int
    least: Number
    most: Number
    regions: tuple[ShadedRegion, ...]


@dataclass
class GroupAnswers:
    """The answers of aggregate queries, folded from the update log as it grows."""

    connection: Connection
    _folds: dict[int, AnswerFold] = field(default_factory=dict, init=False)
    _after: dict[int, int] = field(default_factory=dict, init=False)

    def advance(self, queries: Iterable[QueryRow], up_to: int) -> None:
        """Read the batches up to a number, for those of the queries that have groups."""
        mine = [query for query in queries if query.spec.aggregates is not None]
        while behind := [query for query in mine if self._after.get(query.id, -1) < up_to]:
            after = min(self._after.get(query.id, -1) for query in behind)
            self._take([query for query in behind if self._after.get(query.id, -1) == after], after, up_to)

    def size(self, query: int) -> int:
        """Return the number of rows in an answer."""
        table = self._table(query)
        return 0 if table is None else table.num_rows

    def shades(self, query: QueryRow, outlines: RegionOutlines) -> RegionShades | None:
        """Return the values by region; None for a query that is not grouped by a set of regions alone."""
        area, output = shaded_area(query.spec.aggregates), _first_number(query.spec.aggregates)
        if area is None or output is None:
            return None
        number, column = output
        values = self._values(query, shown_column(number, column))
        least, most = scale(values.values())
        regions = tuple(
            ShadedRegion(outlines.of_member(area, name), value, _share(value, least, most))
            for name, value in sorted(values.items())
        )
        return RegionShades(column.name, area, least, most, regions)

    def _take(self, queries: list[QueryRow], after: int, up_to: int) -> None:
        """Fold in the updates of some queries."""
        folds = [self._folds.get(query.id, AnswerFold(query)) for query in queries]
        self._folds |= {fold.query.id: fold for fold in read_on(folds, self.connection, after, up_to)}
        self._after.update((query.id, up_to) for query in queries)

    def _table(self, query: int) -> pa.Table | None:
        return self._folds[query].answer if query in self._folds else None

    def _values(self, query: QueryRow, column: str) -> dict[str, Number]:
        """Return the value of each region that has one."""
        table = self._table(query.id)
        if table is None or not table.num_rows:
            return {}
        keys: Any = table.column("key").combine_chunks()
        [names] = group_values(keys, group_types(query))
        pairs = zip(names.to_pylist(), table.column(f"c.{column}").to_pylist(), strict=True)
        return {name: value for name, value in pairs if name is not None and value is not None}


def shaded_area(aggregates: AggregateSpec | None) -> int | None:
    """Return the id of the set of regions if a query is grouped by that set alone; None for other groups."""
    if aggregates is None or aggregates.distinct or len(aggregates.groups) != 1:
        return None
    [group] = aggregates.groups
    return group.value.area if isinstance(group.value, RegionOfExpr) else None


def _first_number(aggregates: AggregateSpec | None) -> tuple[int, GroupOutput] | None:
    """Return the position and definition of the answer's first numeric aggregate column; None without one."""
    for number, output in enumerate(aggregates.select if aggregates else ()):
        names = (column.name for column in find_nodes(output.value, ColumnExpr))
        if output.type in _NUMBERS and any(name.startswith("m") for name in names):
            return number, output
    return None


def scale(values: Iterable[Number]) -> tuple[Number, Number]:
    """Return the ends of a scale for values: from 0, unless some are negative or all are far from 0."""
    known = list(values)
    least, most = min(known, default=0), max(known, default=0)
    return (0 if 0 <= least <= most / 2 or 0 < least == most else least), most


def _share(value: Number, least: Number, most: Number) -> float:
    """Return the position of a value on a scale, 0 to 1."""
    if most <= least:
        return float(value != 0)
    return (value - least) / (most - least)
