"""The queries of one kind over a stream on a slot, as arrays, and the commands of a batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec.structs import asdict

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.queries.query_polygons import assign_polygons, release_polygons
from stqsh.core.queries.registrations import NewQueries, gathered
from stqsh.core.state.retention_mode import RetentionOrder
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import Alias, ArraySpec, StateTable
from stqsh.spec.command import (
    AlterCommand,
    DropCommand,
    DropStreamCommand,
    MemoryCommand,
    PauseCommand,
    RegisterCommand,
    ResumeCommand,
    SlotCommand,
)
from stqsh.spec.expression import DistanceExpr, has_node
from stqsh.spec.query import SlotQuery
from stqsh.spec.region import (
    CircleSpec,
    EverywhereSpec,
    MovingCircleSpec,
    MovingRectangleSpec,
    NamedRegionSpec,
    NearestSpec,
    PolygonSpec,
    RectangleSpec,
    Region,
    RegionBase,
)

if TYPE_CHECKING:
    from stqsh.core.objects.object_table import ObjectTable


ACTIVE, PAUSED = 1, 2

RECT, CIRCLE, AREA = 0, 1, 2
"""The shape of a region: its box, the places within a radius, or a row of the table of areas."""

REGION = ("x1", "y1", "x2", "y2", "radius")
"""The columns that define a region; for scaled ones see `stqsh.core.matching.region_scaling`."""


class QueryTable(StateTable):
    """Queries in the order of their ids.

    While some query's region is scaled, there are further arrays: whole/share, float64, the remaining share
    of its area, and whole/{name} for each of `REGION`, the columns as registered.
    """

    id = ArraySpec(np.int64)  # ascending
    mode = ArraySpec(np.uint8)  # ACTIVE or PAUSED
    until = ArraySpec(np.int64)  # the step at which FOR ends it, NEVER without FOR
    shape = ArraySpec(np.uint8)  # RECT, CIRCLE or AREA
    x1 = ArraySpec(np.float64)  # of a box; x of a static circle
    y1 = ArraySpec(np.float64)  # of a box; y of a static circle
    x2 = ArraySpec(np.float64)  # of a box
    y2 = ArraySpec(np.float64)  # of a box
    width, height = Alias("x1"), Alias("y1")  # of a moving rectangle
    reach = Alias("x2")  # extension of a moving region, NaN for none
    radius = ArraySpec(np.float64)  # of a circle; infinite if it contains all places
    area = ArraySpec(np.int32)  # row among the slot's areas, -1 for none
    k = ArraySpec(np.int32)  # number of neighbours, 0 for other kinds
    focal = ArraySpec(np.int32)  # focal object, -1 for a static region
    template = ArraySpec(np.int32)  # of its condition, -1 for none
    constants = ArraySpec(np.int32)  # row of its constants among those of the template
    shows_distance = ArraySpec(np.uint8)  # whether its updates have DISTANCE
    dwell = ArraySpec(np.int64)  # DWELL, µs
    min_accuracy = ArraySpec(np.float64)  # 0 .. 1: the share of its area that load shedding must leave
    tested = ArraySpec(np.int64)  # pairs of events, or of records at refreshes, and this query so far
    matched = ArraySpec(np.int64)  # tested pairs after which the object was a member
    sent = ArraySpec(np.int64)  # updates sent so far

    def register(
        self, new: NewQueries, paused: Collection[int], timing: BatchTiming, focals: ObjectTable
    ) -> Array:
        """Add new queries, unscaled and without their conditions, and return their positions, ascending.

        Positions of other queries change if the slot gets an older query, whose id is not the greatest.

        Args:
            new: The queries; their polygons are stored too.
            paused: The ids of those that are paused at once.
            timing: The batch's timing.
            focals: The table of the focal objects of all queries.

        Raises:
            KeyError: there is no such named region.
        """
        specs = new.patterns
        distance = [any(has_node(value, DistanceExpr) for value in spec.values) for spec in specs]
        self.append(
            id=new.ids,
            mode=np.where(np.isin(new.ids, list(paused)), PAUSED, ACTIVE),
            until=_last_steps(new, timing),
            **_region_columns(self.state, new, focals),
            template=np.full(len(new), -1),
            shows_distance=new.spread(distance, np.uint8),
            dwell=new.spread([spec.timing.dwell_us or 0 for spec in specs], np.int64),
            min_accuracy=new.spread([spec.members.min_accuracy or 0.0 for spec in specs], np.float64),
        )
        return self._sort(new.ids)

    def relocate(self, positions: Array, new: NewQueries, focals: ObjectTable) -> None:
        """Replace the regions of queries, unscaled, and their numbers of neighbours; nothing else changes.

        Args:
            positions: The queries.
            new: The same queries with their new regions, in the same order.
            focals: The table of the focal objects of all queries.

        Raises:
            KeyError: there is no such named region.
        """
        columns, before = _region_columns(self.state, new, focals), self.area[positions].copy()
        for name, values in columns.items():
            self.array(name)[positions] = values
        if self.shares is not None:
            for name in REGION:
                self.whole(name)[positions] = columns[name]
            self.array("whole/share")[positions] = 1
        release_polygons(self.state, before)

    def _sort(self, ids: Array) -> Array:
        """Sort all queries by id; return the positions of the queries with these ids."""
        if (self.id[1:] < self.id[:-1]).any():
            order = np.argsort(self.id, kind="stable")
            names = list(self._specs)
            if self.shares is not None:
                names += [f"whole/{name}" for name in ("share", *REGION)]
            for name in names:
                self.state.replace(f"{self.prefix}/{name}", self.array(name)[order])
        return np.searchsorted(self.id, ids)

    def append(self, **columns: npt.ArrayLike) -> Array:
        """Append queries with unscaled regions, and return their positions."""
        scaled, at = self.shares is not None, super().append(**columns)
        if scaled:
            for name in REGION:
                self.state.append(f"{self.prefix}/whole/{name}", columns[name])
            self.state.append(f"{self.prefix}/whole/share", np.ones(len(at)))
        return at

    def keep(self, stay: Array) -> None:
        """Keep only the queries marked in `stay`, bool (n,); the positions of others change."""
        for name in () if self.shares is None else ("share", *REGION):
            self.state.replace(f"{self.prefix}/whole/{name}", self.array(f"whole/{name}")[stay])
        super().keep(stay)

    @property
    def shares(self) -> Array | None:
        """The remaining share of each region's area, float64 (n,); None if no region is scaled."""
        return self.array("whole/share") if f"{self.prefix}/whole/share" in self.state else None

    def set_shares(self, shares: Array | None) -> None:
        """Store shares, or None if no region is scaled; the caller changes the columns of regions."""
        if shares is None:
            self.state.release(f"{self.prefix}/whole/")
            return
        if self.shares is None:
            for name in REGION:
                self.state.replace(f"{self.prefix}/whole/{name}", self.array(name))
        self.state.replace(f"{self.prefix}/whole/share", shares)

    def whole(self, name: str) -> Array:
        """Return a column of `REGION` as registered."""
        return self.array(name) if self.shares is None else self.array(f"whole/{name}")

    def remove(self, positions: Array) -> None:
        """Remove queries and their polygons; the positions of others change."""
        release_polygons(self.state, self.area[positions])
        super().remove(positions)

    def positions(self, ids: Iterable[int]) -> Array:
        """Return the positions of the queries with these ids; unknown ids are ignored."""
        return np.flatnonzero(np.isin(self.id, np.array(sorted(ids), np.int64)))

    def counters(self, positions: Array) -> dict[str, Array]:
        """Return the ids of queries and their counters for EXPLAIN: int64 (n,) by column."""
        return {name: self.array(name)[positions] for name in ("id", "tested", "matched", "sent")}

    def resume(self, ids: Iterable[int], step: int) -> Array:
        """Resume paused queries, except those that end at the step, and return their positions."""
        at = self.positions(ids)
        going: Array = at[(self.mode[at] == PAUSED) & (self.until[at] > step)]
        self.mode[going] = ACTIVE
        return going


