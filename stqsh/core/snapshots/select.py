"""Snapshot SELECTs: one slot's share of an answer, and the whole that the shares form.

`part` reads a slot's state without changing it; `whole` merges, orders and cuts. Both work the same if a
client reads the published arrays and if the slots answer in a batch (architecture.md). `part` evaluates
everything that needs a slot's tables: its result contains the select list and ORDER BY as columns.

See CheetahGIS section VI-A (object, range count and kNN queries: hash look-up, cells, merging of local k
nearest) and SSTD section 6 (SRQ, SKQ). A scan replaces their cells, see `stqsh.core.kernels.index.scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET
from msgspec.structs import replace

from stqsh.arrays import Array
from stqsh.core.aggregates.keys import canonical
from stqsh.core.conditions.region_test import RegionNow, reach_of
from stqsh.core.conditions.user_functions import FAILURE, apart
from stqsh.core.contract.query_kind import QueryKind
from stqsh.core.contract.snapshot_selection import EVERYWHERE, PresentObjects, SnapshotSelection, StoredRows
from stqsh.core.kinds import KINDS
from stqsh.core.objects.event_objects import let_go_so_far
from stqsh.core.snapshots.groups import NOW, groups_part, groups_whole
from stqsh.core.snapshots.query_cost import measure
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.aggregate import AggregateSpec, GroupColumn
from stqsh.spec.chunk import pack_json
from stqsh.spec.expression import ColumnExpr, Expr, InsideExpr, JoinExpr, LiteralExpr, RegionOfExpr, has_node
from stqsh.spec.query import AskSpec, BoundQuery, SelectColumn, SnapshotSpec, focal_keys, with_result
from stqsh.spec.region import FocalPlace, Key, NearestSpec, Place
from stqsh.spec.stream import StreamSpec

Selecting: TypeAlias = Callable[[PresentObjects, SnapshotSpec, RegionNow], SnapshotSelection]
"""Makes the operators of a snapshot, from the present objects, the snapshot, and its region as it is now."""

RANK = "rank"
"""The column of a share that contains the ranks of its rows, for kinds that rank their members."""
TIME = "time"
"""The column of a share that contains times, for snapshots of the past, in which keys may repeat."""
LET_GO = b"let_go"
"""The metadata key of a share of the past that holds how many events the slot has archived so far."""
_KEY, _COUNT = "key", "count"


class KeptShares(Protocol):
    """A client's cache that answers snapshots without a scan."""

    def share(self, state: SlotState, selection: SnapshotSelection) -> pa.RecordBatch | None:
        """Return what `part` returns; None for a snapshot that needs a scan or asks for members."""

    def members(self, state: SlotState, selection: SnapshotSelection) -> Array | None:
        """Return the objects that a snapshot asks for, int32 (n,); None if they must be found by a scan."""


def knows(state: SlotState, spec: BoundQuery) -> bool:
    """Return whether the slot knows the tables and areas that a snapshot refers to."""
    named = [("tables", join.table_id) for join in spec.joins] + [("areas", area) for area in spec.areas]
    return all(str(id_) in state.entry(kind) for kind, id_ in named)


def focal_places(state: SlotState, spec: BoundQuery) -> dict[Key, FocalPlace]:
    """Return the places of a snapshot's focal objects that are present on this slot, by key.

    Regions that move with objects need these places before `part` is called for any slot, see `at_places`.
    """
    places: dict[Key, FocalPlace] = {}
    keys = focal_keys(spec)
    present = _present(state, spec) if keys else None
    if present is None:
        return places
    for key in keys:
        found = present.among(present.find(key))
        if len(found):
            places[key] = _focal_place(present, found)
    return places


def _focal_place(present: PresentObjects, found: Array) -> FocalPlace:
    """Return the place of an object, int32 (1,)."""
    extent = present.table.spec.extent
    if extent is None:
        (x,), (y,) = present.places(found)
        return FocalPlace(float(x), float(y))
    from stqsh.core.conditions.extents import box_centres, extents_of  # shapely: only when needed

    column = present.table.read(extent, found)
    (x,), (y,) = box_centres(extents_of(column), present.resolver.planar)
    return FocalPlace(float(x), float(y), column[0].as_py())


