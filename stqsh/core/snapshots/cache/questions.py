"""Questions: snapshots of events, split into the parts by which views are found (STAR 3.1 and 4.1).

A question asks for measures of groups of the events that are in a region and a time range and satisfy some
conditions; or it asks for the events themselves. A view can answer a question for measures if the view has
the same conditions or fewer, and its groups determine the remaining ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from stqsh.core.conditions.time_ranges import EVER, LASTING, TimeRange, exact_range
from stqsh.core.contract.snapshot_selection import SnapshotSelection
from stqsh.core.texts.tokenizer import coded_terms
from stqsh.spec.aggregate import GroupColumn, Measure
from stqsh.spec.expression import (
    ColumnExpr,
    CompareExpr,
    ContainsExpr,
    Expr,
    ExprBase,
    LiteralExpr,
    conjunction,
    conjuncts,
    find_nodes,
    reads_location,
)
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.stream import StreamSpec

COUNT = Measure("count")

_EXACT = frozenset({"STRING", "INT", "BIGINT", "BOOLEAN", "TIMESTAMP"})
"""Types whose values a group shows unchanged; NaN and -0.0 change in groups."""


class Phrase(NamedTuple):
    """At least one word; a column's text must contain all of the words, or any of them."""

    column: str
    words: tuple[str, ...]
    every: bool

    @staticmethod
    def of(condition: Expr) -> Phrase | None:
        """Return the phrase that a condition searches for; None for another condition."""
        match condition:
            case ContainsExpr(ColumnExpr(column), str(text), how):
                words = tuple(map(str, coded_terms(pa.array([text]))[1].to_pylist()))
                return Phrase(column, words, how == "all")
        return None


@dataclass(frozen=True)
class Shape:
    """The content of a view or a question, regardless of the region and the time.

    Attributes:
        conditions: the conditions that events satisfy, ordered by their text.
        groups: the columns to group by.
        measures: the measures of groups; for a view without repeats and without `avg`, and `k` is 0, or with
            an `error` the number of counters of a summary.
        error: how much too high counts of TOPK may be, as a share of a group's records; 0 without TOPK.
    """

    conditions: tuple[Expr, ...]
    groups: tuple[GroupColumn, ...]
    measures: tuple[Measure, ...]
    error: float = 0.0

    @cached_property
    def condition(self) -> Expr | None:
        """The conjunction of all conditions."""
        return conjunction(list(self.conditions))

    @cached_property
    def phrases(self) -> tuple[Phrase, ...]:
        """The phrases that conditions search for in columns."""
        return tuple(phrase for phrase in map(Phrase.of, self.conditions) if phrase is not None)

    @cached_property
    def without_phrases(self) -> Shape:
        """The same shape for events that are known to contain all phrases."""
        rest = tuple(one for one in self.conditions if Phrase.of(one) is None)
        return Shape(rest, self.groups, self.measures, self.error)

    @cached_property
    def columns(self) -> dict[str, int]:
        """The numbers of the plain-column groups, whose values are shown unchanged, by column."""
        return {
            group.value.name: i
            for i, group in enumerate(self.groups)
            if isinstance(group.value, ColumnExpr) and group.type in _EXACT
        }

    def determines(self, expr: Expr) -> bool:
        """Return whether the groups determine the value of an expression."""
        names = {node.name for node in find_nodes(expr, ColumnExpr)}
        return bool(names) and names <= self.columns.keys() and not reads_location(expr)

    def answers(self, asked: Shape) -> bool:
        """Return whether a view of this shape can answer a question of another shape."""
        own = set(self.groups)
        return (
            set(self.conditions) <= set(asked.conditions)
            and all(one in self.conditions or self.determines(one) for one in asked.conditions)
            and all(group in own or self.determines(group.value) for group in asked.groups)
            and set(stored_measures(asked.measures, asked.error)) <= set(self.measures)
            and (self.error == asked.error or not _counts_terms(asked.measures))
        )

    @cached_property
    def is_count(self) -> bool:
        """Whether only the number of events is asked for; cells give that number."""
        arguments = any(one.argument is not None for one in self.measures)
        return not (self.is_of_events or self.conditions or self.groups or arguments)

    @property
    def is_of_events(self) -> bool:
        """Whether the events themselves are asked for, without groups or measures."""
        return not (self.groups or self.measures)

    @cached_property
    def as_view(self) -> Shape:
        """The shape of the view that contains exactly what is asked for."""
        return Shape(self.conditions, self.groups, stored_measures(self.measures, self.error), self.error)

    def widened(self, types: dict[str, str]) -> Shape:
        """Return the shape of a view that groups by the columns that conditions compare with constants.

        Such a view also answers the same question for any other constants.
        """
        names = [_equal_column(one, types) for one in self.conditions]
        equal = {name for name in names if name is not None}
        if not equal:
            return self.as_view
        rest = tuple(one for one, name in zip(self.conditions, names, strict=True) if name is None)
        more = (GroupColumn(ColumnExpr(name), types[name]) for name in sorted(equal))
        groups = (*self.groups, *(group for group in more if group not in self.groups))
        return Shape(rest, groups, stored_measures(self.measures, self.error), self.error)


