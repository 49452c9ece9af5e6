"""The objects that a map draws: their places after a step, and which of them are in the answers of queries.

Places are read as columns, directly from the slots' published arrays. Answers are folded from a few columns
of the update log as it grows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stqsh.arrays import Array
from stqsh.client.connection import Connection
from stqsh.client.read.group_keys import is_group_key
from stqsh.core.contract.snapshot_selection import PresentObjects
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.kernels.index.scan import in_box
from stqsh.lang.binder.bind import bind
from stqsh.lang.catalogue import Catalogue
from stqsh.lang.syntax.parse import parse
from stqsh.spec.chunk import columns_schema
from stqsh.spec.region import Place
from stqsh.spec.stream import StreamSpec
from stqsh.storage.rows import Progress
from stqsh.storage.update_log.files import LogCompactedError
from stqsh.storage.update_log.reader import UpdateLog

if TYPE_CHECKING:
    from stqsh.client.read.snapshots import SnapshotReader
    from stqsh.core.state.slot_state import SlotState


UNKNOWN_SLOT = -1
_LOW = np.uint64(0xFFFFFFFF)
MOST_CORNERS = 500_000
"""The maximum number of corners of all shapes of a map; objects beyond it are drawn as points."""
_EVERYWHERE = (-np.inf, -np.inf, np.inf, np.inf)


@dataclass(frozen=True, slots=True)
class PlacesRequest:
    """A request for a stream's objects.

    Attributes:
        most: the approximate maximum number of objects; the same ones are returned as long as they are
            present.
        keys: objects to prefer, for at most half of them; an array of the key's type.
        records: whether to return all declared columns too.
        always: objects to return in any case; an array of the key's type.
    """

    most: int
    keys: pa.Array[Any] | None = None
    records: bool = False
    always: pa.Array[Any] | None = None


@dataclass(frozen=True, slots=True)
class ObjectColumns:
    """The n objects that are present after a step, or a sample of them.

    Attributes:
        at_us: the step's event time; None before the first step.
        keys: (n,) of the key's type.
        x: float64 (n,).
        y: float64 (n,).
        slot: int32 (n,), `UNKNOWN_SLOT` if the answer came through the log.
        there: how many objects are present; if n is less, these are a sample.
        records: the declared columns, n rows, if they were requested.
        shapes: the objects' extents, shapely geometries (n,), None for an object that is drawn as a point;
            None if all are points.
    """

    step: int
    at_us: int | None
    keys: pa.Array[Any]
    x: Array
    y: Array
    slot: Array
    there: int
    records: pa.Table | None = None
    shapes: Array | None = None

    def __len__(self) -> int:
        return len(self.x)

    def find(self, keys: pa.Array[Any]) -> Array:
        """Return the positions of the given keys that are among these objects; int64, ascending."""
        return np.flatnonzero(_are_among(self.keys, keys))

    def boxes(self) -> Array:
        """Return the boxes x1, y1, x2, y2 around the objects, float64 (n, 4); those of points are points."""
        boxes = np.column_stack([self.x, self.y, self.x, self.y])
        if self.shapes is not None:
            import shapely  # takes a while to load

            shown = np.flatnonzero(~shapely.is_missing(self.shapes))
            boxes[shown] = shapely.bounds(self.shapes[shown])
        return boxes

    def place(self, number: int, planar: bool) -> Place:
        """Return the place in the centre of the regions around an object: of an extent, that of its box."""
        if self.shapes is None or self.shapes[number] is None:
            return float(self.x[number]), float(self.y[number])
        from stqsh.core.conditions.extents import Extents, Shapes, box_centres

        (x,), (y,) = box_centres(Extents(Shapes(self.shapes[[number]]), np.zeros(1, np.int64)), planar)
        return float(x), float(y)

    def within(self, box: tuple[float, float, float, float]) -> Array:
        """Return which objects' boxes share a point with a box; bool (n,)."""
        x1, y1, x2, y2 = self.boxes().T
        met: Array = (x1 <= box[2]) & (box[0] <= x2) & (y1 <= box[3]) & (box[1] <= y2)
        return met

    def edges(self, objects: Array) -> Array:
        """Return the edges of some objects' shapes, x1, y1, x2, y2 float64 (e, 4); none of points."""
        if self.shapes is None:
            return np.empty((0, 4))
        from stqsh.core.conditions.extents import edges_of  # shapely takes a while to load

        return edges_of(self.shapes[objects]).ends.T

    def lines(self) -> tuple[Array, Array, list[Array]]:
        """Return the points, lines and rings of all shapes, object after object.

        Returns:
            of: The index of each one's object, int64 (k,).
            solid: Whether it is the ring of a polygon, bool (k,).
            lines: Their places, float64 (m, 2) each.
        """
        if self.shapes is None:
            return np.empty(0, np.int64), np.empty(0, np.bool_), []
        import shapely

        from stqsh.core.conditions.extents import lines_of

        lines, of, solid = lines_of(self.shapes)
        ends = np.cumsum(shapely.get_num_coordinates(lines))
        return of, solid, np.split(shapely.get_coordinates(lines), ends[:-1]) if len(lines) else []