@dataclass(frozen=True)
class QueryCommands:
    """The commands of a batch; the last command for each query counts.

    Attributes:
        registered: The new queries, by id.
        still: The ids of new queries that are paused at once.
        dropped, paused, resumed: The ids of older queries.
        altered: Older queries with their new regions and conditions.
        stream_dropped: Whether the whole stream is dropped.
        memory: The state of load shedding and cache areas from the batch's first step on, before new queries;
            None if unchanged.
    """

    registered: NewQueries
    still: set[int]
    dropped: set[int]
    paused: set[int]
    resumed: set[int]
    altered: NewQueries
    stream_dropped: bool = False
    memory: RetentionOrder | None = None

    @property
    def any(self) -> bool:
        """Whether there are any commands."""
        there = len(self.registered) or self.dropped or self.paused or self.resumed or self.stream_dropped
        return bool(there or len(self.altered)) or self.memory is not None

    def since(self, first: int) -> QueryCommands:
        """Return the same commands, with the conditions of SINCE NOW; `first` is the batch's first step."""
        return replace(self, registered=self.registered.since(first), altered=self.altered.since(first))

    def of_kind(self, name: str) -> QueryCommands:
        """Return the same commands, with the new and the altered queries of one kind only."""
        return replace(self, registered=self.registered.of_kind(name), altered=self.altered.of_kind(name))


