"""The workload of SOLE section 7: a town of 28 x 28 miles, 10 k objects, and 100 new ones each time unit.

A time unit is the time within which every object reports once; reports are spread over it evenly, by steps of
a second. The paper names no unit; ours is the 30 s of its section 7.2. Objects never leave. They drive as
section 7.2's middle speed: no faster than 30 miles an hour unless a figure says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.sources.generator.network import NetworkGenerator
from stqsh.sources.generator.vehicles import SPEEDS
from stqsh.spec.chunk import pack, unpack
from stqsh.spec.stream import ColumnSpec, GeneratorSourceSpec, Retention, StreamSpec

Array = np.ndarray[Any, np.dtype[Any]]
Spec = dict[str, Any]
Say = Callable[[str], None]

MILE = 1609.344
"""Metres."""

SIDE = 28 * MILE
"""Of the town, metres; the stream is planar, and its unit is the metre."""

SECOND = 1_000_000
"""A step and the stream's tick, in µs."""

UNIT_S = 30
"""A time unit, seconds."""

MPH = 30.0
"""The greatest speed of objects, miles an hour."""

SIZES = (0.0001, 0.0005, 0.001, 0.005, 0.01)
"""Areas of queries "of various sizes", as shares of the town."""

_HABIT = 1.2
"""By so much an object may be quicker than its class of road and kind allow."""

_COLUMNS = (
    ColumnSpec("oid", "STRING"),
    ColumnSpec("kind", "STRING"),
    ColumnSpec("lon", "DOUBLE"),
    ColumnSpec("lat", "DOUBLE"),
    ColumnSpec("ts", "TIMESTAMP"),
)


@dataclass(frozen=True)
class Scale:
    """How big a run is.

    first: objects at the begin. coming: new ones a time unit. units: time units before anything is measured.
    nodes: crossings of the town. share: of the paper's numbers of queries. points: values of a sweep at most.
    span: time units that are measured at most.
    """

    first: int = 10_000
    coming: int = 100
    units: int = 1000
    nodes: int = 4000
    share: float = 1.0
    points: int = 100
    span: int = 100

    def count(self, queries: int) -> int:
        """Return the number of queries where the paper has `queries`."""
        return max(4, round(queries * self.share))

    def some(self, values: Sequence[Any]) -> list[Any]:
        """Return the values of a sweep that are measured: the first, the last, and some between."""
        if len(values) <= self.points:
            return list(values)
        places = np.linspace(0, len(values) - 1, self.points).round().astype(int)
        return [values[place] for place in dict.fromkeys(places.tolist())]


QUICK = Scale(first=500, coming=10, units=50, nodes=400, share=0.02, points=3, span=2)
"""A thousand objects and a fiftieth of the queries: takes a minute, and shows nothing but that it runs."""


class Step(NamedTuple):
    """The records of one step as Evaluate takes them: packed, and a view of the same."""

    records: pa.RecordBatch
    payload: bytes


@dataclass(frozen=True)
class Drive:
    """How objects drive: the seconds within which each reports once, and their greatest speed, mph."""

    unit_s: int = UNIT_S
    mph: float = MPH

    @property
    def metres_a_second(self) -> float:
        """The greatest speed."""
        return self.mph * MILE / 3600


