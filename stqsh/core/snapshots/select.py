"""Snapshot SELECTs: one slot's share of an answer, and the whole that the shares form.

`part` reads a slot's state and changes nothing; `whole` merges, orders and cuts. Both work the same whether a
client reads the published arrays or the slots answer in a batch (architecture.md). Everything that requires
a slot's tables is evaluated in `part`: the select list and ORDER BY are columns of its result.

CheetahGIS section VI-A (object, range count and kNN queries: hash look-up, cells, local k merged) and SSTD
section 6 (SRQ, SKQ); instead of cells there is a scan, see `stqsh.core.kernels.index.scan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET
from msgspec.structs import replace

from stqsh.core.conditions.region_test import RegionNow, reach_of
from stqsh.core.contract.query_kind import QueryKind
from stqsh.core.contract.snapshot_selection import EVERYWHERE, PresentObjects, SnapshotSelection, StoredRows
from stqsh.core.kinds import KINDS
from stqsh.core.snapshots.query_cost import measure
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.chunk import pack_json
from stqsh.spec.expression import Expr, JoinExpr, LiteralExpr, has_node
from stqsh.spec.query import AskSpec, BoundQuery, OrderColumn, Place, SelectColumn, SnapshotSpec
from stqsh.spec.region import NearestSpec
from stqsh.spec.stream import StreamSpec

Array = npt.NDArray[Any]

_KEY, _RANK, _COUNT = "key", "rank", "count"


def knows(state: SlotState, spec: BoundQuery) -> bool:
    """Return whether the slot knows the tables and areas that a snapshot refers to."""
    tables = [] if spec.join is None else [spec.join.table_id]
    named = [("tables", table) for table in tables] + [("areas", area) for area in spec.areas]
    return all(str(id_) in state.entry(kind) for kind, id_ in named)


def focal(state: SlotState, spec: BoundQuery) -> Place | None:
    """Return the place of the focal object of a snapshot's region, if this slot has it and it is present.

    A region that moves with an object needs this place before any slot's `part`.
    """
    key = spec.region.focal_key
    present = PresentObjects.of(state, spec.stream_id)
    if key is None or present is None:
        return None
    found = present.among(present.find(key))
    if not len(found):
        return None
    (x,), (y,) = present.places(found)
    return float(x), float(y)


def answer(state: SlotState, ask: AskSpec) -> pa.RecordBatch | None:
    """Answer a question that came through the control log.

    Without a place, the answer for a moving region is the place of its focal object: one row x, y if it is
    this slot's and present, else no rows. A spec with `measure` asks for the figures of
    `stqsh.core.snapshots.query_cost`, which are returned as JSON. `part` answers everything else. The result
    is None if what the snapshot reads has since been dropped.
    """
    spec = ask.spec
    if not knows(state, spec):
        return None
    if spec.region.focal_key is not None and ask.place is UNSET:
        place = focal(state, spec)
        x, y = ([place[0]], [place[1]]) if place else ([], [])
        return pa.RecordBatch.from_arrays([pa.array(x, pa.float64()), pa.array(y, pa.float64())], ["x", "y"])
    place = None if ask.place is UNSET else ask.place
    if spec.measure is not None:
        found = pack_json(measure(state, spec, place))
        return pa.RecordBatch.from_arrays([pa.array([found], pa.binary())], ["measure"])
    return part(state, spec, place)


def part(state: SlotState, spec: SnapshotSpec, place: Place | None = None) -> pa.RecordBatch | None:
    """Return one slot's share of a snapshot's answer, after the slot's last step.

    Args:
        state: The slot's state; only read.
        spec: The spec of a snapshot SELECT.
        place: The place of the region's focal object, None while it is absent.

    Returns:
        The columns key, `s0`, `s1`, … of the select list, `o0`, … of ORDER BY, and `rank` for kinds that rank
        their members; or one row `count`. It has no more rows than the answer may have. None if the slot does
        not know the stream, or has no object with the key.

    Raises:
        ValueError: a region or expression is of an unknown kind.
    """
    present = PresentObjects.of(state, spec.stream_id)
    if present is None:
        return None
    selection = SnapshotSelection(present, spec, reach_of(spec.region, present.resolver, place))
    kind, by_key = KINDS[spec.kind], spec.lookup is not None
    counts = spec.aggregate == "count"
    if counts and not by_key and not selection.reach.is_nowhere:
        return _counted(kind.count_members(selection))
    objects = _members(selection, kind)
    if counts:
        return _counted(len(objects))
    return None if by_key and not len(objects) else _rows(selection, objects, kind.rank(selection, objects))


def whole(parts: Sequence[pa.RecordBatch], spec: SnapshotSpec) -> pa.Table:
    """Return the answer that the slots' shares form: the select list's named columns, in order.

    `parts` are the shares of all slots at one step, at least one, in any order.
    """
    wanted = spec.region.k if isinstance(spec.region, NearestSpec) else None
    tables = [pa.Table.from_batches([share]) for share in parts]
    found = pa.concat_tables(tables, promote_options="permissive")
    if spec.aggregate == "count":
        count = pc.sum(found[_COUNT]).as_py() or 0
        most = count if wanted is None else wanted  # each slot counts as many as it has
        return pa.table({spec.output: [min(count, most)]})
    if _RANK in found.column_names:
        order = pc.sort_indices(found, sort_keys=[(_RANK, "ascending"), (_KEY, "ascending")])
        found = found.take(order[:wanted])
    found = found.take(_first(found, spec))
    names = [column.name for column in spec.select]
    return pa.Table.from_arrays([found[f"s{i}"] for i in range(len(names))], names=names)


def nothing(stream: StreamSpec, spec: SnapshotSpec) -> pa.RecordBatch:
    """Return the share of a slot without objects: an empty batch with the columns of `part`, for `whole`."""
    state = SlotState.fresh(0)
    state.entry("streams")[str(stream.id)] = msgspec.to_builtins(stream)
    present = PresentObjects.of(state, stream.id)
    assert present is not None, "the stream is there"
    if spec.aggregate == "count":
        return _counted(0)
    select = tuple(SelectColumn(column.name, _known(column.value)) for column in spec.select)
    order = tuple(OrderColumn(_known(column.value), column.is_descending) for column in spec.order)
    empty = SnapshotSelection(present, replace(spec, select=select, order=order), RegionNow(EVERYWHERE))
    return _rows(empty, np.empty(0, np.int32), None)


def _known(expr: Expr) -> Expr:
    """Return an expression, or NULL in place of one that needs a table."""
    return LiteralExpr(None, "STRING") if has_node(expr, JoinExpr) else expr


def _members(selection: SnapshotSelection, kind: QueryKind) -> Array:
    """Return the objects of the answer that this slot knows: those of the kind, or the one with the key."""
    if selection.reach.is_nowhere:
        return np.empty(0, np.int32)
    key = selection.spec.lookup
    return kind.select_members(selection) if key is None else selection.with_key(key)


def _rows(selection: SnapshotSelection, objects: Array, rank: Array | None) -> pa.RecordBatch:
    """Return the answer of `part` for objects; with a LIMIT, only those that can be in the answer."""
    limit = selection.spec.limit
    if limit is not None and len(objects) > limit and rank is None:
        order = _columns(selection, objects, select=False)
        objects = objects[_first(pa.table(order), selection.spec).to_numpy()]
    columns = _columns(selection, objects)
    if rank is not None:
        columns[_RANK] = pa.array(rank)
    return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])


def _columns(
    selection: SnapshotSelection, objects: Array, *, select: bool = True
) -> dict[str, pa.Array[Any]]:
    spec, rows = selection.spec, StoredRows(selection.present, objects, selection.reach)
    columns: dict[str, pa.Array[Any]] = {_KEY: selection.present.table.show_keys(objects)}
    columns |= {f"o{i}": rows.value(column.value) for i, column in enumerate(spec.order)}
    if select:
        columns |= {f"s{i}": rows.value(column.value) for i, column in enumerate(spec.select)}
    return columns


def _counted(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([count], pa.int64())], names=[_COUNT])


def _first(table: pa.Table, spec: SnapshotSpec) -> pa.Array[Any]:
    """Return positions of the rows in the order of ORDER BY, up to LIMIT.

    NULLs come last; ties, and rows without ORDER BY, are ordered by key.
    """
    keys: list[Any] = [
        (f"o{i}", "descending" if column.is_descending else "ascending")
        for i, column in enumerate(spec.order)
    ]
    keys.append((_KEY, "ascending"))
    limit = spec.limit
    if limit is None or limit >= table.num_rows:
        return pc.sort_indices(table, sort_keys=keys)
    smallest: Any = pc.select_k_unstable
    first: pa.Array[Any] = smallest(table, limit, sort_keys=keys)
    return first
