"""Drop rows that no query needs before their keys and columns are read (SOLE Algorithm 1).

A thousand queries seldom need more than a part of all objects. For the other objects, the place of a record
alone determines the outcome: it need not become an object that is forgotten in the same step.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.contract.batch_pieces import BatchPiece
from stqsh.core.kernels.geometry.boxes import extended_boxes
from stqsh.core.kernels.geometry.circles import circle_boxes
from stqsh.core.kernels.index.static_rects import GridFrame, RectGrid
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.join.near_rows import NearRegions, is_near, mark_cells, select_rows
from stqsh.core.objects.object_table import ObjectTable
from stqsh.core.queries.query_table import ACTIVE, CIRCLE
from stqsh.core.regions.grid_layout import StaticRectIndex, frame_over, rect_lists
from stqsh.core.retention.interest_table import InterestTable
from stqsh.core.state.columns import concatenate
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.stream import StreamSpec

_SIDE = 256
"""The number of columns and of rows of the grid of marked cells."""


def drop_far_rows(state: SlotState, spec: StreamSpec, piece: BatchPiece) -> BatchPiece:
    """Drop the rows of unknown objects that come near no query in any step of a piece.

    Such an object would be forgotten in the step of each of its rows, so it has no effect, whatever the order
    of its rows. Extra rows may stay.
    """
    if not piece.records:
        return piece
    queries = InterestTable(state, spec.id)
    regions = NearRegions(*_still(state, queries.prefix), *_marked(state, spec, piece, queries))
    table = ObjectTable(state, f"s{spec.id}/objects", spec)
    batch = concatenate(piece.records)
    x, y = (frozen(batch.column(axis).to_numpy(zero_copy_only=False)) for axis in (spec.x, spec.y))
    hashes = frozen(batch.column("_hash").to_numpy())
    stored = _objects(table, batch)
    known = (stored >= 0) & table.stored.known[stored] if len(table) else stored >= 0
    stay = select_rows(hashes, is_near(x, y, regions), known)
    passed = piece.passed + len(stay) - int(np.count_nonzero(stay))
    return replace(piece, records=[batch.filter(pa.array(stay))], passed=passed)


def _objects(table: ObjectTable, batch: pa.RecordBatch) -> Array:
    """Return the object of each row, int32 (n,); -1 for new objects."""
    keys = table.keys
    assert isinstance(keys, Interner)  # records of moving objects, not events
    return keys.find(batch.column(table.spec.key), frozen(batch.column("_hash").to_numpy()))


def _still(state: SlotState, prefix: str) -> tuple[GridFrame, RectGrid]:
    """Return the boxes of static regions."""
    if f"{prefix}/grid/lattice" in state:
        return StaticRectIndex(state, f"{prefix}/grid").lists()
    return rect_lists(np.empty((0, 4)), np.empty(0, np.int32))


def _marked(
    state: SlotState, spec: StreamSpec, piece: BatchPiece, queries: InterestTable
) -> tuple[GridFrame, Array]:
    """Mark the cells that moving extended regions touch, before the piece or at any time in it."""
    at = np.flatnonzero((queries.focal >= 0) & (queries.mode == ACTIVE))
    focal = ObjectTable(state, f"s{spec.id}/focal", spec, columns=False)
    who, x, y = _sighted(focal, piece)
    at = at[np.argsort(queries.focal[at], kind="stable")]
    begin, end = (np.searchsorted(queries.focal[at], who, side=side) for side in ("left", "right"))
    count = end - begin
    row = np.repeat(np.arange(len(who)), count)
    mover = at[np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + begin[row]]
    boxes = _boxes(queries, mover, x[row], y[row], spec.planar)
    frame = frame_over(boxes[:, 0::2].ravel(), boxes[:, 1::2].ravel(), _SIDE, spec.bounds)
    return frame, mark_cells(boxes, frame)


def _sighted(focal: ObjectTable, piece: BatchPiece) -> tuple[Array, Array, Array]:
    """Return focal objects with all their places, before and during the piece; (n,) each."""
    spec = focal.spec
    who: list[Array] = [np.arange(len(focal))]
    xs, ys = [focal.stored.x], [focal.stored.y]
    for batch in piece.focal:
        who.append(_objects(focal, batch))
        for values, axis in ((xs, spec.x), (ys, spec.y)):
            values.append(batch.column(axis).to_numpy(zero_copy_only=False))
    found = np.concatenate(who)
    seen = found >= 0
    return found[seen], np.concatenate(xs)[seen], np.concatenate(ys)[seen]


def _boxes(queries: InterestTable, at: Array, x: Array, y: Array, planar: bool) -> Array:
    """Return the boxes of extended regions with their focal objects at the given places."""
    width, height, reach = queries.width[at], queries.height[at], queries.reach[at]
    boxes = extended_boxes(x, y, width, height, reach, planar)
    rounds = queries.shape[at] == CIRCLE
    boxes[rounds] = circle_boxes(x[rounds], y[rounds], queries.radius[at[rounds]], planar)
    return boxes
