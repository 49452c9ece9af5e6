"""Move objects along roads; a cohort holds the objects that report in the same step, as arrays.

Choices do not come from a sequence of random numbers: each is a hash of seed, object, trip and purpose. What
an object does therefore depends neither on other objects nor on how far ahead it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.sources.formats.pyarrow_typing import Array, pc
from stqsh.sources.generator.roads import CLASS_SPEEDS, RoadNetwork


class VehicleClass(NamedTuple):
    """A class of objects: its top speed in m/s, its factor on the traffic's speed, and its states."""

    name: str
    top_speed: float
    factor: float
    states: tuple[str, str]


KINDS = (
    VehicleClass("taxi", 33.0, 1.0, ("free", "occupied")),
    VehicleClass("car", 36.0, 1.0, ("driving", "driving")),
    VehicleClass("bus", 22.0, 0.8, ("in service", "in service")),
    VehicleClass("bike", 6.0, 0.6, ("riding", "riding")),
    VehicleClass("ambulance", 36.0, 1.3, ("emergency", "returning")),
)
STATES = pa.array([state for kind in KINDS for state in kind.states])
SPEEDS = np.array([[min(kind.top_speed, kind.factor * speed) for speed in CLASS_SPEEDS] for kind in KINDS])
"""Speeds in m/s of each kind on each class of road, without an object's habits, (kinds, classes)."""

START, DESTINATION, HUB, HABIT, STATE, KIND, PLACE = range(7)
"""The purposes of random numbers."""

HUBS, HUB_SHARE = 5, 0.2
"""The number of popular destinations, and the share of trips that end at one of them."""


