"""The queries of one kind over a stream on a slot, as arrays, and the commands of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.conditions.evaluation import parts
from stqsh.core.queries.registrations import NewQueries, gathered
from stqsh.core.state.table import ArraySpec, Specs, StateTable

if TYPE_CHECKING:
    from stqsh.core.objects.object_table import ObjectTable

Array = npt.NDArray[Any]
Spec = dict[str, Any]

ACTIVE, PAUSED = 1, 2

RECT, CIRCLE, AREA = 0, 1, 2
"""What a region is beyond its box: nothing, the places within a radius, those in a row of the areas."""

REGION = ("a", "b", "c", "d", "radius")
"""The columns that say where a region is; while some are scaled, see `stqsh.core.matching.region_scaling`."""


class QueryTable(StateTable):
    """Queries in the order of their ids.

    While some query's region is scaled there are also whole/share float64, the share of its area that is
    left, and whole/{name} for each of `REGION`, the columns as they were registered.
    """

    specs: ClassVar[Specs] = {
        "id": ArraySpec(np.int64),  # ascending
        "mode": ArraySpec(np.uint8),  # ACTIVE or PAUSED
        "until": ArraySpec(np.int64),  # the step at which FOR ends it, NEVER
        "shape": ArraySpec(np.uint8),  # RECT, CIRCLE or AREA
        "a": ArraySpec(np.float64),  # x1; of a stationary circle x; of a moving rectangle its width
        "b": ArraySpec(np.float64),  # y1; of a stationary circle y; of a moving rectangle its height
        "c": ArraySpec(np.float64),  # x2; of a moving rectangle by how much more it reaches, NaN: not at all
        "d": ArraySpec(np.float64),  # y2
        "radius": ArraySpec(np.float64),  # of a circle; infinite where all places belong
        "area": ArraySpec(np.int32),  # row among the slot's areas, -1 for none
        "k": ArraySpec(np.int32),  # how many neighbours are wanted, 0 for other kinds
        "focal": ArraySpec(np.int32),  # focal object, -1 for a region that stands still
        "template": ArraySpec(np.int32),  # shape of its condition, -1 for none
        "params": ArraySpec(np.int32),  # row of its constants among those of the template
        "far": ArraySpec(np.uint8),  # whether its updates tell DISTANCE
        "dwell": ArraySpec(np.int64),  # µs for which a member must stay in or out before it is told
        "least": ArraySpec(np.float64),  # its least accuracy, 0 .. 1: how much of it load shedding leaves
        "tested": ArraySpec(np.int64),  # pairs of events and this query that were looked at so far
        "matched": ArraySpec(np.int64),  # those of them after which the object was a member
        "told": ArraySpec(np.int64),  # updates sent so far
    }

    def append(self, columns: Mapping[str, Any]) -> Array:
        """Add queries, given as columns, and return their positions. Their regions are not scaled."""
        scaled, at = self.shares is not None, super().append(columns)
        if scaled:
            for name in REGION:
                self.state.append(f"{self.prefix}/whole/{name}", columns[name])
            self.state.append(f"{self.prefix}/whole/share", np.ones(len(at)))
        return at

    def keep(self, stay: Array) -> None:
        """Remove all queries but those that stay, bool (n,); the positions of others change."""
        for name in () if self.shares is None else ("share", *REGION):
            self.state.replace(f"{self.prefix}/whole/{name}", self[f"whole/{name}"][stay])
        super().keep(stay)

    @property
    def shares(self) -> Array | None:
        """The share of each region's area that is left, float64 (n,); None while all of them are whole."""
        return self["whole/share"] if f"{self.prefix}/whole/share" in self.state else None

    def set_shares(self, shares: Array | None) -> None:
        """Store shares; the caller changes the columns of regions. None: all regions are whole again."""
        if shares is None:
            self.state.release(f"{self.prefix}/whole/")
            return
        if self.shares is None:
            for name in REGION:
                self.state.replace(f"{self.prefix}/whole/{name}", self[name])
        self.state.replace(f"{self.prefix}/whole/share", shares)

    def whole(self, name: str) -> Array:
        """Return a column of `REGION` as it was registered."""
        return self[name] if self.shares is None else self[f"whole/{name}"]

    def positions(self, ids: Iterable[int]) -> Array:
        """Return where the queries with these ids are; ids that are not there are left out."""
        return np.flatnonzero(np.isin(self["id"], np.array(sorted(ids), np.int64)))

    def resume(self, ids: Iterable[int], step: int) -> Array:
        """Resume paused queries, except those that end at the step, and return their positions."""
        at = self.positions(ids)
        going: Array = at[(self["mode"][at] == PAUSED) & (self["until"][at] > step)]
        self["mode"][going] = ACTIVE
        return going


@dataclass(frozen=True)
class QueryCommands:
    """The commands of a batch, each query named once: its last command counts.

    registered: the new queries, by id. still: the ids of those that are paused at once. dropped, paused,
    resumed: ids of queries that were there before, in the state in which they were. memory: what load
    shedding and caches are to do from the batch's first step on, before queries come: what a `Memory` of
    `stqsh.core.state.retention_mode` has; None: as before.
    """

    registered: NewQueries
    still: set[int]
    dropped: set[int]
    paused: set[int]
    resumed: set[int]
    stream_dropped: bool = False
    memory: Spec | None = None

    @property
    def any(self) -> bool:
        """Whether there is anything to do."""
        there = len(self.registered) or self.dropped or self.paused or self.resumed or self.stream_dropped
        return bool(there) or self.memory is not None

    def of_kind(self, name: str) -> QueryCommands:
        """Return the same, with the new queries of one kind only."""
        return replace(self, registered=self.registered.of_kind(name))