def places(snapshots: SnapshotReader, stream: StreamSpec, wish: PlacesRequest, least: int) -> ObjectColumns:
    """Return the objects of a stream after one step, the step `least` or a later one.

    If the published state is not available, the request goes through the control log, and the slots are
    unknown. Raises as `SnapshotReader.ask` does.
    """
    if least == 0:
        return _nothing(stream)
    found = snapshots.read(lambda states: _of_states(states, stream, wish), least)
    found = _by_log(snapshots, stream, wish) if found is None else found
    return found if found.shapes is None else replace(found, shapes=_limited(found.shapes))


def _shapes_of(texts: pa.Array[Any]) -> Array:
    """Return the geometries of WKT, objects (n,)."""
    import shapely  # takes a while to load

    shapes: Array = shapely.from_wkt(texts.to_numpy(zero_copy_only=False))
    return shapes


def _limited(shapes: Array) -> Array:
    """Return the first shapes, objects (n,), with `MOST_CORNERS` corners in all; None for the others."""
    import shapely

    limited = shapes.copy()
    limited[np.cumsum(shapely.get_num_coordinates(shapes)) > MOST_CORNERS] = None
    return limited


def _nothing(stream: StreamSpec) -> ObjectColumns:
    schema, none = columns_schema(stream.columns), np.empty(0)
    keys = pa.array([], schema.field(stream.key).type)
    return ObjectColumns(0, None, keys, none, none, none.astype(np.int32), 0, schema.empty_table())


def _of_states(states: list[SlotState], stream: StreamSpec, wish: PlacesRequest) -> ObjectColumns:
    """Return the objects of all slots; all states are at the same step."""
    clock = states[0].clock
    progress = Progress(step=clock.step, base_tick=clock.base_tick, tick_us=clock.tick_us)
    shares = [share for state in states if (share := _share(state, stream, wish, len(states))) is not None]
    return _joined(shares, stream, progress)


