"""Moving queries of a batch: sets the stage for `stqsh.core.kernels.moving`, and keeps the objects' cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.kernels.cells import ObjectCells, fill_objects
from stqsh.core.kernels.distance import EARTH_M
from stqsh.core.kernels.events import Events
from stqsh.core.kernels.moving import Field, Movers, follow_movers
from stqsh.core.kernels.stationary import Lattice, Lives, Pairs
from stqsh.core.kinds.protocol import StreamBatch
from stqsh.core.matching.answers import RegionContext
from stqsh.core.matching.queries import ACTIVE, CIRCLE
from stqsh.core.objects.events import follows_objects
from stqsh.core.objects.movement import by_step, joined
from stqsh.core.regions.grid import large_from, lattice_over, suitable_side

Array = npt.NDArray[Any]

_MAX_SIDE = 256
_OBJECTS_A_CELL = 2
_OUTGROWN = 4
"""Cells are laid anew once there are so many times as many objects."""
_FARTHEST = 0.01
"""The cosine of the latitude from which on regions are not taken to be wider."""


def moving_pairs(context: RegionContext, events: Events, lives: Lives) -> tuple[Pairs, Events]:
    """The pairs that moving queries bring, and the events with those added to which pairs refer.

    An object that a region gained or lost by moving itself becomes an event that changed nothing about it.
    """
    queries, batch = context.queries, context.batch
    at = np.flatnonzero((queries["focal"] >= 0) & (queries["mode"] == ACTIVE)).astype(np.int32)
    cells = CellStore(batch, context.prefix)
    if not len(at):
        cells.release()
        return Pairs(*(np.empty(0, kind) for kind in (np.int32, np.int32, np.uint8))), events
    lattice, objects = cells.open(events)
    movers = _movers(context, at)
    coarse = _coarse(lattice, movers, context.planar)
    field = Field(lattice, coarse, large_from(coarse.side), lives, context.planar)
    order = np.argsort(events.step, kind="stable")
    turns = by_step(batch.focal.events, np.argsort(batch.focal.events.step, kind="stable"))
    seen = follow_movers(by_step(events, order), turns, objects, movers, field)
    lone = np.flatnonzero(seen.event < 0)
    x, y = np.zeros(len(lone)), np.zeros(len(lone))  # present, wherever that is
    version = seen.version[lone]
    more = Events(seen.step[lone], seen.obj[lone], version, version, x, y, x, y)
    event = order[seen.event].astype(np.int32) if len(order) else np.empty(len(seen.event), np.int32)
    event[lone] = len(events.step) + np.arange(len(lone))
    return Pairs(event, seen.query, seen.flags), joined(events, more)


def _movers(context: RegionContext, at: Array) -> Movers:
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


def _coarse(lattice: Lattice, movers: Movers, planar: bool) -> Lattice:
    """A grid over the same ground for the lists of regions, which are made anew in each batch: as fine as the
    regions are large, where that of the objects is as fine as there are many.
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
    side = suitable_side(np.column_stack([none, none, wide, high]), bounds)
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
        before = len(state.array(f"{self._prefix}/cell"))
        for field in ObjectCells._fields[1:]:
            state.resize(f"{self._prefix}/{field}", count)
        cells = ObjectCells(*(state.array(f"{self._prefix}/{field}") for field in ObjectCells._fields))
        cells.x[before:] = cells.y[before:] = np.nan
        x0, y0, per_x, per_y, side, _ = state.array(name).tolist()
        return Lattice(x0, y0, per_x, per_y, int(side)), cells

    def _lay(self, count: int, events: Events) -> None:
        """Lay the cells over where objects are or come to in this batch, and put those in that are there."""
        state = self._batch.state
        _, x, y = self._batch.objects.at(self._batch.timing.first - 1)
        side = int(np.clip((count / _OBJECTS_A_CELL) ** 0.5, 16, _MAX_SIDE))
        xs, ys = np.concatenate([x, events.nx]), np.concatenate([y, events.ny])
        lattice = lattice_over(xs, ys, side, self._batch.spec["bounds"])
        state.replace(f"{self._prefix}/lattice", np.array([*lattice, count], np.float64))
        state.create(f"{self._prefix}/head", np.int32, side * side)
        follows_objects(state, self._prefix)
        for field, kind in zip(ObjectCells._fields[1:], "iiidd", strict=True):
            state.create(f"{self._prefix}/{field}", kind, count)
        cells = ObjectCells(*(state.array(f"{self._prefix}/{field}") for field in ObjectCells._fields))
        fill_objects(cells, x, y, lattice)
