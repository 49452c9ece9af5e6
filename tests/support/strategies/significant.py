"""Cases of streams that RETAIN SIGNIFICANT: wild ones, and honest ones for what caches promise.

Wild objects jump about and tell the time as they like. Honest ones keep to MAX SPEED, and their records come
in order; some fall silent, some leave by an empty location.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from support.cases import Case, Clock, Command, Row, Spec
from support.oracle.expressions import parts_of
from support.strategies.conditions import conditions, moves_in_conditions
from support.strategies.queries import Schedule, schedules
from support.strategies.regions import DEGREE_M, areas, keys, moving_regions, tables
from support.strategies.streams import GRID, Scope, column_values, rows, specs, used_keys
from support.strategies.top_n import limited_query

MICROS = 1_000_000
MOVING = frozenset({"circles", "polygons", "inside", "around", "dwell", "joins", "expressions", "nearest"})
"""All that queries over moving objects may hold."""

EVERYTHING: Command = {"op": "memory", "factor": 1.0, "k": 1, "cache": 1.0, "area": 1.0}
"""Nothing is shed, and caches are as wide as they must be."""

ACCURACIES = [0.0, 0.0, 0.25, 0.5625, 0.8, 1.0]
"""Least ones; the roots of those that occur as shares of areas are exact."""

clocks = st.builds(
    Clock, st.sampled_from([0, -3, 1_201_956_300]), st.sampled_from([MICROS, MICROS, 250_000, 60 * MICROS])
)


@st.composite
def memories(draw: st.DrawFn, sheds: bool) -> Command:
    """What a stream's memory is told; without `sheds` only how wide caches are."""
    out: Command = {"op": "memory", "factor": draw(st.sampled_from([0.0, 0.5, 1.0, 1.0]))}
    if not sheds:
        return out | {"k": 1, "cache": 1.0, "area": 1.0}
    return out | {
        "k": draw(st.sampled_from([1, 1, 2, 2, 3, 9])),
        "part": draw(st.sampled_from([1.0, 1.0, 0.75, 0.5, 0.25])),
        "cache": draw(st.sampled_from([0.0, 0.5, 1.0, 1.0])),
        "area": draw(st.sampled_from([0.0625, 0.25, 0.5625, 1.0, 1.0])),
    }


# --- streams ---


