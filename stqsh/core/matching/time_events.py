"""Events caused by time alone: objects whose conditions on NOW change without a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from stqsh.arrays import Array
from stqsh.core.conditions.evaluation import columns_read, compute
from stqsh.core.kernels.events.time_conditions import find_flips, values_near_now, version_spans
from stqsh.core.kernels.events.transitions import Transitions, places_at
from stqsh.core.kernels.jit import frozen
from stqsh.core.matching.condition_templates import constant_number
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.objects.batch_objects import BatchObjects, joined
from stqsh.spec.expression import ArithmeticExpr, ColumnExpr, Expr


def with_time_events(events: Transitions, conditions: QueryConditions, objects: BatchObjects) -> Transitions:
    """Return the events, with an additional event for each step at which a comparison with NOW may change.

    Such an event has the same version before and after. The cost depends on objects and changes, not on
    steps: each object's time is read once, and its other values only if its comparison may change. With KEEP
    NONE nothing is added, because events are matched only in their own step.
    """
    if objects.table.spec.keeps_none:
        return events
    asked = _shifts(conditions)
    if not asked:
        return events
    found = []
    for expr, shifts in asked:
        versions = _candidates(expr, shifts, objects)
        columns = conditions.columns(columns_read(expr, conditions.resolver.location), versions)
        values = compute(expr, columns, 0, conditions.resolver)
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        bounds = version_spans(
            versions, objects.accepted, objects.rows.arrays, objects.stored, objects.timing
        )
        steps, at = find_flips(frozen(numbers), frozen(valid), frozen(shifts), bounds, objects.timing)
        found.append((steps, versions[at]))
    steps, versions = (np.concatenate(column) for column in zip(*found, strict=True))
    return joined(events, _touches(steps, versions, objects)) if len(steps) else events


def compared_values(conditions: QueryConditions, objects: BatchObjects) -> Iterator[tuple[Array, Array]]:
    """Yield the values, except NULL, that conditions compare with NOW, of all versions, and the durations."""
    return _values(_shifts(conditions), conditions, objects)


def values_compared(
    compared: Iterable[tuple[Expr, int]], conditions: QueryConditions, objects: BatchObjects
) -> Iterator[tuple[Array, Array]]:
    """Yield the same for other expressions, given with the durations added to NOW, µs."""
    by_expr: dict[Expr, set[int]] = {}
    for expr, shift in compared:
        by_expr.setdefault(expr, set()).add(shift)
    found = [(expr, np.array(sorted(shifts), np.int64)) for expr, shifts in by_expr.items()]
    return _values(found, conditions, objects)


def _values(
    compared: list[tuple[Expr, Array]], conditions: QueryConditions, objects: BatchObjects
) -> Iterator[tuple[Array, Array]]:
    versions = np.arange(objects.versions, dtype=np.int32)
    for expr, shifts in compared:
        columns = conditions.columns(columns_read(expr, conditions.resolver.location), versions)
        values = compute(expr, columns, 0, conditions.resolver).drop_null()
        yield values.to_numpy(zero_copy_only=False).astype(np.int64), shifts


def _candidates(expr: Expr, shifts: Array, objects: BatchObjects) -> Array:
    """Return the versions whose comparison with NOW may change in the batch; int32, ascending."""
    instants = objects.table.columns.instants(expr.name) if isinstance(expr, ColumnExpr) else None
    if instants is None:
        return np.arange(objects.versions, dtype=np.int32)
    stored = values_near_now(frozen(instants), frozen(shifts), objects.timing)
    rows = np.arange(len(objects.table), objects.versions, dtype=np.int32)
    return np.concatenate([stored, rows])


def _shifts(conditions: QueryConditions) -> list[tuple[Expr, Array]]:
    """Return each expression compared with NOW, with all its distances to NOW, ascending."""
    by_expr: dict[Expr, list[Array]] = {}
    for expr, shifts in _comparisons(conditions):
        by_expr.setdefault(expr, []).append(shifts)
    return [(expr, np.unique(np.concatenate(some))) for expr, some in by_expr.items()]


def _comparisons(conditions: QueryConditions) -> Iterator[tuple[Expr, Array]]:
    for t, template in enumerate(conditions.templates):
        queries = np.flatnonzero(conditions.queries.template == t)
        for node in template.instants if len(queries) else ():
            shifts = np.zeros(1, np.int64)
            if isinstance(node.right, ArithmeticExpr):
                shifts = conditions.constant(t, constant_number(node.right.right), queries).values
                shifts = -shifts if node.right.operator == "-" else shifts
            yield node.left, shifts


def _touches(steps: Array, versions: Array, objects: BatchObjects) -> Transitions:
    """Return one event for each step and version."""
    order = np.lexsort((versions, steps))
    steps, versions = steps[order], versions[order]
    first = np.ones(len(steps), np.bool_)
    first[1:] = (np.diff(steps) != 0) | (np.diff(versions) != 0)
    steps, versions = steps[first], versions[first]
    taken = objects.removals.cover(versions, steps)
    steps, versions = steps[~taken], versions[~taken]
    x, y = places_at(versions, objects.timing.first - 1, *objects.sources, objects.timing.unending)
    return Transitions(steps, objects.numbers.objects_of(versions), versions, versions, x, y, x, y)
