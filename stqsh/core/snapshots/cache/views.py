"""Views: totals of groups of a node's events, by time slot, kept for later questions (STAR 4.1.1).

The states of a view equal those that a scan of its events finds, so an answer does not depend on whether it
came from a view. A time slot never changes, so arriving and expiring events require no updates. Events
without a time slot, and events of time slots that a question covers in part, are read directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from stqsh.core.aggregates.answers import KEY
from stqsh.core.aggregates.keys import decode_keys, number_groups, whole
from stqsh.core.aggregates.states import COUNTED, SUMMED, VALUES, States, add_states, leader
from stqsh.core.conditions.evaluation import compute, evaluate
from stqsh.core.snapshots.cache.cells import CellNode
from stqsh.core.snapshots.cache.questions import Shape
from stqsh.core.snapshots.cache.time_slots import TimeSlot
from stqsh.spec.aggregate import Measure
from stqsh.spec.chunk import arrow_type

pc: Any = pyarrow.compute  # its stubs know no binary columns

_SUMS_KEPT = 8
"""The most sums over several time slots that a view caches."""

Rows = tuple[int, int]


@dataclass(frozen=True)
class Size:
    """The number of rows that are added up for an answer, and the bytes of the rows in all time slots."""

    rows: float
    nbytes: float


@dataclass
class _Sum:
    """The states over some time slots, and their groups as columns once a question has needed them."""

    states: States
    groups: list[Any] | None = None


@dataclass
class View:
    """The states of the groups of a node's events, for the rows of each time slot.

    Attributes:
        expected: the number of rows that the selection expects, over all time slots.
        benefit: how much cheaper the view has made past questions, in events that need not be read.
        hits: how many questions the view has answered.
        spared: how many events were not read because of the view.
        nbytes: the bytes of all states, of their sums, and of the columns of groups.
    """

    shape: Shape
    node: CellNode
    parts: dict[Rows, States] = field(default_factory=dict)
    expected: float = 0.0
    benefit: float = 0.0
    hits: int = 0
    spared: int = 0
    nbytes: int = 0
    _sums: dict[tuple[Rows, ...], _Sum] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows of all time slots."""
        return sum(size_of(states) for states in self.parts.values())

    @property
    def size(self) -> Size:
        """The actual size; sums have about as many rows as the largest time slot."""
        return Size(max(size_of(states) for states in self.parts.values()), self.nbytes)

    def keep(self, slot: TimeSlot, states: States) -> None:
        """Store the states of a time slot."""
        self.parts[slot.rows] = states
        self._weigh()

    def adopt(self, parts: dict[Rows, States]) -> None:
        """Store the states of several time slots."""
        self.parts |= parts
        self._weigh()

    def size_over(self, slots: Sequence[TimeSlot]) -> int:
        """Return how many rows are added up for some time slots; the view must have all of them."""
        return size_of(self._sum(slots).states)

    def answer(self, slots: Sequence[TimeSlot], asked: Shape) -> States:
        """Return the states of a question's groups over some time slots; the view must have all of them."""
        found, view = self._sum(slots), self.shape
        if view.conditions == asked.conditions and view.groups == asked.groups:
            return _measured(view.measures, found.states, asked.measures)
        if found.groups is None:
            found.groups = decode_keys(whole(found.states.by[KEY]), [group.type for group in view.groups])
            self._weigh()
        return _answered(view, found.states, found.groups, asked)

    def _sum(self, slots: Sequence[TimeSlot]) -> _Sum:
        wanted = tuple(slot.rows for slot in slots)
        found = self._sums.pop(wanted, None)  # the most recently used sum is dropped last
        if found is None:
            parts = [self.parts[rows] for rows in wanted]
            found = _Sum(add_states(parts) if len(parts) > 1 else parts[0])
            while len(self._sums) >= _SUMS_KEPT:
                del self._sums[next(iter(self._sums))]
            self._sums[wanted] = found
            self._weigh()
        self._sums[wanted] = found
        return found

    def join(self, slots: Sequence[TimeSlot], whole: Rows) -> None:
        """Record that time slots were merged into one."""
        found = [self.parts.pop(slot.rows, None) for slot in slots]
        known = [states for states in found if states is not None]
        if len(known) == len(found):
            self.parts[whole] = add_states(known)
        self._sums.clear()
        self._weigh()

    def _weigh(self) -> None:
        sums = self._sums.values()
        held = {id(states): states for states in (*self.parts.values(), *(one.states for one in sums))}
        decoded = sum(column.nbytes for one in sums for column in one.groups or ())
        self.nbytes = decoded + sum(part.nbytes for states in held.values() for part in states)


