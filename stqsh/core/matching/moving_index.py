"""The join of a batch's events with moving regions, and the cells of the objects around them.

This module prepares the input of `stqsh.core.kernels.join.moving_join`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.events.transitions import Transitions, places_at
from stqsh.core.kernels.geometry.boxes import extended_boxes
from stqsh.core.kernels.geometry.circles import circle_boxes
from stqsh.core.kernels.index.moving_boxes import MovingQueries
from stqsh.core.kernels.index.object_grid import BLOCK, ObjectGrid, blocks_for, fill_objects
from stqsh.core.kernels.index.static_rects import IS, WAS, CandidatePairs, GridFrame, QueryLifetimes
from stqsh.core.kernels.join.moving_join import MovingJoin, MovingJoinParams, by_focal, join_moving
from stqsh.core.matching.query_conditions import MovingRegions
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.objects.batch_objects import by_step, joined
from stqsh.core.queries.query_table import ACTIVE, CIRCLE
from stqsh.core.regions.grid_layout import frame_over
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import add_derived, derived

_LEAST_SIDE, _MAX_SIDE = 4, 256
_OBJECTS_A_CELL = 8
"""Objects per cell: as fast as 2 with 5,000 and 50,000 regions of all sizes, in less than half the memory."""
_OUTGROWN = 4
"""The growth factor of the number of objects after which the cells are rebuilt."""
_RADIX = (1 << 16) - 1


class RegionSizes(NamedTuple):
    """The sizes of moving regions as `MovingQueries` has them, float64 (m,) each."""

    xdist: Array
    ydist: Array
    reach: Array
    radius: Array


def moving_pairs(
    context: QueryContext, events: Transitions, lives: QueryLifetimes
) -> tuple[CandidatePairs, Transitions]:
    """Return the pairs of moving queries, and additional events that some of them refer to.

    If a region gains or loses an object by moving itself, the object gets an event that leaves it unchanged.
    """
    queries, batch = context.queries, context.batch
    at = np.flatnonzero((queries.focal >= 0) & (queries.mode == ACTIVE)).astype(np.int32)
    cover = context.conditions.covering_regions(context.covered).known()
    cells = ObjectCellStore(batch, context.prefix)
    if not len(at) and not len(cover.query):
        cells.release()
        none = CandidatePairs(*(np.empty(0, kind) for kind in (np.int32, np.int32, np.uint8)))
        return none, by_step(events, slice(0))
    frame, objects = cells.open(events)
    params = MovingJoinParams(frame, lives, context.planar)
    join, order = _join(batch, events, movers_of(context, at, cover), params)
    seen, unmoved = join_moving(join, objects)
    place = np.zeros(len(unmoved.obj))  # present; the place itself is not needed
    more = Transitions(
        unmoved.step, unmoved.obj, unmoved.version, unmoved.version, place, place, place, place
    )
    numbers = np.concatenate([order, len(events.step) + np.arange(len(unmoved.obj))[::-1]]).astype(np.int32)
    pairs = CandidatePairs(numbers[seen.event], seen.query, seen.flags)
    if len(cover.query):
        pairs = _in_covers(pairs, joined(events, more), context.covered)
    return pairs, more


def _in_covers(pairs: CandidatePairs, events: Transitions, covered: Array) -> CandidatePairs:
    """Make the pairs of covered queries unique, and set their flags to whether objects were and are present.

    The region of a covered query is all places; the covering regions only limit where its condition can hold.
    """
    mine = covered[pairs.query]
    codes = np.unique(pairs.event[mine].astype(np.int64) * len(covered) + pairs.query[mine])
    event, query = (codes // len(covered)).astype(np.int32), (codes % len(covered)).astype(np.int32)
    flags = np.where(np.isnan(events.ox[event]), 0, WAS) | np.where(np.isnan(events.nx[event]), 0, IS)
    found = CandidatePairs(event, query, flags.astype(np.uint8))
    others = (column[~mine] for column in pairs)
    return CandidatePairs(*(np.concatenate(both) for both in zip(others, found, strict=True)))


def with_region_events(context: QueryContext, events: Transitions) -> Transitions:
    """Return the events, with an additional event for each idle object that a condition's region moves over.

    Conditions are tested only at events. So an object needs an event, which leaves it unchanged, in each step
    in which it enters or leaves a moving region of a condition because the focal object moves. Such a region
    is joined with the objects like that of a query (SOLE section 5.3, Algorithm 4). Equal regions are joined
    once, so the cost depends on what the regions move over, not on the number of queries that have them.
    """
    batch, cells = context.batch, ObjectCellStore(context.batch, around(context.prefix))
    regions = context.conditions.regions_around(context.covered).known()
    count = len(regions.focal)
    if not count:
        cells.release()
        return events
    frame, objects = cells.open(events)
    movers = _movers(
        batch,
        query=np.arange(count, dtype=np.int32),
        own=np.full(count, -1, np.int32),
        focal=regions.focal,
        sizes=_sizes(regions),
        checked=np.zeros(count, np.bool_),
    )
    forever = QueryLifetimes(*(np.full(count, step) for step in (batch.timing.first - 1, NEVER)))
    join, _ = _join(batch, events, movers, MovingJoinParams(frame, forever, context.planar))
    _, moved = join_moving(join, objects)
    if not len(moved.step):
        return events
    versions = moved.version
    x, y = places_at(versions, batch.timing.first - 1, *batch.objects.sources, batch.objects.timing.unending)
    return joined(events, Transitions(moved.step, moved.obj, versions, versions, x, y, x, y))


def _join(
    batch: StreamBatch, events: Transitions, movers: MovingQueries, params: MovingJoinParams
) -> tuple[MovingJoin, Array]:
    """Prepare the join of events and moving regions; also return the order of the events in it."""
    order = by_step_and_cell(events, batch.timing.first, params.frame)
    turns = batch.focal.events
    turns = by_step(turns, by_step_and_cell(turns, batch.timing.first, params.frame))
    return MovingJoin(by_step(events, order), turns, movers, params), order


def by_step_and_cell(events: Transitions, first: int, frame: GridFrame) -> Array:
    """Return the order of events by step and, within it, by the cell that an object leaves or else enters.

    Consecutive events then touch cells that are still in the processor's caches. Radix sort on 16 bits takes
    linear time; if the steps do not fit into 16 bits, cells are ignored.
    """
    if not len(events.step) or int(events.step.max()) - first > _RADIX:
        return np.argsort(events.step, kind="stable")
    here, side = np.isnan(events.ox), frame.side
    with np.errstate(over="ignore"):  # infinite places belong to border cells
        column, row = (
            np.nan_to_num(np.clip((np.where(here, new, old) - low) * scale, 0, side - 1)).astype(np.int64)
            for old, new, low, scale in (
                (events.ox, events.nx, frame.x0, frame.per_x),
                (events.oy, events.ny, frame.y0, frame.per_y),
            )
        )
    order = np.argsort((row * side + column).astype(np.uint16), kind="stable")
    return order[np.argsort((events.step[order] - first).astype(np.uint16), kind="stable")]


def movers_of(context: QueryContext, at: Array, cover: MovingRegions | None = None) -> MovingQueries:
    """Return the moving queries at positions, and covering regions, as they are before the batch."""
    queries, rounds = context.queries, context.queries.shape[at] == CIRCLE
    cover = MovingRegions.joined([]) if cover is None else cover
    count = len(cover.query)
    own_sizes = RegionSizes(
        queries.x1[at], queries.y1[at], queries.reach[at], np.where(rounds, queries.radius[at], -1.0)
    )
    checked = (queries.template[at] >= 0) | np.broadcast_to(context.staying, len(queries))[at]
    return _movers(
        context.batch,
        query=np.concatenate([at, cover.query]).astype(np.int32),
        own=np.concatenate([context.focals[at], np.full(count, -1, np.int32)]),
        focal=np.concatenate([queries.focal[at], cover.focal]),
        sizes=RegionSizes(*(np.concatenate(both) for both in zip(own_sizes, _sizes(cover), strict=True))),
        checked=np.concatenate([checked, np.ones(count, np.bool_)]),
    )


def _sizes(regions: MovingRegions) -> RegionSizes:
    return RegionSizes(regions.xdist, regions.ydist, np.full(len(regions.focal), np.nan), regions.radius)


def _movers(
    batch: StreamBatch,
    *,
    query: Array,
    own: Array,
    focal: Array,
    sizes: RegionSizes,
    checked: Array,
) -> MovingQueries:
    """Return regions around focal objects as they are before the batch, see `MovingQueries`."""
    planar, (xdist, ydist, reach, radius) = batch.spec.planar, sizes
    rounds = radius >= 0
    _, xs, ys = batch.focal.at(batch.timing.first - 1)
    x, y = xs[focal], ys[focal]
    now = np.column_stack([extended_boxes(x, y, xdist, ydist, reach, planar), x, y])
    now[rounds, :4] = circle_boxes(x[rounds], y[rounds], radius[rounds], planar)
    start, member = by_focal(focal, len(batch.focal.table))
    return MovingQueries(
        query=query,
        own=own,
        xdist=xdist,
        ydist=ydist,
        reach=reach,
        radius=radius,
        checked=checked,
        now=now,
        past=now.copy(),
        start=start,
        member=member,
    )


def around(prefix: str) -> str:
    """Return the prefix of the cells for regions in conditions, given the prefix of a kind's arrays."""
    return f"{prefix}/around"