def digest(commands: Iterable[SlotCommand | NewQueries]) -> QueryCommands:
    """Combine commands that take effect together, in log order; queries of one pattern stay together.

    A query that is registered and dropped in one batch never existed; one that is paused and resumed
    continues.
    """
    return _Digest().run(commands)


_OPERATIONS = {DropCommand: "drop", PauseCommand: "pause", ResumeCommand: "resume"}


class _Digest:
    """The commands so far; `last` is the last command for each query, except its registration."""

    def __init__(self) -> None:
        self.new: dict[int, RegisterCommand] = {}
        self.alike: list[NewQueries] = []
        self.cancelled: set[int] = set()
        self.last: dict[int, str] = {}
        self.altered: dict[int, AlterCommand] = {}
        self.stream_dropped = False
        self.memory: RetentionOrder | None = None

    def run(self, commands: Iterable[SlotCommand | NewQueries]) -> QueryCommands:
        """Process all commands, and return their combined effect."""
        for command in commands:
            if isinstance(command, NewQueries):
                self.alike.append(command)
            else:
                self._take(command)
        return self._commands()

    def _take(self, command: SlotCommand) -> None:
        match command:
            case DropStreamCommand():
                self.stream_dropped = True
            case MemoryCommand():
                self.memory = RetentionOrder(**asdict(command))
            case RegisterCommand():
                self.new[command.query.id] = command
            case DropCommand() | PauseCommand() | ResumeCommand():
                self._change(command.id, _OPERATIONS[type(command)])
            case AlterCommand():
                self._alter(command)

    def _alter(self, command: AlterCommand) -> None:
        """Store the last form of a query; a new query is registered in it."""
        id_, query = command.id, command.query
        mine = self.new.get(id_)
        if mine is not None and mine.step is None:
            self.new[id_] = RegisterCommand(query=query)
            return
        for number, some in enumerate(self.alike):
            at = np.flatnonzero(some.ids == id_)
            if len(at) and some.are_new[at[0]]:
                self.alike[number] = some.those(some.ids != id_)
                self.new[id_] = RegisterCommand(query=query)
                return
        self.altered[id_] = command

    def _change(self, id_: int, op: str) -> None:
        if op == "drop" and self._is_new(id_):
            self.cancelled.add(id_)
            self.last.pop(id_, None)
        elif self.last.get(id_) != "drop":
            self.last[id_] = op

    def _is_new(self, id_: int) -> bool:
        return id_ in self.new or any(_has(some.ids, id_) for some in self.alike)

    def _commands(self) -> QueryCommands:
        def last_is(op: str, *, new: bool = False) -> set[int]:
            return {id_ for id_, last in self.last.items() if last == op and self._is_new(id_) is new}

        new = gathered([_alone(self.new.values()), *self.alike])
        if self.cancelled:
            new = new.those(~np.isin(new.ids, list(self.cancelled)))
        return QueryCommands(
            new,
            last_is("pause", new=True) - self.cancelled,
            last_is("drop"),
            last_is("pause"),
            last_is("resume"),
            _alone(one for id_, one in sorted(self.altered.items()) if self.last.get(id_) != "drop"),
            self.stream_dropped,
            self.memory,
        )


def _alone(commands: Iterable[RegisterCommand | AlterCommand]) -> NewQueries:
    """Return queries with one spec each, and the steps in which older ones were registered."""
    given = list(commands)
    steps = [-1 if command.step is None else command.step for command in given]
    specs = [command.query for command in given]
    return NewQueries.of(specs, steps if max(steps, default=-1) >= 0 else None)