def population(scale: Scale, say: Say) -> dict[str, Array]:
    """Let the town fill: the state of the generator after `scale.units` time units."""
    options = {"objects": scale.first, "new_per_tick": 1 if scale.coming else 0}
    generator = _generator(scale, Drive(), options, tick_us=UNIT_S * SECOND // max(1, scale.coming))
    for unit in range(scale.units):
        for _ in range(UNIT_S):
            generator.advance()
        if (unit + 1) % 100 == 0:
            say(f"the town after {unit + 1:,} time units")
    return generator.state()


def _generator(
    scale: Scale, drive: Drive, options: Mapping[str, Any], tick_us: int = SECOND
) -> NetworkGenerator:
    fastest = float(SPEEDS.max(axis=1)[1]) * _HABIT
    given = {
        "report_every": drive.unit_s * SECOND,
        "leave": False,
        "nodes": scale.nodes,
        "speed": drive.metres_a_second / fastest,
        "kinds": "car:95 bus:5",
        **options,
    }
    source = GeneratorSourceSpec("network", given)
    return NetworkGenerator(msgspec.structs.replace(stream_spec(drive), tick_us=tick_us, source=source))


def stream_spec(drive: Drive, *, retain: Retention = "all") -> StreamSpec:
    """Return the moving stream of the town as CREATE would bind it."""
    return StreamSpec(
        id=1,
        name="town",
        columns=_COLUMNS,
        key="oid",
        x="lon",
        y="lat",
        time="ts",
        planar=True,
        tick_us=SECOND,
        report_every_us=drive.unit_s * SECOND,
        max_speed=drive.metres_a_second,
        bounds=(0.0, 0.0, SIDE, SIDE),
        retain=retain,
        source=GeneratorSourceSpec("network"),
    )


class TownWorld:
    """The records of objects as they drive on from a population; steps count from 1 and are remembered.

    The objects are dealt to the seconds of a time unit in turn, so that records are spread evenly; in the
    first unit each reports where it is, then it drives.
    """

    def __init__(self, scale: Scale, found: Mapping[str, Array], drive: Drive | None = None) -> None:
        self.scale, self.drive = scale, drive or Drive()
        self._generator = _generator(scale, self.drive, {"objects": 0})
        dealt, counts = _dealt(found, self.drive.unit_s)
        clock = np.array([0, int(found["clock"][1])])
        self._generator.restored({**dealt, "counts": counts, "clock": clock})
        self._steps: list[Step] = []
        self.objects = int(counts.sum())
        self.base = self._generator.options.start_us // SECOND

    def step(self, number: int) -> Step:
        """Return the records of a step."""
        while len(self._steps) < number:
            self._steps.append(_as_step(self._generator.advance(), len(self._steps) + 1))
        return self._steps[number - 1]

    @cached_property
    def places(self) -> tuple[pa.Array[Any], Array]:
        """Where all objects are in their first report: keys (n,) and x, y float64 (n, 2)."""
        first = [self.step(number).records for number in range(1, self.drive.unit_s + 1)]
        keys = pa.concat_arrays([records.column("oid") for records in first])
        axes = [np.concatenate([each.column(axis).to_numpy() for each in first]) for axis in ("lon", "lat")]
        return keys, np.column_stack(axes)


def _dealt(found: Mapping[str, Array], slots: int) -> tuple[dict[str, Array], Array]:
    """Return the objects of a generator's state in some cohorts, by their numbers."""
    arrays = {name: array for name, array in found.items() if name not in ("counts", "clock")}
    slot = arrays["number"] % slots
    order = np.lexsort((arrays["number"], slot))
    return {name: array[order] for name, array in arrays.items()}, np.bincount(slot, minlength=slots)


def _as_step(made: pa.RecordBatch, step: int) -> Step:
    columns = made.select([name for name, _ in _COLUMNS])
    steps = pa.array(np.full(made.num_rows, step, np.int64))
    hashes = pa.array(hash_keys(made.column("oid")), pa.uint64())
    names = [*columns.schema.names, "_step", "_hash"]
    payload = pack(pa.RecordBatch.from_arrays([*columns.columns, steps, hashes], names=names))
    return Step(unpack(payload), payload)


@dataclass(frozen=True)
class TownQueries:
    """Which queries: how many, areas as shares of the town (each query draws one), the share of those that
    move with an object, the least accuracy that they permit.
    """

    count: int
    sizes: tuple[float, ...] = SIZES
    moving: float = 0.5
    least: float = 0.0
    seed: int = 7

    def of(self, world: TownWorld) -> list[Spec]:
        """Return the specs of these queries, ids from 1: squares around drawn objects or their first places.

        The first queries of a greater number are not those of a smaller one.
        """
        rng = np.random.default_rng([self.seed, self.count])
        keys, places = world.places
        drawn = rng.permutation(world.objects) if self.count <= world.objects else None
        whose = drawn[: self.count] if drawn is not None else rng.integers(0, world.objects, self.count)
        sides = np.sqrt(rng.choice(self.sizes, self.count)) * SIDE
        moves = rng.random(self.count) < self.moving
        names: list[Any] = keys.take(pa.array(whose, pa.int64())).to_pylist()
        return [
            _query(number, _region(moves[i], names[i], places[whose[i]], float(sides[i])), self.least)
            for i, number in enumerate(range(1, self.count + 1))
        ]


def _region(moves: bool, name: str, place: Array, side: float) -> Spec:
    if moves:
        return {"type": "moving_rect", "focal": name, "xdist": side, "ydist": side}
    x, y = (float(value) for value in place)
    half = side / 2
    return {"type": "rect", "x1": x - half, "y1": y - half, "x2": x + half, "y2": y + half}


def _query(id_: int, region: Spec, least: float) -> Spec:
    options = {"min_accuracy": least} if least else {}
    return {
        "id": id_,
        "kind": "range",
        "region": region,
        "condition": None,
        "for_us": None,
        "options": options,
    }
