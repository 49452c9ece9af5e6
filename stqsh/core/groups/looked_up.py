"""Regions and joined columns in aggregates over the nearest.

Aggregate, where the k nearest of all slots are known, has neither tables nor regions. A slot that offers a
candidate therefore sends what it looks up for it, as one key of `stqsh.core.aggregates.keys`, and Aggregate
reads it as further columns of the candidate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from stqsh.core.aggregates.keys import canonical, decode_keys, encode_keys
from stqsh.core.conditions.evaluation import columns_read, compute
from stqsh.core.groups.group_deltas import RecordColumns
from stqsh.core.groups.group_store import whole
from stqsh.core.state.joined_tables import JoinedTables
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.expression import ColumnExpr, Expr, InsideExpr, JoinExpr, RegionOfExpr, rewrite

Array = npt.NDArray[Any]

_MARK = "\0"
"""The first character of the columns that are looked up; no declared column begins with it."""


class SeparatedSpec(NamedTuple):
    """What a query computes, with a column for each thing that it looks up, and these in order."""

    spec: AggregateSpec
    lookups: tuple[Expr, ...]


def separated(spec: AggregateSpec, tables: JoinedTables) -> SeparatedSpec:
    """Separate what a query looks up from what it computes; `tables` gives the types of joined columns."""
    found: dict[Expr, ColumnExpr] = {}

    def column_for(node: Expr) -> Expr | None:
        if not isinstance(node, RegionOfExpr | InsideExpr | JoinExpr):
            return None
        name = f"{_MARK}{len(found)}:{_type(node, tables)}"
        return found.setdefault(node, ColumnExpr(name))

    groups = tuple(replace(group, value=rewrite(group.value, column_for)) for group in spec.groups)
    measures = tuple(
        one if one.argument is None else replace(one, argument=rewrite(one.argument, column_for))
        for one in spec.measures
    )
    return SeparatedSpec(replace(spec, groups=groups, measures=measures), tuple(found))


def lookup_keys(lookups: tuple[Expr, ...], records: RecordColumns, versions: Array) -> pa.BinaryArray:
    """Return what is looked up for versions, a key each."""
    resolver = records.resolver
    names = {name for expr in lookups for name in columns_read(expr, resolver.location)}
    columns = records.columns(sorted(names), versions)
    return encode_keys([canonical(whole(compute(expr, columns, 0, resolver))) for expr in lookups])


def is_looked_up(name: str) -> bool:
    """Return whether a column is one that is looked up."""
    return name.startswith(_MARK)


def lookup_columns(names: Iterable[str], keys: Any) -> dict[str, pa.Array[Any]]:
    """Return the columns that are looked up, from their keys, a binary array; `names` has all of them."""
    ordered = sorted(filter(is_looked_up, names), key=lambda name: int(name[1:].partition(":")[0]))
    types = [name.partition(":")[2] for name in ordered]
    return dict(zip(ordered, decode_keys(keys, types), strict=True)) if ordered else {}


def _type(node: RegionOfExpr | InsideExpr | JoinExpr, tables: JoinedTables) -> str:
    if isinstance(node, JoinExpr):
        return tables.type(node.table, node.wanted)
    return "STRING" if isinstance(node, RegionOfExpr) else "BOOLEAN"