def _region_columns(state: SlotState, new: NewQueries, focals: ObjectTable) -> dict[str, Array]:
    """Return the columns of a table that define regions and neighbours, and store the regions' polygons."""
    box, radius = _boxes(new)
    area = assign_polygons(state, new, box)
    regions = [spec.region for spec in new.patterns]
    x1, y1, x2, y2 = box.T
    return {
        "shape": new.spread([_SHAPES.get(type(region), RECT) for region in regions], np.uint8),
        "x1": x1,
        "y1": y1,
        "x2": x2,
        "y2": y2,
        "radius": radius,
        "area": area,
        "k": new.spread([_neighbours(region) for region in regions], np.int32),
        "focal": _focals(new, focals),
    }


def _last_steps(new: NewQueries, timing: BatchTiming) -> Array:
    """Return the step at which FOR ends each new query, at least the batch's first one; NEVER without FOR."""
    durations = [spec.timing.for_us for spec in new.patterns]
    lasting = new.spread([-1 if us is None else us for us in durations], np.int64)
    ends = timing.step_reaching(timing.at(new.begun(timing.first)) + lasting)
    return np.where(lasting < 0, NEVER, np.maximum(ends, timing.first))


def is_over(query: SlotQuery, begun: int | None, timing: BatchTiming) -> bool:
    """Return whether FOR ends a query, registered in step `begun`, in a batch's first step or before."""
    steps = None if begun is None else [begun]
    return bool(_last_steps(NewQueries.of([query], steps), timing)[0] <= timing.first) and begun is not None


def _has(ids: Array, id_: int) -> bool:
    """Return whether an ascending array contains an id."""
    at = int(np.searchsorted(ids, id_))
    return at < len(ids) and bool(ids[at] == id_)


def _focals(new: NewQueries, focals: ObjectTable) -> Array:
    """Return the focal object of each new query, -1 for static ones; int32 (n,)."""
    found = np.full(len(new), -1, np.int32)
    rows, keys = new.moving(focals.key_type)
    if len(rows):
        found[rows] = focals.keys.find(keys)
    return found


_SHAPES: dict[type[RegionBase], int] = {
    CircleSpec: CIRCLE,
    MovingCircleSpec: CIRCLE,
    NearestSpec: CIRCLE,
    PolygonSpec: AREA,
    NamedRegionSpec: AREA,
}
_CORNERS = {"x1": 0, "y1": 1, "x2": 2, "y2": 3, "x": 0, "y": 1, "xdist": 0, "ydist": 1}
"""The columns of `_boxes` for the numbers of a region."""


def _boxes(new: NewQueries) -> tuple[Array, Array]:
    """Return the boxes, float64 (n, 4), and radii, float64 (n,), of new queries."""
    regions = [spec.region for spec in new.patterns]
    box = np.array([_corners(region) for region in regions], np.float64).reshape(-1, 4)[new.which]
    radius = new.spread([_radius(region) for region in regions], np.float64)
    for name, values in new.numbers.items():
        own = ~np.isnan(values) & ~(new.spread([_meets(region) for region in regions], np.bool_))
        target = radius if name == "radius" else box[:, _CORNERS[name]]
        target[own] = values[own]
    return box, radius


def _corners(region: Region) -> tuple[float, float, float, float]:
    """Return the numbers of a region in the order of the columns x1, y1, x2, y2."""
    match region:
        case MovingRectangleSpec():
            return region.xdist, region.ydist, np.nan, np.nan
        case EverywhereSpec():
            return -np.inf, -np.inf, np.inf, np.inf
        case RectangleSpec():
            return region.box
        case CircleSpec():
            return region.x, region.y, np.nan, np.nan
        case NearestSpec(place=(x, y)):
            return x, y, np.nan, np.nan
    return np.nan, np.nan, np.nan, np.nan


def _neighbours(region: Region) -> int:
    """Return the number of neighbours that a region asks for; 0 for other regions."""
    return region.k if isinstance(region, NearestSpec) else 0


def _radius(region: Region) -> float:
    """Return the radius of a circle; infinite for other regions."""
    if isinstance(region, CircleSpec | MovingCircleSpec) and not _meets(region):
        return region.radius
    return np.inf


def _meets(region: Region) -> bool:
    """Return whether objects in all places may belong to a region, because extents must only meet it."""
    return isinstance(region, MovingCircleSpec) and region.meets