def draw(seed: int, purpose: int, objects: NDArray[np.int64], trips: NDArray[np.integer] | int = 0) -> Floats:
    """Return a number in [0, 1) for each object and trip, (n,): splitmix64 of the arguments."""
    with np.errstate(over="ignore"):
        code = objects.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        code += np.asarray(trips).astype(np.uint64) * np.uint64(0xD1B54A32D192ED03)
        code += np.uint64((seed * 16 + purpose) & 0xFFFFFFFFFFFFFFFF) * np.uint64(0x8CB92BA72F3D8DD7)
        code = (code ^ (code >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        code = (code ^ (code >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        code ^= code >> np.uint64(31)
    return (code >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """Objects between two reports, as arrays (n,).

    Attributes:
        oid: the names of the objects. number: their running numbers.
        kind: indices into `KINDS`.
        edge: the roads on which the objects are. left: metres to the ends of these roads.
        destination: the crossings at the ends of the trips.
        trip: the numbers of completed trips.
        habit: the factors on the traffic's speed during this trip.
    """

    oid: Array
    number: NDArray[np.int64]
    kind: NDArray[np.int8]
    edge: NDArray[np.int32]
    left: Floats
    destination: NDArray[np.int32]
    trip: NDArray[np.int32]
    habit: Floats

    def __len__(self) -> int:
        return len(self.number)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays except the names, which follow from kinds and numbers."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "oid"}

    def take(self, rows: NDArray[np.int64]) -> Cohort:
        """Return some of the objects."""
        return replace(_part(self, rows), oid=self.oid.take(rows))


def joined(cohorts: Sequence[Cohort]) -> dict[str, NDArray[Any]]:
    """Return the concatenated arrays of all cohorts; `cut` is the inverse."""
    columns = [cohort.arrays() for cohort in cohorts]
    return {name: np.concatenate([each[name] for each in columns]) for name in columns[0]}


def cut(arrays: Mapping[str, NDArray[Any]], counts: NDArray[Any]) -> tuple[Cohort, ...]:
    """Split concatenated arrays into cohorts with the given numbers of objects."""
    stops = np.cumsum(counts)
    pieces = zip((stops - counts).tolist(), stops.tolist(), strict=True)
    return tuple(_named(**{name: array[a:b] for name, array in arrays.items()}) for a, b in pieces)


def _named(kind: NDArray[np.int8], number: NDArray[np.int64], **others: NDArray[Any]) -> Cohort:
    """Return a cohort, with the names that follow from kinds and numbers."""
    return Cohort(oid=_names(kind, number), kind=kind, number=number, **others)


def _names(kind: NDArray[Any], number: NDArray[Any]) -> Array:
    """Name objects by their kind and number: taxi-17."""
    words = pa.array([each.name for each in KINDS]).take(kind)
    names: Array = pc.binary_join_element_wise(words, pa.array(number).cast(pa.string()), "-")
    return names


class Traffic(NamedTuple):
    """The roads, the seed, the factor on all speeds, and the weights of `KINDS`, (k,)."""

    road: RoadNetwork
    seed: int
    speed: float
    weights: Floats

    def born(self, first: int, last: int, stride: int = 1) -> Cohort:
        """Create the objects range(first, last, stride), each somewhere on its first road."""
        number = np.arange(first, last, stride, dtype=np.int64)
        shares = np.cumsum(self.weights)
        drawn = np.searchsorted(shares, draw(self.seed, KIND, number) * shares[-1], side="right")
        kind = np.minimum(drawn, np.flatnonzero(self.weights)[-1]).astype(np.int8)
        nothing, zero = np.zeros(len(number), dtype=np.int32), np.zeros(len(number))
        start = (draw(self.seed, START, number) * self.road.nodes).astype(np.int32)
        fresh = Cohort(_names(kind, number), number, kind, nothing, zero, nothing, nothing, zero + 1.0)
        begun = self._on_trip(fresh, start)
        return replace(begun, left=begun.left * (1 - draw(self.seed, PLACE, number)))

    def state_of(self, cohort: Cohort) -> Array:
        """Return the state of each object, strings (n,)."""
        other = draw(self.seed, STATE, cohort.number, cohort.trip) < 0.5
        return STATES.take(cohort.kind * 2 + other)

    def speed_of(self, cohort: Cohort) -> Floats:
        """Return the speed of each object on its road, m/s, (n,)."""
        return self._speed(cohort.kind, cohort.edge, cohort.habit)

    def place_of(self, cohort: Cohort) -> tuple[Floats, Floats]:
        """Return x and y of each object, (n,) each."""
        road = self.road
        share = cohort.left / road.length[cohort.edge]
        source, target = road.source[cohort.edge], road.target[cohort.edge]
        x, y = road.x[target], road.y[target]
        return x + (road.x[source] - x) * share, y + (road.y[source] - y) * share

    def drive(self, cohort: Cohort, seconds: float) -> tuple[Cohort, NDArray[np.bool_]]:
        """Move all objects; return them, and a mask (n,) of those that ended a trip and began another one."""
        moved = Cohort(cohort.oid, **{name: array.copy() for name, array in cohort.arrays().items()})
        time = np.full(len(cohort), seconds)
        ended = np.zeros(len(cohort), dtype=np.bool_)
        active = np.arange(len(cohort))
        while len(active):
            speed = self._speed(moved.kind[active], moved.edge[active], moved.habit[active])
            reach = moved.left[active] / speed
            stays = reach > time[active]
            staying = active[stays]
            moved.left[staying] -= speed[stays] * time[staying]
            active = active[~stays]
            time[active] -= reach[~stays]
            self._cross(moved, active, ended)
        return moved, ended

    def _speed(self, kind: NDArray[np.int8], edge: NDArray[np.int32], habit: Floats) -> Floats:
        return SPEEDS[kind, self.road.kind[edge]] * habit * self.speed

    def _cross(self, moved: Cohort, active: NDArray[np.int64], ended: NDArray[np.bool_]) -> None:
        """Move the `active` objects, which are at crossings, to their next roads or trips."""
        node = self.road.target[moved.edge[active]]
        over = node == moved.destination[active]
        done, going = active[over], active[~over]
        moved.edge[going] = self.road.next_edge[moved.destination[going], node[~over]]
        moved.left[going] = self.road.length[moved.edge[going]]
        if len(done):
            ended[done] = True
            moved.trip[done] += 1
            begun = self._on_trip(_part(moved, done), node[over])
            for name in ("edge", "left", "destination", "habit"):
                getattr(moved, name)[done] = getattr(begun, name)

    def _on_trip(self, cohort: Cohort, node: NDArray[np.int32]) -> Cohort:
        """Place objects that are at crossings (n,) on the first road of their trip."""
        road, number, trip = self.road, cohort.number, cohort.trip
        anywhere = draw(self.seed, DESTINATION, number, trip)
        hub = (anywhere * HUBS).astype(np.int32) * 7919
        to_hub = draw(self.seed, HUB, number, trip) < HUB_SHARE
        destination = (
            np.where(to_hub, road.center + hub, (anywhere * road.nodes).astype(np.int32)) % road.nodes
        )
        destination = np.where(destination == node, (destination + 1) % road.nodes, destination).astype(
            np.int32
        )
        edge = road.next_edge[destination, node]
        habit = 0.8 + 0.4 * draw(self.seed, HABIT, number, trip)
        return replace(cohort, edge=edge, left=road.length[edge], destination=destination, habit=habit)


def _part(cohort: Cohort, rows: NDArray[np.int64]) -> Cohort:
    """Return some objects of a cohort, without their names."""
    return Cohort(cohort.oid, **{name: array[rows] for name, array in cohort.arrays().items()})


def together(one: Cohort, other: Cohort) -> Cohort:
    """Return the objects of both cohorts, in this order."""
    return Cohort(pa.concat_arrays([one.oid, other.oid]), **joined([one, other]))