def release_cells(batch: StreamBatch, prefix: str) -> None:
    """Release all cells of a kind, because they are not updated if no query is matched with events."""
    for name in (prefix, around(prefix)):
        ObjectCellStore(batch, name).release()


class ObjectCellStore:
    """The cells of a stream's present objects, kept across batches while there are moving queries.

    Arrays below `{prefix}/cells/`, with a kind's prefix: those of `ObjectGrid`, and lattice float64 (6,), a
    `GridFrame` and the number of objects for which it was built.
    """

    def __init__(self, batch: StreamBatch, prefix: str) -> None:
        self._batch, self._prefix = batch, f"{prefix}/cells"

    def release(self) -> None:
        """Release the cells, because they are not updated without moving queries."""
        if f"{self._prefix}/lattice" in self._batch.state:
            self._batch.state.release(f"{self._prefix}/")

    def open(self, events: Transitions) -> tuple[GridFrame, ObjectGrid]:
        """Return the cells with the objects that are present before the batch's first step."""
        state, name = self._batch.state, f"{self._prefix}/lattice"
        count = len(self._batch.objects.table)
        if name not in state or count > _OUTGROWN * state.array(name)[5]:
            self._lay(count, events)
        frame = _frame(state, self._prefix)
        for field, (_, length) in _fields(count, frame.side**2).items():
            state.resize(f"{self._prefix}/{field}", length)
        fields = (state.array(f"{self._prefix}/{field}") for field in ObjectGrid._fields)
        return frame, ObjectGrid(*fields)

    def _lay(self, count: int, events: Transitions) -> None:
        """Build the cells over the places of this batch's objects, and insert the present ones."""
        state = self._batch.state
        _, x, y = self._batch.objects.at(self._batch.timing.first - 1)
        suits = int(np.clip((count / _OBJECTS_A_CELL) ** 0.5, _LEAST_SIDE, _MAX_SIDE))
        side = self._batch.spec.grid or suits
        xs, ys = np.concatenate([x, events.nx]), np.concatenate([y, events.ny])
        frame = frame_over(xs, ys, side, self._batch.spec.bounds)
        add_derived(state, self._prefix, "objects")
        lay_cells(state, self._prefix, frame, (x, y))


