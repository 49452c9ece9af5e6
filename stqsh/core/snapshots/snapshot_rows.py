"""The objects of a slot as rows of a snapshot: who is present, and what expressions say of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.conditions.evaluation import columns_read, compute, evaluate, parts
from stqsh.core.conditions.region_test import RegionNow
from stqsh.core.conditions.resolver import Resolver
from stqsh.core.kernels.events.transitions import StoredArrays
from stqsh.core.kernels.geometry.distance import distances
from stqsh.core.objects.object_table import BatchRows, ObjectTable
from stqsh.core.state.slot_state import SlotState, stream_specs

Array = npt.NDArray[Any]
Expr: TypeAlias = list[Any]

_EVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class PresentObjects:
    """The objects of a stream on a slot after the slot's last step.

    now: the step's time, µs. since: older records (µs) are those of objects that are not present any more.
    """

    table: ObjectTable
    resolver: Resolver
    now: int
    since: int

    @staticmethod
    def of(state: SlotState, stream_id: int) -> PresentObjects | None:
        """A stream's objects, None where the slot has not heard of the stream; nothing is changed."""
        spec = stream_specs(state).get(stream_id)
        if spec is None:
            return None
        clock = state.header.get("clock", {})
        now = ((clock.get("base_tick") or 0) + clock.get("step", 0) - 1) * (clock.get("tick_us") or 1)
        report, keep = spec.report_every_us, spec.keep_us
        lasts = report if report is not None else keep
        table = ObjectTable(state, f"s{stream_id}/objects", spec)
        return PresentObjects(table, Resolver(state, spec), now, _EVER if lasts is None else now - lasts)

    @cached_property
    def stored(self) -> StoredArrays:
        """Places and times as stored, of objects that are not present too."""
        return self.table.stored

    @cached_property
    def no_rows(self) -> BatchRows:
        """The rows of a batch that has none, as the table asks for them beside what is stored."""
        return self.table.encode([])

    def find(self, key: Any) -> Array:
        """The object with a key, whether it is present or not. int32 (0,) or (1,)."""
        found = self.table.keys.find(pa.array([key], self.table.key_type))
        return found[found >= 0]

    def among(self, objects: Array) -> Array:
        """Those of the objects that are present."""
        stored = self.stored
        there = stored.known[objects] & (stored.ts[objects] >= self.since) & ~np.isnan(stored.x[objects])
        return objects[there]

    def places(self, objects: Array) -> tuple[Array, Array]:
        """Where objects are: x and y, float64 (n,) each."""
        return self.stored.x[objects], self.stored.y[objects]


class StoredRows:
    """Rows of some objects, int32 (n,), and the values of expressions over them."""

    def __init__(self, present: PresentObjects, objects: Array, reach: RegionNow) -> None:
        self._present, self._objects, self._reach = present, objects, reach

    def truth(self, condition: Expr) -> Array:
        """Whether a condition holds; UNKNOWN is no. bool (n,)."""
        columns, plain = self._operands(condition)
        truth = evaluate(plain, columns, self._present.now, self._present.resolver)
        verdict: Array = truth.fill_null(False).to_numpy(zero_copy_only=False)
        return verdict

    def value(self, expr: Expr) -> pa.Array[Any]:
        """The values of an expression: plain columns, of stream or table, in their declared Arrow types."""
        if expr[0] == "col":
            return self._column(expr[1])
        if expr[0] == "join":
            _, table, stream_column, column = expr
            keys = self._column(stream_column)
            joined: pa.Array[Any] = self._present.resolver.tables.values(table, keys, column)
            return joined
        if expr[0] == "distance":
            return self._distance()
        columns, plain = self._operands(expr)
        value: pa.Array[Any] = compute(plain, columns, self._present.now, self._present.resolver)
        return value

    def _operands(self, expr: Expr) -> tuple[dict[str, pa.Array[Any]], Expr]:
        """The columns that an expression reads, at least one, so that one of constants has a length too."""
        names = columns_read(expr, self._present.resolver.location)
        columns = {name: self._column(name) for name in sorted(names)}
        if parts(expr, "distance"):
            columns["\0distance"] = self._distance()
            expr = _with_column(expr, "\0distance")
        return columns or {"": pa.nulls(len(self._objects))}, expr

    def _column(self, name: str) -> pa.Array[Any]:
        return self._present.table.show(name, self._present.no_rows, self._objects, self._objects)

    def _distance(self) -> pa.Array[Any]:
        centre = self._reach.centre
        if centre is None:
            return pa.nulls(len(self._objects), pa.float64())
        x, y = self._present.places(self._objects)
        far: pa.Array[Any] = pa.array(distances(*centre, x, y, self._present.resolver.planar))
        return far


def _with_column(expr: Any, name: str) -> Any:
    """The expression with a column in the place of DISTANCE."""
    if not isinstance(expr, list):
        return expr
    return ["col", name] if expr == ["distance"] else [_with_column(part, name) for part in expr]
