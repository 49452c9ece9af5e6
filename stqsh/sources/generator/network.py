"""GENERATOR 'network': moving objects on a road network, after Brinkhoff (SOLE section 7).

Objects drive the quickest way from crossing to crossing of a synthetic town, as fast as their class, the road
and their habits allow, and report where they are every so often, spread evenly over that time. Where
Brinkhoff's objects vanish at the end of their trip, ours begin another one, unless new ones come in
(`new_per_tick`) or `leave` asks for it: then their last report has an empty location.

The records are a function of the options alone, however far ahead and in however many pieces they are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.errors import OptionError
from stqsh.sources.formats.record_schema import RecordSchema, check_options, match_names
from stqsh.sources.generator.roads import TownPlan, build_road
from stqsh.sources.generator.vehicles import KINDS, Cohort, Traffic, revive, together, without
from stqsh.sources.replay_store.store import TICK
from stqsh.spec.stream import StreamSpec

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
#: A town of about ten by ten kilometres, or units.
_DEGREES = (10.0, 50.0, 10.14, 50.09)
_UNITS = (0.0, 0.0, 10_000.0, 10_000.0)
_MAX_NODES = 4000
DEFAULTS: dict[str, Any] = {
    "objects": 1000,
    "new_per_tick": 0,
    "report_every": _SECOND,
    "seed": 42,
    "speed": 1.0,
    "duration": None,
    "start": "2025-01-01T08:00:00Z",
    "bounds": None,
    "nodes": 1000,
    "kinds": "taxi:4 car:4 bus:1 bike:1",
    "leave": None,
}
"""The options and what they are unless said otherwise; durations in µs."""


@dataclass(frozen=True, slots=True)
class GeneratorOptions:
    """The options of a generator, checked. Times in µs; `duration_us` is None for a source without end."""

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
            OptionError: an unknown option, with near names, or a value that makes no sense.
        """
        given = spec.source.options
        check_options(given, DEFAULTS, "GENERATOR 'network'")
        values = DEFAULTS | given
        coming = _whole(values, "new_per_tick", 0)
        duration = values["duration"]
        return GeneratorOptions(
            _whole(values, "objects", 0),
            coming,
            _duration(values, "report_every"),
            spec.tick_us,
            _whole(values, "seed", 0),
            _positive(values, "speed"),
            _instant(values["start"]),
            None if duration is None else _duration(values, "duration"),
            bool(coming if values["leave"] is None else values["leave"]),
            _town(spec, values),
            _weights(values["kinds"]),
        )

    @property
    def step_us(self) -> int:
        """Give the time between two steps: reports come at whole seconds, or finer where they have to."""
        return gcd(self.report_every_us, _SECOND)

    @property
    def slots(self) -> int:
        """Count the cohorts: objects report in one of so many steps, again and again."""
        return self.report_every_us // self.step_us

    @property
    def steps(self) -> int | None:
        """Count the steps until the end, None where there is none."""
        return None if self.duration_us is None else -(-self.duration_us // self.step_us)


def _refuse(option: str, value: Any, wanted: str) -> OptionError:
    return OptionError(f"GENERATOR 'network': {option} is {wanted}, not {value!r}", option)


def _whole(values: Mapping[str, Any], option: str, least: int) -> int:
    value = values[option]
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _refuse(option, value, f"a whole number from {least}")
    return value


def _positive(values: Mapping[str, Any], option: str) -> float:
    value = values[option]
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise _refuse(option, value, "a number above 0")
    return float(value)


def _duration(values: Mapping[str, Any], option: str) -> int:
    value = values[option]
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


def _town(spec: StreamSpec, values: Mapping[str, Any]) -> TownPlan:
    geodetic = not spec.planar
    bounds: Sequence[float] = spec.bounds or (_DEGREES if geodetic else _UNITS)
    if values["bounds"] is not None:
        try:
            bounds = [float(each) for each in str(values["bounds"]).strip("() ").split(",")]
        except ValueError:
            bounds = ()
    if len(bounds) != 4 or not (bounds[0] < bounds[2] and bounds[1] < bounds[3]):
        raise _refuse("bounds", values["bounds"], "four numbers such as '10.0, 50.0, 10.1, 50.1'")
    nodes = min(_whole(values, "nodes", 9), _MAX_NODES)
    return TownPlan((bounds[0], bounds[1], bounds[2], bounds[3]), nodes, _whole(values, "seed", 0), geodetic)


def _weights(text: Any) -> tuple[float, ...]:
    """Read shares such as 'taxi:4 car:1' as one weight for each of `KINDS`."""
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


def _share(share: str, text: Any) -> float:
    try:
        return max(0.0, float(share or 1))
    except ValueError:
        raise _refuse("kinds", text, "a list such as 'taxi:4 car:1'") from None


class NetworkGenerator:
    """Make the records of a stream step by step; `state` and `restored` stop and go on anywhere."""

    def __init__(self, spec: StreamSpec) -> None:
        self._layout, self.options = RecordSchema.of(spec), GeneratorOptions.of(spec)
        self._places = match_names(self._layout.names, [name for name, _ in COLUMNS], "GENERATOR 'network'")
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
        """Count the steps that are done."""
        return self._step

    @property
    def now_us(self) -> int:
        """Give the time of the next step, µs."""
        return self.options.start_us + self._step * self.options.step_us

    @property
    def ended(self) -> bool:
        """Say whether the last step is done."""
        return self.options.steps is not None and self._step >= self.options.steps

    def advance(self) -> pa.RecordBatch:
        """Do one step: the records (n,) of it, declared columns and `_tick`; often few or none."""
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
        self._cohorts[slot] = without(cohort, gone) if gone.any() else cohort
        self._step += 1
        return batch

    def _coming(self) -> int:
        """Count the objects that come in with this step: so many for each tick that begins in it."""
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
        schema = self._layout.schema.append(pa.field(TICK, pa.int64()))
        chosen = [made[place].cast(schema.types[i]) for i, place in enumerate(self._places)]
        return pa.RecordBatch.from_arrays([*chosen, ticks], schema=schema)

    def state(self) -> dict[str, NDArray[Any]]:
        """Give all that a generator of the same stream needs to go on from here."""
        arrays = [cohort.arrays() for cohort in self._cohorts]
        joined = {name: np.concatenate([each[name] for each in arrays]) for name in arrays[0]}
        counts = np.array([len(cohort) for cohort in self._cohorts])
        return {**joined, "counts": counts, "clock": np.array([self._step, self._born])}

    def restored(self, state: Mapping[str, NDArray[Any]]) -> NetworkGenerator:
        """Go on from a state that `state` gave."""
        values = {name: array for name, array in state.items() if name not in ("counts", "clock")}
        stops = np.cumsum(state["counts"])
        pieces = zip(stops - state["counts"], stops, strict=True)
        self._cohorts = [revive({name: values[name][a:b] for name in values}) for a, b in pieces]
        self._step, self._born = (int(each) for each in state["clock"])
        return self