def _share(state: SlotState, stream: StreamSpec, wish: PlacesRequest, slots: int) -> ObjectColumns | None:
    """Return one slot's objects; None if the slot does not have the stream."""
    present = PresentObjects.of(state, stream.id)
    if present is None:
        return None
    objects = in_box(present.stored, present.since, np.array(_EVERYWHERE))
    keys, there = present.table.show_keys(objects), len(objects)
    chosen = _chosen(keys, wish, wish.most // slots)
    if chosen is not None:
        objects, keys = objects[chosen], keys.take(chosen)
    records = None
    if wish.records:
        names = [name for name, _ in stream.columns]
        columns = [present.table.read(name, objects) for name in names]
        records = pa.Table.from_arrays(columns, names=names)
    x, y = present.places(objects)
    slot = np.full(len(objects), state.slot, np.int32)
    shapes = None if stream.extent is None else _shapes_of(present.table.read(stream.extent, objects))
    return ObjectColumns(0, None, keys, x, y, slot, there, records, shapes)


def _chosen(keys: pa.Array[Any], wish: PlacesRequest, most: int) -> Array | None:
    """Return the positions of a sample chosen by key hash, so that it is stable; None for all."""
    if len(keys) <= most:
        return None
    # Use the low bits, because an object's slot depends on the high ones.
    luck = hash_keys(keys) & _LOW
    # A hash below a bound selects an object independently of all others, so a sample changes little from step
    # to step. Preferred objects get at most half of the places.
    first = _are_among(keys, wish.keys)
    first &= luck < _share_of(most // 2, int(first.sum()))
    rest = luck < _share_of(most - int(first.sum()), len(keys))
    return np.flatnonzero(first | rest | _are_among(keys, wish.always))


def _share_of(most: int, count: int) -> np.uint64:
    """Return the bound below which the low half of a hash falls for about `most` out of `count`."""
    return np.uint64(2**32 if count <= most else most * 2**32 // count)


def _are_among(keys: pa.Array[Any], wanted: pa.Array[Any] | None) -> Array:
    """Return which keys are in `wanted`; bool (n,)."""
    if wanted is None or not len(wanted):
        return np.zeros(len(keys), np.bool_)
    found: Any = pc.is_in(keys, value_set=wanted.cast(keys.type))
    among: Array = found.to_numpy(zero_copy_only=False)
    return among.copy()


def _joined(shares: list[ObjectColumns], stream: StreamSpec, progress: Progress) -> ObjectColumns:
    if not shares:
        shares = [_nothing(stream)]
    records = [share.records for share in shares if share.records is not None]
    shapes = [share.shapes for share in shares if share.shapes is not None]
    return ObjectColumns(
        progress.step,
        progress.at_us(),
        pa.concat_arrays([share.keys for share in shares]),
        np.concatenate([share.x for share in shares]),
        np.concatenate([share.y for share in shares]),
        np.concatenate([share.slot for share in shares]),
        sum(share.there for share in shares),
        pa.concat_tables(records) if records else None,
        np.concatenate(shapes) if shapes else None,
    )


def _by_log(snapshots: SnapshotReader, stream: StreamSpec, wish: PlacesRequest) -> ObjectColumns:
    """Return the objects through a SELECT * that goes through the control log."""
    [statement] = parse('SELECT * FROM "' + stream.name.replace('"', '""') + '"')
    spec = bind(statement, Catalogue({stream.name: stream})).spec
    found = snapshots.ask(spec, stream)
    table = found.table.combine_chunks()
    placed = ~np.isnan(_column(table, stream.x)) & ~np.isnan(_column(table, stream.y))
    table = table.filter(pa.array(placed))
    keys = table.column(stream.key).combine_chunks()
    there = len(keys)
    chosen = _chosen(keys, wish, wish.most)
    if chosen is not None:
        table, keys = table.take(chosen), keys.take(chosen)
    slot = np.full(len(keys), UNKNOWN_SLOT, np.int32)
    x, y = _column(table, stream.x), _column(table, stream.y)
    shapes = None if stream.extent is None else _shapes_of(table.column(stream.extent).combine_chunks())
    records = table if wish.records else None
    return ObjectColumns(found.step, found.at_us, keys, x, y, slot, there, records, shapes)


def _column(table: pa.Table, name: str) -> Array:
    values: Array = table.column(name).to_numpy().astype(np.float64)
    return values


_COLUMNS = ["step", "query", "op", "key"]
_FOLD_AT = 200_000
"""How many rows of a long log are collected before they are folded."""


class QueryMembers:
    """The answers of queries of one stream. The log is read once, from its beginning."""

    def __init__(self, connection: Connection, stream_id: int) -> None:
        self._connection, self._stream_id = connection, stream_id
        self._log = UpdateLog(connection.db, connection.book.key_of)
        self._after = -1
        self._state: pa.Table | None = None

    def advance(self, up_to: int) -> None:
        """Read the batches up to a number; start over if the log was folded beyond the last one read."""
        while self._after < up_to:
            try:
                self._take(up_to)
            except LogCompactedError:
                self._after, self._state = -1, None

    def _take(self, up_to: int) -> None:
        pieces: list[pa.Table] = []
        for tables in self._log.read(self._after, up_to, self._is_mine):
            pieces += [part.table.select(_COLUMNS) for part in tables if not is_group_key(part.table["key"])]
            if sum(piece.num_rows for piece in pieces) > _FOLD_AT:
                self._state, pieces = _folded(self._state, pieces), []
        if pieces:
            self._state = _folded(self._state, pieces)
        self._after = up_to

    def keys(self, query: int) -> pa.Array[Any] | None:
        """Return the keys in a query's answer; None if the answer never had any."""
        if self._state is None:
            return None
        mine = np.flatnonzero(self._state.column("query").to_numpy() == query)
        return self._state.column("key").combine_chunks().take(mine)

    def keys_of_any(self, queries: Collection[int]) -> pa.Array[Any] | None:
        """Return the keys that are in the answer of at least one of the queries."""
        if self._state is None:
            return None
        mine = np.isin(self._state.column("query").to_numpy(), np.array([*queries], np.int64))
        return self._state.column("key").combine_chunks().filter(pa.array(mine))

    def _is_mine(self, queries: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which queries, by id, read the stream; bool (n,)."""
        rows = self._connection.db.query("SELECT id FROM queries WHERE stream_id = ?", self._stream_id)
        return np.isin(queries, np.array([number for (number,) in rows], np.int64))


def _folded(state: pa.Table | None, pieces: list[pa.Table]) -> pa.Table:
    """Return the rows (step, query, op, key) of the members after all updates; `state` has those before."""
    log = pa.concat_tables([*([] if state is None else [state]), *pieces]).combine_chunks()
    order = np.lexsort((log.column("op").to_numpy(), log.column("step").to_numpy()))
    grouped = log.take(order).group_by(["query", "key"], use_threads=False)
    last = grouped.aggregate([("step", "last"), ("op", "last")])
    last = last.filter(pa.array(last.column("op_last").to_numpy() > 0))
    columns = [last.column(name) for name in ("step_last", "query", "op_last", "key")]
    return pa.Table.from_arrays(columns, names=_COLUMNS).cast(log.schema)