def size_of(states: States) -> int:
    """Return the number of rows to add up."""
    return int(states.by.num_rows + states.values.num_rows)


def _answered(view: Shape, states: States, groups: list[Any], asked: Shape) -> States:
    """Return the states of a question's groups from a view's states, whose groups are columns."""
    count = states.by.num_rows
    columns = {name: groups[i] for name, i in view.columns.items()} or {"": pa.nulls(count)}
    rest = [one for one in asked.conditions if one not in view.conditions]
    rows = np.arange(count)
    for one in rest:
        truth = evaluate(one, columns, 0).fill_null(False)
        rows = rows[truth.to_numpy(zero_copy_only=False)[rows]]
    chosen: Any = pa.array(rows)
    known = dict(zip(view.groups, groups, strict=True))
    values = [
        (known[group] if group in known else _typed(compute(group.value, columns, 0), group.type)).take(
            chosen
        )
        for group in asked.groups
    ]
    found = number_groups(values, len(rows))
    return _regrouped(_measured(view.measures, states, asked.measures), rows, found.ids, found.keys)


def _regrouped(states: States, rows: Any, ids: Any, keys: pa.BinaryArray) -> States:
    """Return the states of some rows, added up by new group numbers."""
    place = np.full(states.by.num_rows, -1, np.int64)
    place[rows] = np.arange(len(rows))
    at = place[states.values["row"].to_numpy()]
    kept: Any = pa.array(at >= 0)
    moved = pa.array(at[at >= 0].astype(np.int32))
    values = states.values.filter(kept).set_column(0, VALUES.field("row"), moved)
    chosen: Any = pa.array(rows)
    positions: Any = pa.array(ids)
    by = pa.table({KEY: keys.take(positions)})
    return add_states([States(by, states.totals.take(chosen), values)])


def _measured(view: tuple[Measure, ...], states: States, asked: tuple[Measure, ...]) -> States:
    """Return the states of a question's measures, as a scan would have found them."""
    totals: dict[str, Any] = {"n": states.totals["n"]}
    values = []
    for j, measure in enumerate(asked):
        if measure.argument is None:
            continue
        at = _place(view, measure)
        if measure.function in COUNTED and leader(asked, j, COUNTED) == j:
            totals[f"c{j}"] = states.totals[f"c{leader(view, at, COUNTED)}"]
        if measure.function in SUMMED and leader(asked, j, SUMMED) == j:
            totals |= _sum(states.totals, leader(view, at, SUMMED), j)
        if measure.function not in COUNTED:
            found = states.values.filter(pc.equal(states.values["measure"], at))
            number = pa.array(np.full(found.num_rows, j, np.int16))
            values.append(found.set_column(1, VALUES.field("measure"), number))
    listed = pa.concat_tables(values) if values else VALUES.empty_table()
    return States(states.by, pa.table(totals), listed)


def _place(view: tuple[Measure, ...], measure: Measure) -> int:
    """Return the number of the view's measure that can answer another measure."""
    function = "sum" if measure.function == "avg" else measure.function
    return next(
        i for i, one in enumerate(view) if (one.function, one.argument) == (function, measure.argument)
    )


def _sum(totals: pa.Table, number: int, j: int) -> dict[str, Any]:
    prefix = f"s{number}."
    names = [name for name in totals.column_names if name.startswith(prefix)]
    return {f"s{j}.{name.removeprefix(prefix)}": totals[name] for name in names}


def _typed(column: Any, kind: str) -> Any:
    wanted = arrow_type(kind)
    return column if column.type == wanted else column.cast(wanted)