@st.composite
def significant_specs(draw: st.DrawFn, clock: Clock) -> Spec:
    """A stream with REPORT EVERY and a MAX SPEED such that caches are of the size of the grid."""
    tick = clock.tick_us
    lasts = draw(
        st.sampled_from([tick // 2, 2 * tick, 5 * tick // 2, 3 * tick + 1, 13 * tick // 2, 9 * tick])
    )
    spec = draw(specs(tick)) | {"retain": "significant", "report_every_us": lasts}
    reach = draw(st.sampled_from([0.25, 0.5, 0.5, 1.0])) * (1.0 if spec["planar"] else DEGREE_M)
    return spec | {"max_speed": speed_for(reach, 2 * lasts + 3 * tick, exact=spec["planar"])}


def speed_for(reach: float, span_us: int, *, exact: bool) -> float:
    """The speed that makes caches so wide: exactly, or a bit wider, so that no place is on their border."""
    speed = reach / (span_us / MICROS)
    if exact and speed * span_us / MICROS == reach and speed * (span_us / MICROS) == reach:
        return speed
    return speed * 1.0001


@st.composite
def timelines(draw: st.DrawFn) -> list[int]:
    """The steps at which something comes in."""
    gaps = draw(st.lists(st.sampled_from([1, 1, 1, 1, 1, 2, 3, 7, 20]), min_size=3, max_size=14))
    return [1 + sum(gaps[:i]) for i in range(len(gaps))]


# --- queries ---


@st.composite
def small_regions(draw: st.DrawFn, scope: Scope) -> Spec:
    """A region that leaves most objects out."""
    unit = 1.0 if scope.spec["planar"] else DEGREE_M * 1.0001
    x, y, size = (draw(st.sampled_from(values)) for values in (GRID, GRID, [0.0, 0.5, 1.0]))
    focal, round_ = draw(st.sampled_from(scope.used)), "circles" in scope.features and draw(st.booleans())
    if draw(st.booleans()):
        if round_:
            return {"type": "moving_circle", "focal": focal, "radius": size / 2 * unit}
        other = draw(st.sampled_from([0.0, 0.5, 1.0]))
        return {"type": "moving_rect", "focal": focal, "xdist": size * unit, "ydist": other * unit}
    if round_:
        return {"type": "circle", "x": x, "y": y, "radius": size / 2 * unit}
    return {"type": "rect", "x1": x, "y1": y, "x2": x + size, "y2": y + size}


@st.composite
def _smaller(draw: st.DrawFn, scope: Scope, command: Command, accurate: bool) -> Command:
    """A registration, mostly with a small region, some with a least accuracy.

    Where rows of a merged answer dwell, some are sent again when they change.
    """
    if command["op"] != "register":
        return command
    query = dict(command["query"])
    if query["kind"] == "range" and draw(st.integers(0, 2)):
        query |= {"region": draw(small_regions(scope)), "condition": None, "join": None, "areas": []}
        query["select"] = [[name, ["col", name]] for name, _ in scope.spec["columns"]]
        if "expressions" in scope.features and draw(st.integers(0, 3)) == 0:
            query["condition"] = draw(conditions(scope))
            query["areas"] = sorted(_areas(query["condition"]))
    if draw(st.integers(0, 3)) == 0:
        query = draw(limited_query(scope, query))
    is_held = query["kind"] != "range" and "dwell_us" in query["options"]
    if is_held and not parts_of(query["select"], "distance") and draw(st.booleans()):
        query["options"] = query["options"] | {"changes": True}
        if query["kind"] == "first" and draw(st.booleans()):
            query["first"] = query["first"] | {"limit": 2**31 - 1}
    if accurate:
        query["options"] = query["options"] | {"min_accuracy": draw(st.sampled_from(ACCURACIES))}
    return {"op": "register", "query": query}


def _areas(part: Any) -> set[int]:
    if isinstance(part, dict):
        return {part["area"]} if part.get("type") == "area" else set()
    return {id_ for inner in part for id_ in _areas(inner)} if isinstance(part, list) else set()


@st.composite
def commands_of(draw: st.DrawFn, scope: Scope, steps: list[int], sheds: bool, accurate: bool) -> Schedule:
    """Registers, drops, pauses, resumes, and now and then words about memory.

    A query with `changes` cannot be paused: the stream forgets the rows that it has sent.
    """
    out = [(step, draw(_smaller(scope, c, accurate))) for step, c in draw(schedules(scope, steps))]
    changes = {
        c["query"]["id"] for _, c in out if c["op"] == "register" and c["query"]["options"].get("changes")
    }
    out = [(step, c) for step, c in out if c["op"] != "pause" or c["id"] not in changes]
    said = draw(st.lists(st.tuples(st.sampled_from(steps), memories(sheds)), max_size=4 if sheds else 1))
    return sorted([*said, *out], key=lambda item: item[0])


# --- cases ---


@st.composite
def wild_cases(
    draw: st.DrawFn, features: frozenset[str] = MOVING, sheds: bool = False, accurate: bool = False
) -> Case:
    """Any records and any queries.

    sheds: memory is told to shed. accurate: some queries have a least accuracy.
    """
    clock = draw(clocks)
    spec, steps = draw(significant_specs(clock)), draw(timelines())
    used = draw(used_keys(spec))
    records = [
        (step, row)
        for step in steps
        for row in draw(st.lists(rows(spec, clock, step, used), min_size=1, max_size=8))
    ]
    instants = [clock.at(1), clock.at(3) + 1]
    named = draw(areas(spec)) if "polygons" in features else {}
    joins = draw(tables(spec, used, instants)) if "joins" in features else {}
    scope = Scope(spec, clock, used, features, joins, named)
    commands = draw(commands_of(scope, steps, sheds, accurate))
    last = steps[-1] + draw(st.sampled_from([1, 4, 12]))
    return Case(spec, clock, last, records, commands, joins, named)


@st.composite
def honest_cases(
    draw: st.DrawFn, features: frozenset[str], *, silent: bool = True, sheds: bool = False
) -> Case:
    """Objects that keep to MAX SPEED, and queries over them with conditions of places alone.

    silent: some fall silent or leave by an empty location; else all report in time, from the first step on.
    sheds: for a time memory is told to shed.
    """
    clock = draw(clocks)
    spec = draw(significant_specs(clock))
    if not silent:
        spec |= {"report_every_us": max(spec["report_every_us"], 2 * clock.tick_us)}
    steps = draw(st.integers(6, 24))
    used = draw(st.lists(st.sampled_from(keys(spec)), unique=True, min_size=4, max_size=8))
    records = [item for key in used for item in draw(walks(spec, clock, key, steps, silent))]
    records.sort(key=lambda item: item[0])
    scope = Scope(spec, clock, used, features, {}, {})
    commands = draw(commands_of(scope, list(range(1, steps + 1)), sheds=False, accurate=False))
    plain = [(step, draw(_plain(scope, c))) for step, c in commands if c["op"] != "memory"]
    if sheds:
        first, last = sorted(draw(st.tuples(*[st.integers(1, steps // 2)] * 2)))
        plain += [(first, draw(memories(sheds=True))), (last, dict(EVERYTHING))]
        plain.sort(key=lambda item: item[0])
    return Case(spec, clock, steps, records, plain)


@st.composite
def _plain(draw: st.DrawFn, scope: Scope, command: Command) -> Command:
    """A registration of places alone: with no condition, or one of regions that move."""
    if command["op"] != "register":
        return command
    query, condition = command["query"], None
    if query["kind"] == "range" and moves_in_conditions(scope) and draw(st.booleans()):
        inside = moving_regions(scope).map(lambda region: ["inside", region])
        either = st.lists(inside, min_size=2, max_size=2).map(lambda parts: ["or", parts])
        condition = draw(st.one_of(either, inside.map(lambda part: ["not", part])))
    return {"op": "register", "query": query | {"condition": condition, "areas": []}}


@st.composite
def walks(draw: st.DrawFn, spec: Spec, clock: Clock, key: Any, steps: int, silent: bool) -> Schedule:
    """One object's records: never faster than MAX SPEED, never out of order."""
    x, y = draw(st.sampled_from(GRID)), draw(st.sampled_from(GRID))
    heading = draw(st.sampled_from([None, None, 0, 0, 0, 4, 8, 12]))
    most = max(1, spec["report_every_us"] // clock.tick_us)
    time, step, heard, out = 0, 1 if not silent else draw(st.integers(1, 4)), None, []
    while step <= steps:
        late = draw(st.sampled_from([0, 0, 0, 0, 1, 2])) if silent else 0
        time = clock.at(step - late) + draw(st.sampled_from([0, clock.tick_us // 2, clock.tick_us - 1]))
        time = time if heard is None else max(time, heard)
        if heard is not None:
            x, y = draw(_moved(spec, (x, y), spec["max_speed"] * (time - heard) / MICROS, heading))
        gone = silent and draw(st.integers(0, 9)) == 0
        out.append((step, draw(_row(spec, clock, steps, key, (None, None) if gone else (x, y), time))))
        heard = time
        step += draw(st.sampled_from([1, most, most, max(1, most // 2)])) + (
            draw(st.sampled_from([0] * 8 + [5])) if silent else 0
        )
    return out


@st.composite
def _moved(
    draw: st.DrawFn, spec: Spec, place: tuple[float, float], far: float, heading: int | None
) -> tuple[float, float]:
    """A place no farther away; with a heading straight on, and as far as can be."""
    sixteenth = heading if heading is not None else draw(st.integers(0, 15))
    far *= 0.999999 if heading is not None else draw(st.sampled_from([0.0, 0.0, 0.5, 0.999999]))
    dx, dy = (far * turn(sixteenth * math.pi / 8) for turn in (math.cos, math.sin))
    if not spec["planar"]:
        dx, dy = dx / DEGREE_M, dy / DEGREE_M  # the longest way of a degree of longitude is at the equator
    return place[0] + dx, place[1] + dy


@st.composite
def _row(
    draw: st.DrawFn, spec: Spec, clock: Clock, steps: int, key: Any, place: tuple[Any, Any], time: int
) -> Row:
    row = {"oid": key, "x": place[0], "y": place[1], "ts": time}
    for name, _ in spec["columns"]:
        if name not in row:
            row[name] = draw(column_values(name, clock, steps))
    return row


def retaining_all(case: Case) -> Case:
    """The same with RETAIN ALL."""
    commands = [(step, c) for step, c in case.commands if c["op"] != "memory"]
    return replace(case, spec=case.spec | {"retain": "all"}, commands=commands)
