"""Moving queries of a batch: sets the stage for `stqsh.core.kernels.moving`, and keeps the objects' cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.kernels.cells import BLOCK, ObjectCells, blocks_for, fill_objects
from stqsh.core.kernels.distance import EARTH_M
from stqsh.core.kernels.events import Events
from stqsh.core.kernels.moving import Field, Movers, follow_movers
from stqsh.core.kernels.stationary import Lattice, Lives, Pairs
from stqsh.core.kinds.protocol import StreamBatch
from stqsh.core.matching.answers import RegionContext
from stqsh.core.matching.queries import ACTIVE, CIRCLE
from stqsh.core.objects.events import follows_objects
from stqsh.core.objects.movement import by_step
from stqsh.core.regions.grid import large_from, lattice_over, suitable_side
from stqsh.core.slot.state import SlotState

Array = npt.NDArray[Any]

_MAX_SIDE = 256
_OBJECTS_A_CELL = 2
_OUTGROWN = 4
"""Cells are laid anew once there are so many times as many objects."""
_RADIX = (1 << 16) - 1
_FARTHEST = 0.01
"""The cosine of the latitude from which on regions are not taken to be wider."""


def moving_pairs(context: RegionContext, events: Events, lives: Lives) -> tuple[Pairs, Events]:
    """The pairs that moving queries bring, and the events behind those given to which some of them refer.

    An object that a region gained or lost by moving itself becomes an event that changed nothing about it.
    """
    queries, batch = context.queries, context.batch
    at = np.flatnonzero((queries["focal"] >= 0) & (queries["mode"] == ACTIVE)).astype(np.int32)
    cells = CellStore(batch, context.prefix)
    if not len(at):
        cells.release()
        none = Pairs(*(np.empty(0, kind) for kind in (np.int32, np.int32, np.uint8)))
        return none, by_step(events, slice(0))
    lattice, objects = cells.open(events)
    movers = movers_of(context, at)
    field = field_of(lattice, movers, lives, context.planar)
    order = _by_step_and_cell(events, batch.timing.first, lattice)
    turns = by_step(batch.focal.events, np.argsort(batch.focal.events.step, kind="stable"))
    seen = follow_movers(by_step(events, order), turns, objects, movers, field)
    lone = np.flatnonzero(seen.event < 0)
    x, y = np.zeros(len(lone)), np.zeros(len(lone))  # present, wherever that is
    version = seen.version[lone]
    more = Events(seen.step[lone], seen.obj[lone], version, version, x, y, x, y)
    event = order[seen.event].astype(np.int32) if len(order) else np.empty(len(seen.event), np.int32)
    event[lone] = len(events.step) + np.arange(len(lone))
    return Pairs(event, seen.query, seen.flags), more


def _by_step_and_cell(events: Events, first: int, lattice: Lattice) -> Array:
    """The order of events by step and, within it, by the cell that an object leaves or else enters.

    Neighbours then find each other's lists and seats in the caches. Sorting by 16 bits takes linear time;
    where more steps than that are told apart, cells play no part.
    """
    if not len(events.step) or int(events.step.max()) - first > _RADIX:
        return np.argsort(events.step, kind="stable")
    here, side = np.isnan(events.ox), lattice.side
    column, row = (
        np.nan_to_num(np.clip((np.where(here, new, old) - low) * scale, 0, side - 1)).astype(np.int64)
        for old, new, low, scale in (
            (events.ox, events.nx, lattice.x0, lattice.per_x),
            (events.oy, events.ny, lattice.y0, lattice.per_y),
        )
    )
    order = np.argsort((row * side + column).astype(np.uint16), kind="stable")
    return order[np.argsort((events.step[order] - first).astype(np.uint16), kind="stable")]


def movers_of(context: RegionContext, at: Array) -> Movers:
    """The moving queries at these positions, as they are before the batch."""
    queries, before = context.queries, context.batch.timing.first - 1
    focal = queries["focal"][at]
    places = context.centres(at, np.full(len(at), before))
    now = np.column_stack([context.boxes(at, before), *places])
    start = np.searchsorted(np.sort(focal), np.arange(len(context.batch.focal.table) + 1))
    return Movers(
        query=at,
        xdist=queries["a"][at],
        ydist=queries["b"][at],
        reach=queries["c"][at],
        radius=np.where(queries["shape"][at] == CIRCLE, queries["radius"][at], -1.0),
        checked=(queries["template"][at] >= 0) | context.staying,
        now=now,
        past=now.copy(),
        start=start.astype(np.int32),
        member=np.argsort(focal, kind="stable").astype(np.int32),
    )


def field_of(lattice: Lattice, movers: Movers, lives: Lives, planar: bool) -> Field:
    """Where movers and objects meet; lattice: that of the objects' cells."""
    coarse = _coarse(lattice, movers, planar)
    return Field(lattice, coarse, large_from(coarse.side), lives, planar)