def answer(state: SlotState, ask: AskSpec) -> pa.RecordBatch | None:
    """Answer a question from the control log.

    If the region moves and the question has no place, return the places of the focal objects: a row with the
    number of its key, x, y and extent for each that is present on this slot. If the spec has `measure`,
    return the figures of `stqsh.core.snapshots.query_cost` as JSON. Otherwise return the result of `part`.
    The result is None if anything that the snapshot reads was dropped in the meantime.
    """
    spec = ask.spec
    if not knows(state, spec):
        return None
    if ask.place is UNSET and (keys := focal_keys(spec)):
        found = focal_places(state, spec)
        columns: dict[str, pa.Array[Any]] = {
            "focal": pa.array([keys.index(key) for key in found], pa.int32()),
            "x": pa.array([place.x for place in found.values()], pa.float64()),
            "y": pa.array([place.y for place in found.values()], pa.float64()),
            "extent": pa.array([place.extent for place in found.values()], pa.string()),
        }
        return pa.RecordBatch.from_pydict(columns)
    place = None if ask.place is UNSET else ask.place
    if spec.measure is not None:
        cost = pack_json(measure(state, spec, place))
        return pa.RecordBatch.from_arrays([pa.array([cost], pa.binary())], ["measure"])
    return part(state, spec, place)


def part(
    state: SlotState,
    spec: SnapshotSpec,
    place: Place | None = None,
    selecting: Selecting = SnapshotSelection,
    kept: KeptShares | None = None,
) -> pa.RecordBatch | None:
    """Return one slot's share of a snapshot's answer, after the slot's last step.

    Args:
        state: The slot's state; only read.
        spec: The spec of a snapshot SELECT.
        place: The place of the region's focal object, None while it is absent.
        selecting: Makes the operators; EXPLAIN ANALYZE passes operators that are timed.
        kept: The cache of earlier snapshots; without it, all objects are scanned.

    Returns:
        The columns key, `s0`, `s1`, … of the select list, `o0`, … of ORDER BY, and `rank` for kinds that rank
        their members; or one row `count`. It has at most as many rows as the answer can have. None if the
        slot does not know the stream, or has no object with the key. If user functions failed, the metadata
        of its schema contains the reason.

    Raises:
        ValueError: a region or expression is of an unknown kind.
    """
    found = noting_failures(lambda: _part(state, spec, place, selecting, kept))
    if found is None or not spec.past:
        return found
    present = _present(state, spec)
    assert present is not None, "the slot has a share"
    found = _with_metadata(found, NOW, str(present.now).encode())
    return _with_metadata(found, LET_GO, str(let_go_so_far(state, spec.stream_id)).encode())


def noting_failures(make: Callable[[], pa.RecordBatch | None]) -> pa.RecordBatch | None:
    """Return the share that `make` returns; if user functions failed, add the reason to its metadata."""
    with apart() as failures:
        found = make()
        failed = failures()
    return (
        _with_metadata(found, FAILURE, failed.text.encode()) if found is not None and failed.times else found
    )


def _with_metadata(share: pa.RecordBatch, name: bytes, value: bytes) -> pa.RecordBatch:
    return share.replace_schema_metadata({**(share.schema.metadata or {}), name: value})


def _part(
    state: SlotState,
    spec: SnapshotSpec,
    place: Place | None,
    selecting: Selecting,
    kept: KeptShares | None,
) -> pa.RecordBatch | None:
    selection = selection_of(state, spec, place, selecting)
    if selection is None:
        return None
    share = None if kept is None else kept.share(state, selection)
    if share is not None:
        return share
    if spec.aggregate == "count" and spec.lookup is None and not selection.reach.is_nowhere:
        return _counted(KINDS[spec.kind].count_members(selection))
    found = None if kept is None else kept.members(state, selection)
    objects = _members(selection, KINDS[spec.kind]) if found is None else found
    is_missing = spec.lookup is not None and spec.aggregates is None and spec.aggregate is None
    return None if is_missing and not len(objects) else _share(selection, objects)


