"""GENERATOR 'network': moving objects on a road network, after Brinkhoff (SOLE section 7).

Objects take the quickest way from crossing to crossing of a synthetic town, at a speed limited by their
class, the road and their habits. They report at regular intervals, and the reports are spread evenly.
Brinkhoff's objects vanish at the end of their trip. Ours begin another trip, unless new objects appear
(`new_per_tick`) or `leave` is set: then their last report has an empty location.

The records depend only on the options, not on how far ahead or in how many pieces they are generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.errors import OptionError, SourceError
from stqsh.sources.formats.pyarrow_typing import Array
from stqsh.sources.formats.record_parser import FileBlock, RowBlock, RowLocation, parse
from stqsh.sources.formats.record_schema import RecordSchema, check_options, match_names
from stqsh.sources.generator.roads import TownPlan, build_road
from stqsh.sources.generator.vehicles import KINDS, Cohort, Traffic, cut, joined, together
from stqsh.sources.replay_store.segments import TICK
from stqsh.spec.stream import OptionValue, StreamSpec

COLUMNS = (
    ("oid", "STRING"),
    ("kind", "STRING"),
    ("lon", "DOUBLE"),
    ("lat", "DOUBLE"),
    ("ts", "TIMESTAMP"),
    ("speed", "DOUBLE"),
    ("status", "STRING"),
)
_SECOND = 1_000_000
_DEGREES = (10.0, 50.0, 10.14, 50.09)
_UNITS = (0.0, 0.0, 10_000.0, 10_000.0)
"""The bounds of a town of about ten by ten kilometres, or ten by ten units."""

_MAX_NODES = 4000


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """The options as written in a statement, with their defaults. Durations are in µs."""

    objects: OptionValue = 1000
    new_per_tick: OptionValue = 0
    report_every: OptionValue = _SECOND
    seed: OptionValue = 42
    speed: OptionValue = 1.0
    duration: OptionValue = None
    start: OptionValue = "2025-01-01T08:00:00Z"
    bounds: OptionValue = None
    nodes: OptionValue = 1000
    kinds: OptionValue = "taxi:4 car:4 bus:1 bike:1"
    leave: OptionValue = None


OPTION_NAMES = tuple(field.name for field in fields(GivenOptions))


@dataclass(frozen=True, slots=True)
class GeneratorOptions:
    """The checked options of a generator. Times are in µs; `duration_us` is None for an endless source."""

    objects: int
    new_per_tick: int
    report_every_us: int
    tick_us: int
    seed: int
    speed: float
    start_us: int
    duration_us: int | None
    leave: bool
    town: TownPlan
    weights: tuple[float, ...]

    @staticmethod
    def of(spec: StreamSpec) -> GeneratorOptions:
        """Read the options of a stream whose source is the generator.

        Raises:
            OptionError: an option is unknown (the message contains similar names), or a value makes no sense.
        """
        check_options(spec.source.options, OPTION_NAMES, "GENERATOR 'network'")
        given = GivenOptions(**spec.source.options)
        coming = _whole("new_per_tick", given.new_per_tick, 0)
        return GeneratorOptions(
            objects=_whole("objects", given.objects, 0),
            new_per_tick=coming,
            report_every_us=_duration("report_every", given.report_every),
            tick_us=spec.tick_us,
            seed=_whole("seed", given.seed, 0),
            speed=_positive("speed", given.speed),
            start_us=_instant(given.start),
            duration_us=None if given.duration is None else _duration("duration", given.duration),
            leave=bool(coming if given.leave is None else given.leave),
            town=_town(spec, given),
            weights=_weights(given.kinds),
        )

    @property
    def step_us(self) -> int:
        """The time between two steps: at most a second, and a divisor of the time between reports."""
        return gcd(self.report_every_us, _SECOND)

    @property
    def slots(self) -> int:
        """The number of cohorts; in each step, exactly one of them reports."""
        return self.report_every_us // self.step_us

    @property
    def steps(self) -> int | None:
        """The number of steps until the end, None for an endless source."""
        return None if self.duration_us is None else -(-self.duration_us // self.step_us)


def _refuse(option: str, value: object, wanted: str) -> OptionError:
    return OptionError(f"GENERATOR 'network': {option} is {wanted}, not {value!r}", option)


def _whole(option: str, value: OptionValue, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _refuse(option, value, f"a whole number from {least}")
    return value


def _positive(option: str, value: OptionValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise _refuse(option, value, "a number above 0")
    return float(value)


def _duration(option: str, value: OptionValue) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1000:
        raise _refuse(option, value, "a duration with its unit, such as 30 s,")
    return value


def _instant(value: Any) -> int:
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise _refuse("start", value, "a time such as '2025-01-01T08:00:00'") from None
    zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
    return int(np.datetime64(zoned.astimezone(UTC).replace(tzinfo=None), "us").astype(np.int64))


def _town(spec: StreamSpec, given: GivenOptions) -> TownPlan:
    geodetic = not spec.planar
    bounds: Sequence[float] = spec.bounds or (_DEGREES if geodetic else _UNITS)
    if given.bounds is not None:
        try:
            bounds = [float(each) for each in str(given.bounds).strip("() ").split(",")]
        except ValueError:
            bounds = ()
    if len(bounds) != 4 or not (bounds[0] < bounds[2] and bounds[1] < bounds[3]):
        raise _refuse("bounds", given.bounds, "four numbers such as '10.0, 50.0, 10.1, 50.1'")
    nodes = min(_whole("nodes", given.nodes, 9), _MAX_NODES)
    return TownPlan(
        (bounds[0], bounds[1], bounds[2], bounds[3]), nodes, _whole("seed", given.seed, 0), geodetic
    )


def _weights(text: OptionValue) -> tuple[float, ...]:
    """Parse shares such as 'taxi:4 car:1' into one weight for each of `KINDS`."""
    known = [kind.name for kind in KINDS]
    weights = dict.fromkeys(known, 0.0)
    for word in str(text).replace(",", " ").split():
        name, _, share = word.partition(":")
        if name not in weights:
            raise _refuse("kinds", text, f"a list such as 'taxi:4 car:1', of {', '.join(known)},")
        weights[name] = _share(share, text)
    if sum(weights.values()) <= 0:
        raise _refuse("kinds", text, "a list such as 'taxi:4 car:1'")
    return tuple(weights.values())


def _share(share: str, text: OptionValue) -> float:
    try:
        return max(0.0, float(share or 1))
    except ValueError:
        raise _refuse("kinds", text, "a list such as 'taxi:4 car:1'") from None


@dataclass(frozen=True, slots=True, eq=False)
class GeneratorState:
    """The complete state from which a generator of the same stream can continue.

    Attributes:
        step: the number of completed steps.
        born: the number of objects so far.
    """

    step: int
    born: int
    cohorts: tuple[Cohort, ...]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays, for a file; `of` is the inverse."""
        counts = np.array([len(cohort) for cohort in self.cohorts])
        return {**joined(self.cohorts), "counts": counts, "clock": np.array([self.step, self.born])}

    @staticmethod
    def of(counts: NDArray[Any], clock: NDArray[Any], **objects: NDArray[Any]) -> GeneratorState:
        """Return the state from its arrays."""
        step, born = (int(each) for each in clock)
        return GeneratorState(step, born, cut(objects, counts))