@dataclass(frozen=True)
class Question:
    """A snapshot of the events in a region and a time range, or of measures of these events."""

    shape: Shape
    times: TimeRange


def stored_measures(measures: tuple[Measure, ...], error: float) -> tuple[Measure, ...]:
    """Return the measures that a view must store to answer for others, without repeats, in order."""
    terms = counters(error)
    kept = (
        replace(
            one,
            function="sum" if one.function == "avg" else one.function,
            k=terms if one.function == "topk" else 0,
        )
        for one in measures
        if one.argument is not None
    )
    return tuple(sorted(set(kept), key=repr))


def counters(error: float) -> int:
    """Return the least number of terms in a view's summary, the paper's m; 0 if all terms are kept."""
    return ceil(1 / error) if error else 0


def _counts_terms(measures: tuple[Measure, ...]) -> bool:
    return any(one.function == "topk" for one in measures)


def question_of(selection: SnapshotSelection) -> Question | None:
    """Return a snapshot as a question; None if its members depend on more than the events and their times."""
    spec, present = selection.spec, selection.present
    stream: StreamSpec = present.table.spec
    if not _is_of_events(spec, stream) or selection.reach.is_nowhere:
        return None
    times = TimeRange(present.since, EVER.until if present.until is None else present.until)
    rest = list[Expr]()
    for one in conjuncts(spec.condition):
        found = exact_range(one, stream.time, present.now)
        if found is None:
            rest.append(one)
        else:
            times = times.within(found)
    aggregates = spec.aggregates
    groups = () if aggregates is None else aggregates.groups
    counts = (COUNT,) if spec.aggregate == "count" else ()
    measures = counts if aggregates is None else aggregates.measures
    values = [*(group.value for group in groups), *(one.argument for one in measures if one.argument)]
    if not all(_is_lasting(expr) for expr in (*rest, *values)):
        return None
    error = aggregates.error if aggregates is not None and _counts_terms(measures) else 0.0
    if error and max(one.k for one in measures) > counters(error):
        return None  # summaries in views may have fewer terms
    return Question(Shape(tuple(sorted(set(rest), key=repr)), groups, measures, error), times)


def _is_of_events(spec: SnapshotSpec, stream: StreamSpec) -> bool:
    return (
        stream.is_event
        and not stream.is_significant
        and spec.lookup is None
        and spec.join is None
        and spec.region.focal_key is None
        and not spec.region.is_nearest
        and spec.kind in ("range", "aggregate")
    )


def _is_lasting(expr: Expr) -> bool:
    return all(isinstance(node, LASTING) for node in find_nodes(expr, ExprBase))


def _equal_column(expr: Expr, types: dict[str, str]) -> str | None:
    """Return the column that a condition compares with a constant by `=`; None for another condition."""
    match expr:
        case CompareExpr("=", ColumnExpr(name), LiteralExpr()) if types.get(name) in _EXACT:
            return name
    return None
