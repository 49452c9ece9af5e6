"""Conditions that a column equals a constant, tested for all pairs of a batch before other conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.events.versions import AskedValues, EventValues, clear_unequal
from stqsh.core.kernels.index.static_rects import CandidatePairs
from stqsh.core.matching.condition_templates import Template
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.core.state.columns import StoredColumn, pick

Constant: TypeAlias = Callable[[int, int, Array], StoredColumn]
"""Returns a constant of a shape, by their numbers, for queries at some positions."""

_ALIKE = {("INT", "BIGINT"), ("BIGINT", "BIGINT"), ("STRING", "STRING")}
"""The types of columns and constants whose values are equal if their stored numbers are equal."""


def clear_unequal_pairs(
    pairs: CandidatePairs,
    events: Transitions,
    objects: BatchObjects,
    templates: Sequence[Template],
    shape: Array,
    constant: Constant,
) -> set[int]:
    """Clear WAS and IS where a column does not have the value that a condition requires.

    Codes of texts are compared like numbers. This takes a few nanoseconds a pair, at most a tenth of the
    evaluation of the condition. Columns are looked up for all events or, if there are fewer pairs than
    events, for the events of the pairs.

    Args:
        pairs: The pairs of events and queries; their flags are changed.
        events: The events.
        objects: The objects of the batch.
        templates: The shapes of conditions.
        shape: The shape of each query, -1 for none.
        constant: Returns the constants of queries.

    Returns:
        The shapes that need no further evaluation.
    """
    old_versions, new_versions = events.old, events.new
    if len(pairs.event) < len(events.step):
        old_versions, new_versions = old_versions[pairs.event], new_versions[pairs.event]
        pairs = pairs._replace(event=np.arange(len(pairs.event), dtype=np.int32))
    asked = dict[str, dict[int, int]]()
    for t, template in enumerate(templates):
        for name, j in template.equalities.items():
            if (objects.table.columns.stored_type(name), template.kinds[j]) in _ALIKE:
                asked.setdefault(name, {})[t] = j
    for name, numbers in asked.items():
        stored, rows = objects.table.columns[name], objects.rows.columns[name]
        old, new = (pick(stored, rows, versions) for versions in (old_versions, new_versions))
        values = EventValues(old.values.astype(np.int64), old.valid, new.values.astype(np.int64), new.valid)
        clear_unequal(pairs, values, _asked_values(numbers, shape, constant))
    return {
        t
        for t, template in enumerate(templates)
        if template.is_equality and all(t in asked.get(name, {}) for name in template.equalities)
    }


def _asked_values(numbers: dict[int, int], shape: Array, constant: Constant) -> AskedValues:
    """Return the values that queries require, by the constant numbers of their shapes."""
    asks, value = np.zeros(len(shape), np.bool_), np.zeros(len(shape), np.int64)
    for t, j in numbers.items():
        mine = np.flatnonzero(shape == t)
        asks[mine], value[mine] = True, constant(t, j, mine).values
    return AskedValues(asks, value)