def share_of(selection: SnapshotSelection) -> pa.RecordBatch:
    """Return the share of a snapshot's members by a scan, like `part`."""
    kind = KINDS[selection.spec.kind]
    objects = np.empty(0, np.int32) if selection.reach.is_nowhere else kind.select_members(selection)
    return _share(selection, objects)


def _share(selection: SnapshotSelection, objects: Array) -> pa.RecordBatch:
    """Return the share that contains the given members."""
    if selection.spec.aggregate == "count":
        return _counted(len(objects))
    rank = KINDS[selection.spec.kind].rank(selection, objects)
    if selection.spec.aggregates is not None:
        return groups_part(selection, objects, rank)
    return _rows(selection, objects, rank)


def selection_of(
    state: SlotState, spec: SnapshotSpec, place: Place | None = None, selecting: Selecting = SnapshotSelection
) -> SnapshotSelection | None:
    """Return the operators of a snapshot on a slot; arguments as for `part`. None without the stream."""
    present = _present(state, spec)
    if present is None:
        return None
    if (window_us := spec.timing.window_us) is not None:
        present = present.within(window_us)
    return selecting(present, spec, reach_of(spec.region, present.resolver, place))


def whole(parts: Sequence[pa.RecordBatch], spec: SnapshotSpec) -> pa.Table:
    """Return the answer that the slots' shares form: the select list's named columns, in order.

    `parts` are the shares of all slots at one step, at least one share, in any order.
    """
    if spec.aggregates is not None:
        return groups_whole(parts, spec)
    wanted = spec.region.k if isinstance(spec.region, NearestSpec) else None
    tables = [pa.Table.from_batches([share]) for share in parts]
    found = pa.concat_tables(tables, promote_options="permissive")
    if spec.aggregate == "count":
        count = pc.sum(found[_COUNT]).as_py() or 0
        most = count if wanted is None else wanted  # each slot counts all of its members
        return pa.table({spec.output: [min(count, most)]})
    if RANK in found.column_names:
        order = pc.sort_indices(found, sort_keys=[(RANK, "ascending"), *_by_key(found)])
        found = found.take(order[:wanted])
    names = {f"s{i}": column.name for i, column in enumerate(spec.result.select)}
    shown = found.select([*names])
    if RANK in found.column_names and not spec.result.order:
        shown = shown.slice(0, spec.result.limit)
    else:
        shown = shown.take(_first(found, spec))
    return pa.Table.from_arrays(shown.columns, names=[*names.values()])


def nothing(stream: StreamSpec, spec: SnapshotSpec) -> pa.RecordBatch:
    """Return the share of a slot that does not know the stream: no rows, with the columns of `part`."""
    state = SlotState.fresh(0)
    state.entry("streams")[str(stream.id)] = msgspec.to_builtins(stream)
    if spec.aggregates is not None:
        spec = with_result(spec, aggregates=_without_tables(spec.aggregates))
    select = tuple(SelectColumn(column.name, _known(column.value)) for column in spec.result.select)
    order = tuple(replace(column, value=_known(column.value)) for column in spec.result.order)
    share = empty_share(state, with_result(spec, select=select, order=order))
    assert share is not None, "the stream is there"
    return share


def empty_share(state: SlotState, spec: SnapshotSpec) -> pa.RecordBatch | None:
    """Return a slot's share without members, without reading its objects; None if the stream is unknown."""
    present = _present(state, spec)
    if present is None:
        return None
    if spec.aggregate == "count":
        return _counted(0)
    nobody, selection = np.empty(0, np.int32), SnapshotSelection(present, spec, RegionNow(EVERYWHERE))
    if spec.aggregates is not None:
        return groups_part(selection, nobody, np.empty(0) if spec.region.is_nearest else None)
    return _rows(selection, nobody, None)