def lay_cells(state: SlotState, prefix: str, frame: GridFrame, places: tuple[Array, Array]) -> ObjectGrid:
    """Rebuild the arrays of an `ObjectCellStore` with the objects that are present, and return them.

    `places` are x and y of all objects, float64 (n,) each; NaN means nowhere.
    """
    count, fields = len(places[0]), _fields(len(places[0]), frame.side**2)
    state.replace(f"{prefix}/lattice", np.array([*frame, count], np.float64))
    made = [state.create(f"{prefix}/{field}", kind, length) for field, (kind, length) in fields.items()]
    cells = ObjectGrid(*made)
    fill_objects(cells, *places, frame)
    return cells


def laid(state: SlotState, stream: int) -> dict[str, GridFrame]:
    """Return the grids of all `ObjectCellStore`s of a stream, by the names of their folders."""
    folders = [name for name in derived(state, "objects", stream) if f"{name}/lattice" in state]
    return {name: _frame(state, name) for name in folders}


def _frame(state: SlotState, folder: str) -> GridFrame:
    x0, y0, per_x, per_y, side, _ = state.array(f"{folder}/lattice").tolist()
    return GridFrame(x0, y0, per_x, per_y, int(side))


def _fields(objects: int, cells: int) -> dict[str, tuple[str, int]]:
    """Return the type and length of each array of `ObjectGrid`."""
    blocks = blocks_for(objects, cells)
    lengths = (cells, cells, objects, blocks, blocks * BLOCK, blocks * BLOCK * 2, 2)
    return dict(zip(ObjectGrid._fields, zip("iiiiidl", lengths, strict=True), strict=True))