def set_focals(columns: dict[str, Any], new: NewQueries, focals: ObjectTable) -> None:
    """Put the focal objects of new queries into their column "focal"; `focals` knows the keys of all."""
    rows, keys = new.moving(focals.key_type)
    if len(rows):
        columns["focal"][rows] = focals.keys.find(keys)


def digest(commands: Iterable[Spec | NewQueries]) -> QueryCommands:
    """Fold commands that take effect together, in log order; queries of one pattern come as they are.

    A query that is registered and dropped in one batch was never there; one paused and resumed goes on.
    """
    return _Digest().run(commands)


class _Digest:
    """The commands so far. `last` is the last word on each query, but for its being registered."""

    def __init__(self) -> None:
        self.new: dict[int, Spec] = {}
        self.alike: list[NewQueries] = []
        self.cancelled: set[int] = set()
        self.last: dict[int, str] = {}
        self.stream_dropped = False
        self.memory: Spec | None = None

    def run(self, commands: Iterable[Spec | NewQueries]) -> QueryCommands:
        """Take all of them in, and say what they come to."""
        for command in commands:
            if isinstance(command, NewQueries):
                self.alike.append(command)
            else:
                self._take(command)
        return self._commands()

    def _take(self, command: Spec) -> None:
        op = command["op"]
        if op == "drop_stream":
            self.stream_dropped = True
        elif op == "memory":
            self.memory = {name: value for name, value in command.items() if name != "op"}
        elif op == "register":
            self.new[command["query"]["id"]] = command["query"]
        else:
            self._change(command["id"], op)

    def _change(self, id_: int, op: str) -> None:
        if op == "drop" and self._is_new(id_):
            self.cancelled.add(id_)
            self.last.pop(id_, None)
        elif self.last.get(id_) != "drop":
            self.last[id_] = op

    def _is_new(self, id_: int) -> bool:
        return id_ in self.new or any(_has(some.ids, id_) for some in self.alike)

    def _commands(self) -> QueryCommands:
        said: dict[str, set[int]] = {op: set() for op in ("still", "drop", "pause", "resume")}
        for id_, op in self.last.items():
            if not self._is_new(id_):
                said[op].add(id_)
            elif op == "pause" and id_ not in self.cancelled:
                said["still"].add(id_)
        new = gathered([NewQueries.of([*self.new.values()]), *self.alike])
        if self.cancelled:
            new = new.those(~np.isin(new.ids, list(self.cancelled)))
        return QueryCommands(
            new, said["still"], said["drop"], said["pause"], said["resume"], self.stream_dropped, self.memory
        )


def _has(ids: Array, id_: int) -> bool:
    """Return whether an ascending array has an id."""
    at = int(np.searchsorted(ids, id_))
    return at < len(ids) and bool(ids[at] == id_)


def columns_of(new: NewQueries, still: set[int], timing: BatchTiming) -> dict[str, Any]:
    """New queries as the columns of a `QueryTable`, but for areas, focal objects and conditions."""
    at, count, specs = timing.at(timing.first), len(new), new.patterns
    lasting = [spec.get("for_us") for spec in specs]
    regions = [spec["region"] for spec in specs]
    options = [spec.get("options", {}) for spec in specs]
    until = [NEVER if us is None else max(timing.first, timing.step_reaching(at + us)) for us in lasting]
    far = [bool(parts([expr for _, expr in spec.get("select", ())], "distance")) for spec in specs]
    nothing = {name: np.zeros(count) for name in ("params", "tested", "matched", "told")}
    return nothing | {
        "id": new.ids,
        "mode": np.where(np.isin(new.ids, list(still)), PAUSED, ACTIVE),
        "until": new.spread(until, np.int64),
        "shape": new.spread([_SHAPES.get(region["type"], RECT) for region in regions], np.uint8),
        **_region_columns(new),
        "k": new.spread([region.get("k", 0) for region in regions], np.int32),
        **{name: np.full(count, -1) for name in ("area", "focal", "template")},
        "far": new.spread(far, np.uint8),
        "dwell": new.spread([given.get("dwell_us", 0) for given in options], np.int64),
        "least": new.spread([given.get("min_accuracy", 0.0) for given in options], np.float64),
    }


_SHAPES = {"circle": CIRCLE, "moving_circle": CIRCLE, "nearest": CIRCLE, "polygon": AREA, "area": AREA}
_COLUMN_OF = {
    **{"x1": "a", "y1": "b", "x2": "c", "y2": "d"},
    **{"x": "a", "y": "b", "xdist": "a", "ydist": "b", "radius": "radius"},
}
"""The columns of the numbers that differ among the queries of a pattern."""


def _region_columns(new: NewQueries) -> dict[str, Array]:
    """Return the columns of `REGION`: as the patterns say, or as the queries' own numbers do."""
    corners = np.array([_corners(spec["region"]) for spec in new.patterns], np.float64).reshape(-1, 4)
    columns = {name: corners[new.which, i] for i, name in enumerate("abcd")}
    radii = [spec["region"].get("radius", np.inf) for spec in new.patterns]
    columns["radius"] = new.spread(radii, np.float64)
    for name, values in new.numbers.items():
        own = ~np.isnan(values)
        columns[_COLUMN_OF[name]][own] = values[own]
    return columns


def _corners(region: Spec) -> tuple[float, float, float, float]:
    """Return the numbers of a region, in the order of the columns a to d."""
    if region["type"] == "moving_rect":
        return region["xdist"], region["ydist"], np.nan, np.nan
    if region["type"] == "all":
        return -np.inf, -np.inf, np.inf, np.inf
    if region["type"] == "rect":
        return region["x1"], region["y1"], region["x2"], region["y2"]
    return region.get("x", np.nan), region.get("y", np.nan), np.nan, np.nan
