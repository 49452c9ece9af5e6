"""Snapshot SELECTs: one slot's share of an answer, and the whole that the shares make.

`part` reads a slot's state and changes nothing; `whole` merges, orders and cuts. Both are the same whether a
client reads the published arrays or the slots answer in a batch (architecture.md). Everything that
takes a slot's tables is evaluated in `part`: the select list and ORDER BY are columns of what it gives.

CheetahGIS section VI-A (object, range count and kNN queries: hash look-up, cells, local k merged) and SSTD
section 6 (SRQ, SKQ); instead of cells there is a scan, see `stqsh.core.kernels.index.scan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.core.conditions.evaluation import parts
from stqsh.core.conditions.region_test import Place, RegionNow, reach_of
from stqsh.core.kernels.geometry.distance import distances
from stqsh.core.kernels.index.scan import count_in_box, in_box, nearest
from stqsh.core.snapshots.query_cost import measure
from stqsh.core.snapshots.snapshot_rows import PresentObjects, StoredRows
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.chunk import pack_json

Array = npt.NDArray[Any]
Spec: TypeAlias = dict[str, Any]

_KEY, _FAR, _COUNT = "key", "far", "count"
_GROWTH = 8
"""How many times more neighbours are looked at when too few of them satisfied the condition."""


def knows(state: SlotState, spec: Spec) -> bool:
    """Whether the slot has heard of the tables and areas that a snapshot is about."""
    join = spec.get("join")
    tables = [] if join is None else [join["table_id"]]
    named = [("tables", table) for table in tables] + [("areas", area) for area in spec.get("areas") or ()]
    return all(str(id_) in state.header.get(kind, {}) for kind, id_ in named)


def focal(state: SlotState, spec: Spec) -> Place | None:
    """Where the focal object of a snapshot's region is, if it is one of this slot's and present.

    A region that moves with an object needs the place before any slot's `part`.
    """
    key = spec["region"].get("focal")
    present = PresentObjects.of(state, spec["stream_id"])
    if key is None or present is None:
        return None
    found = present.among(present.find(key))
    if not len(found):
        return None
    (x,), (y,) = present.places(found)
    return float(x), float(y)


def answer(state: SlotState, ask: Spec) -> pa.RecordBatch | None:
    """What a slot says to a question that came by way of the control log.

    ask: {"spec", "place"}. Without a place, a region that moves is answered with the place of its focal
    object: one row x, y where it is this slot's and present, else none. A spec with "measure" asks for what
    `stqsh.core.snapshots.query_cost` says, which is given as JSON. All else is answered by `part`. None where
    what the snapshot is about has been dropped meanwhile.
    """
    spec = ask["spec"]
    if not knows(state, spec):
        return None
    if "focal" in spec["region"] and "place" not in ask:
        place = focal(state, spec)
        x, y = ([place[0]], [place[1]]) if place else ([], [])
        return pa.RecordBatch.from_arrays([pa.array(x, pa.float64()), pa.array(y, pa.float64())], ["x", "y"])
    place = None if ask.get("place") is None else (ask["place"][0], ask["place"][1])
    if "measure" in spec:
        found = pack_json(measure(state, spec, place))
        return pa.RecordBatch.from_arrays([pa.array([found], pa.binary())], ["measure"])
    return part(state, spec, place)


def part(state: SlotState, spec: Spec, place: Place | None = None) -> pa.RecordBatch | None:
    """One slot's share of a snapshot's answer, after the last step that the slot took.

    Args:
        state: the slot's; only read.
        spec: of a snapshot SELECT, as lang.bind makes it.
        place: where the focal object of the region is, None while it is not present.

    Returns:
        The columns key, `s0`, `s1`, … of the select list, `o0`, … of ORDER BY, and for nearest queries
        `far`, the distance; or one row `count`. No more rows than the answer may have. None where the
        slot has not heard of the stream, or has no object with the key that is looked up.

    Raises:
        ValueError: a region or expression of a kind that there is not.
    """
    present = PresentObjects.of(state, spec["stream_id"])
    if present is None:
        return None
    selection = _Selection(present, spec, reach_of(spec["region"], present.resolver, place))
    counts = spec.get("aggregate") == "count"
    if counts and selection.is_its_box:
        return _counted(int(count_in_box(present.stored, present.since, selection.reach.box)))
    objects = selection.members()
    if spec.get("lookup") is not None and not counts and not len(objects):
        return None
    return _counted(len(objects)) if counts else selection.rows(objects)


def whole(parts: Sequence[pa.RecordBatch], spec: Spec) -> pa.Table:
    """The answer that the slots' shares make: the select list's columns under their names, in order.

    parts: of all slots at one step, at least one, in any order.
    """
    tables = [pa.Table.from_batches([share]) for share in parts]
    found = pa.concat_tables(tables, promote_options="permissive")
    if spec.get("aggregate") == "count":
        count = pc.sum(found[_COUNT]).as_py() or 0
        most = spec["region"].get("k", count)  # each slot counts as many as it has
        return pa.table({spec.get("output") or _COUNT: [min(count, most)]})
    if _FAR in found.column_names:
        order = pc.sort_indices(found, sort_keys=[(_FAR, "ascending"), (_KEY, "ascending")])
        found = found.take(order[: spec["region"]["k"]])
    found = found.take(_first(found, spec))
    names = [name for name, _ in spec["select"]]
    return pa.Table.from_arrays([found[f"s{i}"] for i in range(len(names))], names=names)


def nothing(stream: Spec, spec: Spec) -> pa.RecordBatch:
    """The share of a slot without objects: an empty batch with the columns of `part`, for `whole`.

    stream: the StreamSpec.
    """
    state = SlotState.fresh(0)
    state.header["streams"] = {str(stream["id"]): stream}
    select = [[name, _known(expr)] for name, expr in spec["select"]]
    order = [[_known(expr), descending] for expr, descending in spec.get("order") or ()]
    plain = {"region": {"type": "all"}, "kind": "range", "condition": None, "lookup": None}
    share = part(state, spec | plain | {"select": select, "order": order})
    assert share is not None, "the stream is there"
    return share


def _known(expr: Any) -> Any:
    """An expression, or NULL in the place of one that needs a table."""
    return ["lit", None, "STRING"] if parts(expr, "join") else expr


@dataclass(frozen=True)
class _Selection:
    """A snapshot on one slot: the spatial operator first, the condition on what it left (SOLE section 7)."""

    present: PresentObjects
    spec: Spec
    reach: RegionNow

    @property
    def is_its_box(self) -> bool:
        """Whether the answer is all that lies in the region's box, and nothing else is to be looked at."""
        plain = self.spec["condition"] is None and self.reach.shape is None and self.spec["kind"] == "range"
        return plain and "focal" not in self.spec["region"]

    def members(self) -> Array:
        """The objects of the answer as far as this slot knows; of nearest queries ties with the k-th too."""
        if self.reach.is_nowhere:
            return np.empty(0, np.int32)
        if self.spec.get("lookup") is not None:
            return self._looked_up(self.spec["lookup"])
        if self.spec["kind"] == "nearest":
            return self._nearest(self.spec["region"]["k"])
        objects = in_box(self.present.stored, self.present.since, self.reach.box)
        if self.reach.shape is not None:
            objects = objects[self.reach.shape(*self.present.places(objects))]
        return self._satisfying(objects)

    def _looked_up(self, key: Any) -> Array:
        """An object by its key, without a scan (CheetahGIS section VI-A's object query)."""
        objects = self.present.among(self.present.find(key))
        return self._satisfying(objects[self.reach.holds(*self.present.places(objects))])

    def _nearest(self, wanted: int) -> Array:
        """The k nearest that satisfy the condition, and all that are as near as the k-th of them.

        With a condition, ever more of the nearest are looked at until k of them satisfy it: how far that goes
        bounds the search, as the radius r does in SSTD section 6.2.
        """
        present, everybody = self.present, len(self.present.stored.known)
        asked = wanted + 1  # for the focal object
        while True:
            found = nearest(present.stored, present.since, self._centre, asked, present.resolver.planar)
            objects = self._satisfying(found)
            if len(objects) >= wanted or asked >= everybody:
                break
            asked = asked * _GROWTH if asked * _GROWTH * _GROWTH < everybody else everybody
        if len(objects) > wanted:
            far = self._far(objects)
            objects = objects[far <= np.partition(far, wanted - 1)[wanted - 1]]
        return objects

    @property
    def _centre(self) -> Place:
        assert self.reach.centre is not None, "only regions with a centre have distances"
        return self.reach.centre

    def _far(self, objects: Array) -> Array:
        """How far objects are from the centre, float64 (n,)."""
        return distances(*self._centre, *self.present.places(objects), self.present.resolver.planar)

    def _satisfying(self, objects: Array) -> Array:
        """Those that satisfy the condition; a focal object is never in the answer of its own query."""
        key, condition = self.spec["region"].get("focal"), self._condition
        if key is not None:
            objects = objects[~np.isin(objects, self.present.find(key))]
        if condition is not None and len(objects):
            objects = objects[StoredRows(self.present, objects, self.reach).truth(condition)]
        return objects

    @property
    def _condition(self) -> Any:
        """The condition, but for what the look-up by key has seen to."""
        condition, key = self.spec["condition"], self.spec.get("lookup")
        column = ["col", self.present.table.spec["key"]]
        if key is None or condition is None or condition[:3] != ["cmp", "=", column]:
            return condition
        return None if condition[3][:2] == ["lit", key] else condition

    def rows(self, objects: Array) -> pa.RecordBatch:
        """What `part` gives of objects; with a LIMIT, of those only that can be in the answer."""
        limit, nearby = self.spec.get("limit"), self.spec["kind"] == "nearest"
        if limit is not None and len(objects) > limit and not nearby:
            order = self._columns(objects, select=False)
            objects = objects[_first(pa.table(order), self.spec).to_numpy()]
        columns = self._columns(objects)
        if nearby:
            columns[_FAR] = pa.array(self._far(objects) if len(objects) else np.empty(0))
        return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])

    def _columns(self, objects: Array, *, select: bool = True) -> dict[str, Any]:
        rows = StoredRows(self.present, objects, self.reach)
        columns: dict[str, Any] = {_KEY: self.present.table.show_keys(objects)}
        columns |= {f"o{i}": rows.value(expr) for i, (expr, _) in enumerate(self.spec.get("order") or ())}
        if select:
            columns |= {f"s{i}": rows.value(expr) for i, (_, expr) in enumerate(self.spec["select"])}
        return columns


def _counted(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([count], pa.int64())], names=[_COUNT])


def _first(table: pa.Table, spec: Spec) -> pa.Array[Any]:
    """Positions of the rows by ORDER BY, NULLs last and ties by key, else by key; as many as LIMIT says."""
    keys: list[Any] = [
        (f"o{i}", "descending" if descending else "ascending")
        for i, (_, descending) in enumerate(spec.get("order") or ())
    ]
    keys.append((_KEY, "ascending"))
    limit = spec.get("limit")
    if limit is None or limit >= table.num_rows:
        return pc.sort_indices(table, sort_keys=keys)
    smallest: Any = pc.select_k_unstable
    first: pa.Array[Any] = smallest(table, limit, sort_keys=keys)
    return first