def _coarse(lattice: Lattice, movers: Movers, planar: bool) -> Lattice:
    """A grid over the same ground for the lists of regions, which are made anew in each batch: as fine as the
    regions are large, where that of the objects is as fine as there are many. Half as fine as suits regions
    that stand still: lists that are longer by a third are made in a third of the time.
    """
    rounds, margin = movers.radius >= 0, np.fmax(movers.reach, 0)
    wide, high = (
        np.where(rounds, 2 * movers.radius, sides + 2 * margin) for sides in (movers.xdist, movers.ydist)
    )
    x, y = lattice.x0 + lattice.side / lattice.per_x, lattice.y0 + lattice.side / lattice.per_y
    if not planar:
        wide, high = np.degrees(wide / EARTH_M), np.degrees(high / EARTH_M)
        wide /= max(np.cos(np.radians((lattice.y0 + y) / 2)), _FARTHEST)
    none = np.zeros(len(wide))
    bounds = [lattice.x0, lattice.y0, x, y]
    side = -(-suitable_side(np.column_stack([none, none, wide, high]), bounds) // 2)
    return lattice_over(none[:0], none[:0], side, bounds)


class CellStore:
    """The cells of a stream's present objects, kept from batch to batch while there are moving queries.

    Arrays beneath `{prefix}/cells/`, the prefix that of a kind: those of `ObjectCells`, and lattice float64
    (6,): a `Lattice` and the number of objects for which it was laid.
    """

    def __init__(self, batch: StreamBatch, prefix: str) -> None:
        self._batch, self._prefix = batch, f"{prefix}/cells"

    def release(self) -> None:
        """Forget the cells: without moving queries nobody keeps them true."""
        if f"{self._prefix}/lattice" in self._batch.state:
            self._batch.state.release(f"{self._prefix}/")

    def open(self, events: Events) -> tuple[Lattice, ObjectCells]:
        """The cells with the objects that are present before the batch's first step."""
        state, name = self._batch.state, f"{self._prefix}/lattice"
        count = len(self._batch.objects.table)
        if name not in state or count > _OUTGROWN * state.array(name)[5]:
            self._lay(count, events)
        x0, y0, per_x, per_y, side, _ = state.array(name).tolist()
        for field, (_, length) in _fields(count, int(side) ** 2).items():
            state.resize(f"{self._prefix}/{field}", length)
        cells = ObjectCells(*(state.array(f"{self._prefix}/{field}") for field in ObjectCells._fields))
        return Lattice(x0, y0, per_x, per_y, int(side)), cells

    def _lay(self, count: int, events: Events) -> None:
        """Lay the cells over where objects are or come to in this batch, and put those in that are there."""
        state = self._batch.state
        _, x, y = self._batch.objects.at(self._batch.timing.first - 1)
        side = int(np.clip((count / _OBJECTS_A_CELL) ** 0.5, 16, _MAX_SIDE))
        xs, ys = np.concatenate([x, events.nx]), np.concatenate([y, events.ny])
        lattice = lattice_over(xs, ys, side, self._batch.spec["bounds"])
        follows_objects(state, self._prefix)
        lay_cells(state, self._prefix, lattice, (x, y))


def lay_cells(state: SlotState, prefix: str, lattice: Lattice, places: tuple[Array, Array]) -> ObjectCells:
    """Make the arrays of a `CellStore` anew, with the objects that are there; these arrays.

    places: x and y of all objects, float64 (n,) each; NaN: nowhere.
    """
    count, fields = len(places[0]), _fields(len(places[0]), lattice.side**2)
    state.replace(f"{prefix}/lattice", np.array([*lattice, count], np.float64))
    made = [state.create(f"{prefix}/{field}", kind, length) for field, (kind, length) in fields.items()]
    cells = ObjectCells(*made)
    fill_objects(cells, *places, lattice)
    return cells


def _fields(objects: int, cells: int) -> dict[str, tuple[str, int]]:
    """The type and length of each array of `ObjectCells`."""
    blocks = blocks_for(objects, cells)
    lengths = (cells, cells, objects, blocks, blocks * BLOCK, blocks * BLOCK * 2, 2)
    return dict(zip(ObjectCells._fields, zip("iiiiidl", lengths, strict=True), strict=True))