class NetworkGenerator:
    """Generates the records of a stream step by step; `state` and `restored` allow it to be continued."""

    def __init__(self, spec: StreamSpec) -> None:
        self._layout, self.options = RecordSchema.of(spec), GeneratorOptions.of(spec)
        self._places = match_names(
            self._layout.in_files.names, [name for name, _ in COLUMNS], "GENERATOR 'network'"
        )
        options = self.options
        self._traffic = Traffic(
            build_road(options.town), options.seed, options.speed, np.array(options.weights)
        )
        self._step = 0
        self._born = options.objects
        self._cohorts = [
            self._traffic.born(slot, options.objects, options.slots) for slot in range(options.slots)
        ]

    @property
    def step(self) -> int:
        """The number of completed steps."""
        return self._step

    @property
    def now_us(self) -> int:
        """The time of the next step, µs."""
        return self.options.start_us + self._step * self.options.step_us

    @property
    def ended(self) -> bool:
        """Whether the last step is completed."""
        return self.options.steps is not None and self._step >= self.options.steps

    def advance(self) -> pa.RecordBatch:
        """Compute one step; return its records, with the declared columns and `_tick`."""
        options, slot = self.options, self._step % self.options.slots
        cohort, ended = self._cohorts[slot], None
        if self._step >= options.slots:
            cohort, ended = self._traffic.drive(cohort, options.report_every_us / _SECOND)
        gone = ended if options.leave and ended is not None else np.zeros(len(cohort), dtype=np.bool_)
        coming = self._coming()
        if coming:
            cohort = together(cohort, self._traffic.born(self._born, self._born + coming))
            gone = np.append(gone, np.zeros(coming, dtype=np.bool_))
            self._born += coming
        batch = self._records(cohort, gone)
        self._cohorts[slot] = cohort.take(np.flatnonzero(~gone)) if gone.any() else cohort
        self._step += 1
        return batch

    def _coming(self) -> int:
        """Count the objects that appear in this step: `new_per_tick` for each tick that begins in it."""
        tick, before = (
            time // self.options.tick_us for time in (self.now_us, self.now_us - self.options.step_us)
        )
        return 0 if self._step == 0 else self.options.new_per_tick * (tick - before)

    def _records(self, cohort: Cohort, gone: NDArray[np.bool_]) -> pa.RecordBatch:
        x, y = self._traffic.place_of(cohort)
        time = pa.array(np.full(len(cohort), self.now_us), pa.timestamp("us", tz="UTC"))
        columns = {
            "oid": cohort.oid,
            "kind": pa.array([kind.name for kind in KINDS]).take(cohort.kind),
            "lon": pa.array(x, mask=gone),
            "lat": pa.array(y, mask=gone),
            "ts": time,
            "speed": pa.array(np.round(self._traffic.speed_of(cohort), 2)),
            "status": self._traffic.state_of(cohort),
        }
        ticks = pa.array(np.full(len(cohort), self.now_us // self.options.tick_us))
        made = list(columns.values())
        given, schema = self._layout.in_files.schema, self._layout.schema.append(pa.field(TICK, pa.int64()))
        chosen = [made[place].cast(given.types[i]) for i, place in enumerate(self._places)]
        if self._layout.derived:
            chosen = self._with_derived(chosen)
        return pa.RecordBatch.from_arrays([*chosen, ticks], schema=schema)

    def _with_derived(self, columns: list[Array]) -> list[Array]:
        """Return all columns in order; raise `SourceError` if one cannot be computed for a record."""
        rows = np.arange(len(columns[0]))
        block = RowBlock(columns, rows, lambda places: [RowLocation(at, "") for at in places.tolist()])
        found = parse([FileBlock(0, self._layout.key, block)], self._layout)
        if found.dead:
            raise SourceError(
                f"a column of the records of GENERATOR 'network' cannot be computed: {found.dead[0].reason}"
            )
        return found.columns

    def state(self) -> GeneratorState:
        """Return the complete state from which a generator of the same stream can continue."""
        return GeneratorState(self._step, self._born, tuple(self._cohorts))

    def restored(self, state: GeneratorState) -> NetworkGenerator:
        """Continue from a state, and return the generator."""
        self._step, self._born, self._cohorts = state.step, state.born, list(state.cohorts)
        return self