def _present(state: SlotState, spec: BoundQuery) -> PresentObjects | None:
    """Return a stream's objects at the instant of the snapshot; None if the slot does not know the stream.

    The instant is the step's time, or with WINDOW the end of the step's tick (language.md section 7).
    """
    present = PresentObjects.of(state, spec.stream_id, at_end=spec.timing.window_us is not None)
    is_past = isinstance(spec, SnapshotSpec) and spec.past
    return present.of_all_times() if is_past and present is not None else present


def _without_tables(spec: AggregateSpec) -> AggregateSpec:
    """Return aggregates in which NULL replaces expressions that need tables or regions."""
    groups = tuple(GroupColumn(_known(group.value, group.type), group.type) for group in spec.groups)
    measures = tuple(
        measure
        if measure.argument is None
        else replace(measure, argument=_known(measure.argument, measure.argument_type))
        for measure in spec.measures
    )
    return replace(spec, groups=groups, measures=measures)


def _known(expr: Expr, kind: str = "STRING") -> Expr:
    """Return an expression; NULL replaces one that needs a table or a region."""
    needs = any(has_node(expr, node) for node in (JoinExpr, RegionOfExpr, InsideExpr))
    return LiteralExpr(None, kind) if needs else expr


def _members(selection: SnapshotSelection, kind: QueryKind) -> Array:
    """Return the members on this slot: those that the kind selects, or the object with the key."""
    if selection.reach.is_nowhere:
        return np.empty(0, np.int32)
    key = selection.spec.lookup
    return kind.select_members(selection) if key is None else selection.with_key(key)


def _rows(selection: SnapshotSelection, objects: Array, rank: Array | None) -> pa.RecordBatch:
    """Return the result of `part` for objects; with LIMIT, only rows that can be in the answer."""
    limit = selection.spec.result.limit
    if limit is not None and len(objects) > limit and rank is None:
        order = _columns(selection, objects, select=False)
        objects = objects[_first(pa.table(order), selection.spec).to_numpy()]
    columns = _columns(selection, objects)
    if rank is not None:
        columns[RANK] = pa.array(rank)
    return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])


def _columns(
    selection: SnapshotSelection, objects: Array, *, select: bool = True
) -> dict[str, pa.Array[Any]]:
    spec, rows = selection.spec, StoredRows(selection.present, objects, selection.reach)
    columns = {_KEY: rows.value(ColumnExpr(selection.present.table.spec.key))}
    if spec.past:
        columns[TIME] = rows.value(ColumnExpr(selection.present.table.spec.time))
    # Infinities and NaN are NULL, as in the order of a continuous query.
    columns |= {f"o{i}": canonical(rows.value(column.value)) for i, column in enumerate(spec.result.order)}
    if select:
        columns |= {f"s{i}": rows.value(column.value) for i, column in enumerate(spec.result.select)}
    return columns


def _by_key(table: pa.Table) -> list[tuple[str, Literal["ascending"]]]:
    """Return the sort keys of rows without another order."""
    return [(name, "ascending") for name in (_KEY, TIME) if name in table.column_names]


def _counted(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([count], pa.int64())], names=[_COUNT])


def _first(table: pa.Table, spec: SnapshotSpec) -> pa.Array[Any]:
    """Return the positions of the rows in the order of ORDER BY, up to LIMIT.

    NULLs are last, or first where ORDER BY requires it. Ties, and rows without ORDER BY, are ordered by key.
    Rows with the same key, which only snapshots of the past have, are ordered by time.
    """
    keys: list[Any] = []
    for i, column in enumerate(spec.result.order):
        if column.nulls_first:
            known = pc.is_valid(table[f"o{i}"]).cast(pa.int8())
            table = table.append_column(f"n{i}", known)
            keys.append((f"n{i}", "ascending"))
        keys.append((f"o{i}", "descending" if column.is_descending else "ascending"))
    keys += _by_key(table)
    limit = spec.result.limit
    if limit is None or limit >= table.num_rows:
        return pc.sort_indices(table, sort_keys=keys)
    smallest: Any = pc.select_k_unstable
    first: pa.Array[Any] = smallest(table, limit, sort_keys=keys)
    return first
