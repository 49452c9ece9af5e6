"""Make the workload of SOLE section 7: a town of 28 x 28 miles with 10,000 objects and more to come.

Every object reports once in each time unit; the reports are spread evenly over its steps of one second. The
paper names no unit; ours is the 30 s of its section 7.2. In each time unit 100 objects appear, and none
leaves. They drive at the middle speed of section 7.2, at most 30 miles an hour, unless a figure says
otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.bench.harness.drive import Say
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.sources.generator.network import GeneratorState, NetworkGenerator
from stqsh.sources.generator.vehicles import SPEEDS, together
from stqsh.spec.chunk import pack, unpack
from stqsh.spec.query import Members, SlotQuery
from stqsh.spec.region import MovingRectangleSpec, RectangleSpec
from stqsh.spec.stream import ColumnSpec, GeneratorSourceSpec, Options, Retention, StreamSpec

MILE = 1609.344
"""Metres."""

SIDE = 28 * MILE
"""The side of the town; the stream is planar, and its unit is the metre."""

SECOND = 1_000_000
"""The length of a step and of the stream's tick, µs."""

UNIT_S = 30
"""The length of a time unit, seconds."""

MPH = 30.0
"""The greatest speed of the objects, miles an hour."""

SIZES = (0.0001, 0.0005, 0.001, 0.005, 0.01)
"""The areas of queries "of various sizes", as shares of the town."""

_HABIT = 1.2
"""The factor by which an object may exceed the speed of its kind on its class of road."""

_COLUMNS = (
    ColumnSpec("oid", "STRING"),
    ColumnSpec("kind", "STRING"),
    ColumnSpec("lon", "DOUBLE"),
    ColumnSpec("lat", "DOUBLE"),
    ColumnSpec("ts", "TIMESTAMP"),
)


@dataclass(frozen=True)
class TownScale:
    """The size of a run.

    Attributes:
        first: objects at the beginning.
        coming: objects that appear in each time unit.
        units: time units before the measurement begins.
        nodes: crossings of the town.
        share: the factor for the paper's numbers of queries.
        points: the greatest number of values of a sweep.
        span: the greatest number of time units that are measured.
    """

    first: int = 10_000
    coming: int = 100
    units: int = 1000
    nodes: int = 4000
    share: float = 1.0
    points: int = 100
    span: int = 100

    def count(self, queries: int) -> int:
        """Return the number of queries that stands for `queries` of the paper."""
        return max(4, round(queries * self.share))

    def some(self, values: Sequence[Any]) -> list[Any]:
        """Return the values of a sweep that are measured: the first, the last, and some in between."""
        if len(values) <= self.points:
            return list(values)
        places = np.linspace(0, len(values) - 1, self.points).round().astype(int)
        return [values[place] for place in dict.fromkeys(places.tolist())]


QUICK = TownScale(first=500, coming=10, units=50, nodes=400, share=0.02, points=3, span=2)
"""A thousand objects and a fiftieth of the queries: only shows within a minute that everything runs."""


class Step(NamedTuple):
    """The records of one step as Evaluate takes them: a view, and the packed payload."""

    records: pa.RecordBatch
    payload: bytes


@dataclass(frozen=True)
class Drive:
    """How objects drive: the seconds between two reports, and the greatest speed, miles an hour."""

    unit_s: int = UNIT_S
    mph: float = MPH

    @property
    def metres_a_second(self) -> float:
        """The greatest speed, metres a second."""
        return self.mph * MILE / 3600


def population(scale: TownScale, say: Say) -> GeneratorState:
    """Let the town fill; return the state of the generator after `scale.units` time units."""
    options: Options = {"objects": scale.first, "new_per_tick": 1 if scale.coming else 0}
    generator = _generator(scale, Drive(), options, tick_us=UNIT_S * SECOND // max(1, scale.coming))
    for unit in range(scale.units):
        for _ in range(UNIT_S):
            generator.advance()
        if (unit + 1) % 100 == 0:
            say(f"the town after {unit + 1:,} time units")
    return generator.state()


def _generator(scale: TownScale, drive: Drive, options: Options, tick_us: int = SECOND) -> NetworkGenerator:
    fastest = float(SPEEDS.max(axis=1)[1]) * _HABIT
    given: Options = {
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
    """The records of objects that drive on from a population.

    Steps count from 1 and are kept. The objects are assigned to the seconds of a time unit in turn, so that
    records are spread evenly. In the first unit each object reports where it is; then it drives.
    """

    def __init__(self, scale: TownScale, found: GeneratorState, drive: Drive | None = None) -> None:
        self.scale, self.drive = scale, drive or Drive()
        self._generator = _generator(scale, self.drive, {"objects": 0})
        self._generator.restored(_rearranged(found, self.drive.unit_s))
        self._steps: list[Step] = []
        self.objects = sum(map(len, found.cohorts))
        self.base = self._generator.options.start_us // SECOND

    def step(self, number: int) -> Step:
        """Return the records of a step."""
        while len(self._steps) < number:
            self._steps.append(_as_step(self._generator.advance(), len(self._steps) + 1))
        return self._steps[number - 1]

    @cached_property
    def places(self) -> tuple[pa.Array[Any], Array]:
        """The first reports of all objects: keys (n,), and x, y, float64 (n, 2)."""
        first = [self.step(number).records for number in range(1, self.drive.unit_s + 1)]
        keys = pa.concat_arrays([records.column("oid") for records in first])
        axes = [np.concatenate([each.column(axis).to_numpy() for each in first]) for axis in ("lon", "lat")]
        return keys, np.column_stack(axes)


def _rearranged(found: GeneratorState, seconds: int) -> GeneratorState:
    """Return the same objects at step 0, with a cohort for each second of a time unit, by their numbers."""
    objects = reduce(together, found.cohorts)
    cohorts = []
    for second in range(seconds):
        rows = np.flatnonzero(objects.number % seconds == second)
        cohorts.append(objects.take(rows[np.argsort(objects.number[rows])]))
    return GeneratorState(0, found.born, tuple(cohorts))


def _as_step(made: pa.RecordBatch, step: int) -> Step:
    columns = made.select([name for name, _ in _COLUMNS])
    steps = pa.array(np.full(made.num_rows, step, np.int64))
    hashes = pa.array(hash_keys(made.column("oid")), pa.uint64())
    names = [*columns.schema.names, "_step", "_hash"]
    payload = pack(pa.RecordBatch.from_arrays([*columns.columns, steps, hashes], names=names))
    return Step(unpack(payload), payload)


@dataclass(frozen=True)
class TownQueries:
    """Queries over the town.

    Attributes:
        sizes: areas as shares of the town, of which each query draws one.
        moving: the share of the queries that move with an object.
        least: the least accuracy that the queries permit.
    """

    count: int
    sizes: tuple[float, ...] = SIZES
    moving: float = 0.5
    least: float = 0.0
    seed: int = 7

    def of(self, world: TownWorld) -> list[SlotQuery]:
        """Return squares around objects that move, or around the places of their first reports.

        The ids count from 1. The first queries of a greater number are not those of a smaller one.
        """
        rng = np.random.default_rng([self.seed, self.count])
        keys, places = world.places
        drawn = rng.permutation(world.objects) if self.count <= world.objects else None
        whose = drawn[: self.count] if drawn is not None else rng.integers(0, world.objects, self.count)
        sides = np.sqrt(rng.choice(self.sizes, self.count)) * SIDE
        moves = rng.random(self.count) < self.moving
        names: list[Any] = keys.take(pa.array(whose, pa.int64())).to_pylist()
        least = self.least or None
        regions = (
            MovingRectangleSpec(name, side, side) if moves else square(place, side)
            for moves, name, place, side in zip(
                moves, names, places[whose].tolist(), sides.tolist(), strict=True
            )
        )
        return [
            SlotQuery(id=number, kind="range", members=Members(region=region, min_accuracy=least))
            for number, region in enumerate(regions, 1)
        ]


def square(centre: Sequence[float], side: float) -> RectangleSpec:
    """Return the square with this centre and side."""
    (x, y), half = centre, side / 2
    return RectangleSpec(x - half, y - half, x + half, y + half)
