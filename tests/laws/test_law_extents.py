"""Objects with an extent: after each step answers are those of plain shapely, however a run is divided."""

from __future__ import annotations

import json
import math
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share
from support.local import local_session
from support.oracle.extents import Shape, apart, far, relates
from support.oracle.geometry import Place
from support.oracle.timing import Answer, Reader, Timing
from support.running import run_script

STEPS = 4
KEYS = [f"k{i}" for i in range(8)]
GRID = [i / 2 for i in range(-3, 4)]
SHAPES = [
    "POINT (0 0)",
    "MULTIPOINT ((0 0), (1 0.5))",
    "LINESTRING (0 0, 1 1, 2 0)",
    "MULTILINESTRING ((0 0, 0 1), (1 0, 1 1))",
    "POLYGON ((0 0, 1 0, 1 1, 0 1, 0 0))",
    "POLYGON ((0 0, 2 0, 0 2, 0 0))",
    "POLYGON ((0 0, 3 0, 3 3, 0 3, 0 0), (1 1, 1 2, 2 2, 2 1, 1 1))",
    "MULTIPOLYGON (((0 0, 1 0, 0 1, 0 0)), ((1.5 1.5, 2 1.5, 2 2, 1.5 1.5)))",
    "GEOMETRYCOLLECTION (POINT (1 0), LINESTRING (0 0, 0 1))",
]
ZONE = "POLYGON ((-1 -1, 1 -1, 1 1, -1 1, -1 -1), (0 0, 0 0.5, 0.5 0.5, 0.5 0, 0 0))"
AREAS = ["POLYGON ((-1 -1, 2 -1, 2 2, -1 2, -1 -1))", "POLYGON ((0 -1, 2 1, 0 2, -2 1, 0 -1))", ZONE]
ZONES = dict(zip("cab", [AREAS[0], AREAS[1], "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))"], strict=True))
RADII = [0.5, 0.75, 1.0, 1.3, 2.6]
DEGREE_M = 111_195.08
SEAM = 180.125
"""How far east a case at the 180th meridian is typed; no corner is on the meridian then."""

EARTH_M = 6_371_008.8
AT_ONCE = Timing()
"""Updates are sent in each step, and nothing holds them back."""

Objects = dict[str, tuple[Shape | None, int]]
"""The shape and the value `v` of each object."""


@dataclass(frozen=True)
class Around:
    """A circle or a rectangle around an object: its key, and its radius, or its width and height."""

    key: str
    sizes: tuple[float, ...]

    def region(self, now: Objects, planar: bool) -> Any:
        """The region: x, y and radius of a circle, or a shape; None while the object is absent."""
        shape, _ = now.get(self.key, (None, 0))
        if shape is None:
            return None
        x1, y1, x2, y2 = shape.bounds
        x, y = (x1 + x2) / 2, (y1 + y2) / 2
        if len(self.sizes) == 1:
            return x, y, *self.sizes
        wide, high = (size / 2 for size in self.sizes)
        if not planar:
            wide, high = (math.degrees(side / EARTH_M) for side in (wide, high))
            wide /= math.cos(math.radians(y))
        return shapely.box(x - wide, y - high, x + wide, y + high)


@dataclass(frozen=True)
class Query:
    """A query, and how its answer after a step is found one object at a time.

    `ranking`, of a NEAREST: its place or object, and number; members are those that `holds`. If `first` is
    given, so many of them are shown, those with the greatest `v`. The objects of `around` are no members. The
    distance from the first of them is selected if `measures`. `altered`: before which step, by what, and what
    the query is then.
    """

    text: str
    holds: Callable[[Shape, int, Objects], bool]
    ranking: tuple[Place | str, int] | None = None
    first: int | None = None
    around: tuple[Around, ...] = ()
    measures: bool = False
    timing: Timing = AT_ONCE
    altered: tuple[int, str, Query] | None = None

    @property
    def select(self) -> str:
        """The SELECT of its objects."""
        first = "" if self.first is None else f" ORDER BY v DESC LIMIT {self.first}"
        far = ", DISTANCE" * (self.measures or bool(self.ranking))
        return f"SELECT oid, v{far} FROM m {self.text}{first}"

    @property
    def waits_as_row(self) -> bool:
        """Whether with `dwell` the rows of its answer wait, and not the objects in its region."""
        return bool(self.ranking or self.around or self.timing.every)

    @property
    def count(self) -> str:
        """The SELECT of their number and sum."""
        return f"SELECT COUNT(*) n, SUM(v) s FROM m {self.text}"


def draw_shape(draw: random.Random) -> Shape | None:
    """A shape on a half grid, so that shared borders are common; now and then none."""
    if draw.random() < 0.1:
        return None
    shape = shapely.from_wkt(draw.choice(SHAPES))
    scale, dx, dy = draw.choice([0.5, 0.5, 1.0, 1.5]), draw.choice(GRID), draw.choice(GRID)
    return shapely.transform(shape, lambda places: places * scale + (dx, dy))


def draw_region(draw: random.Random, setting: Setting) -> tuple[str, Any]:
    """A region as it is typed, and its shape, or x, y and radius of a circle; or one around an object."""
    planar, east = setting.planar, setting.east
    if setting.kind == "MOVING" and draw.random() < 0.3:
        key, unit = draw.choice(KEYS), 1 if planar else DEGREE_M
        sizes = tuple(draw.choice(RADII) * unit for _ in range(draw.choice([1, 2])))
        form = "CIRCLE" if len(sizes) == 1 else "RECT"
        return f"{form}({', '.join(map(str, sizes))}) AROUND '{key}'", Around(key, sizes)
    match draw.choice(["rect", "rect", "circle", "polygon", "zone"]):
        case "rect":
            xs, ys = sorted(draw.choices(GRID, k=2)), sorted(draw.choices(GRID, k=2))
            corners = {(a, b) for a in xs for b in ys}
            return f"RECT({xs[0] + east}, {ys[0]}, {xs[1] + east}, {ys[1]})", shapely.MultiPoint(
                [*corners]
            ).convex_hull
        case "circle":
            x, y = draw.choice(GRID), draw.choice(GRID)
            radius = draw.choice(RADII) * (1 if planar else DEGREE_M)
            return f"CIRCLE({x + east}, {y}, {radius})", (x, y, radius)
        case "polygon":
            text = draw.choice(AREAS)
            return typed_polygon(text, east), shapely.from_wkt(text)
    return "zone", shapely.from_wkt(ZONE)


def typed_polygon(text: str, east: float) -> str:
    """A polygon as it is typed, some degrees further east."""
    return str(shapely.to_wkt(moved(shapely.from_wkt(text), east), rounding_precision=-1)).replace(
        "N (", "N("
    )


def moved(shape: Shape, east: float) -> Shape:
    """A shape some degrees further east."""
    return shapely.transform(shape, lambda places: places + np.array([east, 0]))


def cut(shape: Shape) -> Shape:
    """A shape, typed at the meridian, in its parts on both sides."""
    sides = shapely.box(-90, -90, 180 - SEAM, 90), shapely.box(180 - SEAM, -90, 90, 90)
    parts = [part for part in (shape.intersection(side) for side in sides) if not part.is_empty]
    return parts[0] if len(parts) == 1 else shapely.GeometryCollection(parts)


def meets(shape: Shape, relation: str, region: Any, now: Objects, planar: bool) -> bool:
    """Whether a shape is INSIDE a region or INTERSECTS it, where it is now."""
    here = region.region(now, planar) if isinstance(region, Around) else region
    return here is not None and relates(shape, relation, here, planar)


def draw_query(draw: random.Random, setting: Setting) -> Query:
    """A query with a region in its clause or in WHERE, or for the nearest."""
    planar, east = setting.planar, setting.east
    (text, region), relation = draw_region(draw, setting), draw.choice(["INSIDE", "INTERSECTS"])
    (other, beside), between = draw_region(draw, setting), draw.choice(["INSIDE", "INTERSECTS"])
    one, two = (
        tuple(some for some in regions if isinstance(some, Around))
        for regions in ([region], [region, beside])
    )

    def first(shape: Shape, v: int, now: Objects) -> bool:
        return meets(shape, relation, region, now, planar)

    def second(shape: Shape, v: int, now: Objects) -> bool:
        return meets(shape, between, beside, now, planar)

    forms = ["clause", "clause", "where", "both", "not", "or", "nearest", "nearest in", "within", "region"]
    form = draw.choice(forms)
    match form:
        case "region":
            zone = draw.choice("abc")
            return Query(
                f"WHERE REGION(zones) = '{zone}'",
                lambda shape, v, now: next((z for z in "abc" if covers(z, shape, planar)), None) == zone,
            )
        case "clause":
            measures = isinstance(region, Around) and len(region.sizes) == 1
            return Query(f"{relation} {text}", first, around=one, measures=measures)
        case "where":
            condition = f"WHERE loc {relation} {text} AND v > 1"
            return Query(condition, lambda *own: first(*own) and own[1] > 1, around=one)
        case "both":
            both = f"WHERE loc {between} {other} {relation} {text}"
            return Query(both, lambda *own: first(*own) and second(*own), around=two)
        case "not":
            return Query(f"WHERE NOT loc {relation} {text}", lambda *own: not first(*own), around=one)
        case "or":
            condition = f"(loc {relation} {text} OR loc {between} {other})"
            return Query(f"WHERE {condition}", lambda *own: first(*own) or second(*own), around=two)
        case "within":
            x, y, radius = 0.5, 0.0, 1.3 * (1 if planar else DEGREE_M)
            return Query(
                f"WHERE ST_DWITHIN(loc, ST_POINT({x - 360 * bool(east) + east}, {y}), {radius})",
                lambda shape, v, now: far(shape, (x, y), planar) <= radius,
            )
    k, shown = draw.choice([1, 2, 4]), draw.choice([None, None, 1, 3])
    x, y = draw.choice(GRID), draw.choice(GRID)
    place: Place | str = (x, y)
    near = f"NEAREST {k} TO ({x + east}, {y})"
    if setting.kind == "MOVING" and draw.random() < 0.5:
        place = draw.choice(KEYS)
        near = f"NEAREST {k} TO {place!r}"
    if form == "nearest":
        return Query(near, lambda *own: True, (place, k), shown)
    return Query(f"{near} {relation} {text}", first, (place, k), shown, around=one)


def covers(zone: str, shape: Shape, planar: bool) -> bool:
    """Whether a zone of the set holds all of a shape."""
    return relates(shape, "INSIDE", shapely.from_wkt(ZONES[zone]), planar)


def draw_steps(draw: random.Random, kind: str) -> list[Objects]:
    """What each object is after each step; an event is always a new one, and has a shape."""
    now: Objects = {}
    steps = []
    for step in range(STEPS):
        told = KEYS[:6] if step == 0 else draw.sample(KEYS, 3)
        shapes = {key: (draw_shape(draw), draw.randint(0, 3)) for key in told}
        if kind == "EVENT":
            shapes = {f"{key}.{step}": one for key, one in shapes.items() if one[0] is not None}
        now = now | shapes
        steps.append(now)
    return steps


@dataclass(frozen=True)
class Setting:
    """How a case is typed and divided.

    routing: the strategy of a REPARTITION in the middle; "" for none. kept: whether the stream retains what
    is significant, with which nothing is paused, ends or is altered.
    """

    kind: str
    place: str
    form: str
    slots: int
    published: bool
    routing: str = ""
    kept: bool = False

    @property
    def planar(self) -> bool:
        """Whether coordinates are those of a plane."""
        return self.place == "plane"

    @property
    def east(self) -> float:
        """How far east everything is typed, in degrees."""
        return SEAM if self.place == "meridian" else 0.0


def script(
    folder: Path, steps: list[Objects], queries: list[Query], setting: Setting
) -> tuple[str, list[int]]:
    """The script of a case: queries, then a RUN and the same SELECTs for each step.

    With the number of the first of these SELECTs after each step.
    """
    lines = []
    for step, now in enumerate(steps):
        before = steps[step - 1] if step else {}
        for key, (shape, v) in now.items():
            if before.get(key) != (shape, v):
                row = {"oid": key, "v": v, "ts": step, "shape": written(shape, setting)}
                lines.append(json.dumps(row))
    (folder / "m.jsonl").write_text("\n".join(lines))
    features = [
        {"type": "Feature", "properties": {"zone": name}, "geometry": json.loads(shapely.to_geojson(one))}
        for name, one in zip(ZONES, moved(shapely.from_wkt([*ZONES.values()]), setting.east), strict=True)
    ]
    (folder / "z.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    registered = [
        f"REGISTER QUERY {name}{i}{query.timing.options(rows=name == 'q')} AS {text}{query.timing.clauses};"
        for i, query in enumerate(queries)
        for name, text in (("q", query.select), ("c", query.count))
    ]
    retained = " RETAIN SIGNIFICANT REPORT EVERY 1 h MAX SPEED 1000000" * setting.kept
    create = (
        f"CREATE {setting.kind} STREAM m (oid STRING, v BIGINT, shape STRING, ts TIMESTAMP) KEY oid"
        f" LOCATION (shape) TIME ts FROM FILE '{folder}/m.jsonl' TICK 1 s"
        f"{' PLANAR' * setting.planar}{retained};"
        f" CREATE REGION zone AS {typed_polygon(ZONE, setting.east)};"
        f" CREATE REGIONS zones FROM FILE '{folder}/z.geojson' NAME zone;"
    )
    questions = [*queries, *(query.altered[2] for query in queries if query.altered)]
    lines, asked = [create, *registered], []
    for step in range(1, len(steps) + 1):
        for name, moment in (("PAUSE", "paused"), ("RESUME", "resumed")):
            at = [i for i, query in enumerate(queries) if getattr(query.timing, moment) == step]
            lines += [f"{name} QUERY {kind}{i};" for i in at for kind in "qc"]
        for i, query in enumerate(queries):
            if query.altered and query.altered[0] == step:
                lines += [f"ALTER QUERY {kind}{i} {query.altered[1]};" for kind in "qc"]
        if setting.routing and step == len(steps) // 2:
            lines.append(f"REPARTITION m USING {setting.routing};")
        lines.append("RUN 1 STEPS;")
        asked.append(len(lines) + 3)  # the first line has three statements
        for query in questions:
            lines += [f"{text}{query.timing.span};" for text in (query.select, query.count)]
    return "\n".join(lines), asked


def written(shape: Shape | None, setting: Setting) -> Any:
    """A shape as records have it."""
    if shape is None:
        return None
    shape = moved(shape, setting.east)
    match setting.form:
        case "wkt":
            return shapely.to_wkt(shape)
        case "wkb":
            return shapely.to_wkb(shape, hex=True)
    return json.loads(shapely.to_geojson(shape))


def check(query: Query, now: Objects, rows: Answer, planar: bool, among: set[str]) -> None:
    """Raise AssertionError unless the members of an answer are those after a step; with their distances."""
    distances, nearest, is_clear = expected(query, now, planar, among)
    members = {key: row.get("distance") for key, row in rows.items()}
    if query.ranking is None:
        assert members.keys() == set(nearest), query.text
        for key, distance in distances.items():
            assert math.isclose(members[key] or 0.0, distance, rel_tol=1e-9, abs_tol=1e-6), query.text
        return
    last = max((distances[key] for key in nearest), default=0.0)
    for key, told in members.items():
        assert told is not None and math.isclose(told, distances[key], rel_tol=1e-9, abs_tol=1e-6), query.text
        assert distances[key] <= last * (1 + 1e-9) + 1e-6
    if query.first is not None:
        nearest = sorted(nearest, key=lambda key: (-now[key][1], key))[: query.first]
    assert len(members) == len(nearest), query.text
    if is_clear:
        assert members.keys() == set(nearest), query.text


def check_count(query: Query, now: Objects, count: Any, planar: bool, among: set[str]) -> None:
    """Raise AssertionError unless the number and the sum are those of the members after a step."""
    _, members, is_clear = expected(query, now, planar, among)
    assert count["n"] == len(members), query.text
    if is_clear:
        assert count["s"] == (sum(now[key][1] for key in members) if members else None), query.text


def expected(
    query: Query, now: Objects, planar: bool, among: set[str]
) -> tuple[dict[str, float], list[str], bool]:
    """The distances of those that hold, the members, and whether no other is as near as the last of them.

    `among`: who may be a member.
    """
    focal = {one.key for one in query.around}
    there = {key: now[key] for key in now if key in among and key not in focal and now[key][0] is not None}
    held = {key: shape for key, (shape, v) in there.items() if query.holds(shape, v, now)}
    if query.ranking is None:
        centre = query.around[0].region(now, planar) if query.measures else None
        return {key: far(shape, centre[:2], planar) for key, shape in held.items() if centre}, [*held], True
    place, k = query.ranking
    if isinstance(place, str):
        around, _ = now.get(place, (None, 0))
        held = {key: shape for key, shape in held.items() if key != place and around is not None}
        distances = {key: apart(shape, around, planar) for key, shape in held.items()}
    else:
        distances = {key: far(shape, place, planar) for key, shape in held.items()}
    nearest = sorted(held, key=lambda key: (distances[key], key))
    members, others = nearest[:k], nearest[k:]
    is_clear = not others or distances[others[0]] > distances[members[-1]] * (1 + 1e-9) + 1e-6
    if planar and all(d % 0.5 == 0 for d in distances.values()):
        is_clear = True  # equal distances are so to the last digit, so the smaller key wins
    return distances, members, is_clear


def draw_timing(draw: random.Random, setting: Setting) -> Timing:
    """When a query looks at its members, and what holds it back; half of the time nothing does."""
    if draw.random() < 0.4:
        return AT_ONCE
    paused = draw.choice([0, 0, 2, 3]) * (not setting.kept)
    return Timing(
        changes=draw.random() < 0.5,
        dwell=draw.choice([0, 0, 1, 2]),
        sync=(sync := draw.choice([0, 0, 0, 1, 2])),
        window=(window := draw.choice([0, 0, 2, 3])),
        slide=draw.choice([0, 1]) * bool(window and not sync),
        lasts=draw.choice([0, 0, 0, 3]) * (not setting.kept),
        paused=paused,
        resumed=paused and paused + draw.choice([1, 2]),
    )


def draw_change(draw: random.Random, setting: Setting, query: Query) -> Query:
    """A query of which the WHERE, the region or the neighbours are altered, if that is supported."""
    if setting.kept or query.measures or draw.random() < 0.6:
        return query
    inside = query.text.startswith("INSIDE") or (query.ranking and "INTERSECTS" not in query.text)
    changes = ["where"] * ("WHERE" not in query.text) + ["region"] * bool(inside)
    changes += ["nearest"] * bool(query.ranking and not query.timing.changes)
    if not changes:
        return query
    holds = query.holds
    match draw.choice(changes):
        case "where":
            change = "WHERE v > 1"
            later = replace(
                query, text=f"{change} {query.text}", holds=lambda *own: own[1] > 1 and holds(*own)
            )
        case "region":
            text, region = draw_region(draw, setting)
            searches = query.ranking or query.timing.every
            while not searches and isinstance(region, Around) != bool(query.around):
                text, region = draw_region(draw, setting)  # other changes are not supported yet
            change = f"INSIDE {text}"
            near = f"{query.text.partition(' INSIDE')[0]} " * bool(query.ranking)
            later = replace(
                query,
                text=near + change,
                holds=lambda shape, v, now: meets(shape, "INSIDE", region, now, setting.planar),
                around=(region,) * isinstance(region, Around),
            )
        case _:
            rest = "".join(query.text.partition(" IN")[1:])
            place, k = (draw.choice(GRID), draw.choice(GRID)), draw.choice([1, 3])
            change = f"NEAREST {k} TO ({place[0] + setting.east}, {place[1]})"
            later = replace(query, text=f"{change}{rest}", ranking=(place, k))
    return replace(query, altered=(draw.choice([2, 3, 4]), change, later))


places = st.sampled_from(["plane", "plane", "sphere", "meridian"])
slots = st.sampled_from([1, 3])
settings = st.one_of(
    *3
    * [
        st.builds(
            Setting,
            kind=st.sampled_from(["MOVING", "MOVING", "EVENT"]),
            place=places,
            form=st.sampled_from(["wkt", "wkb", "geojson"]),
            slots=slots,
            published=st.just(True),
            routing=st.sampled_from(["", "", "grid", "quadtree", "agrid"]),
        )
    ],
    # The log answers a SELECT in twice the time.
    st.builds(Setting, st.sampled_from(["MOVING", "EVENT"]), places, st.just("wkt"), slots, st.just(False)),
    st.builds(Setting, st.just("MOVING"), places, st.just("wkt"), slots, st.just(True), kept=st.just(True)),
)


@share(4)
@given(
    seed=st.integers(0, 2**32),
    setting=settings,
    records=st.sampled_from([4, 400_000]),
    restarts=st.frozensets(st.integers(1, 2 * STEPS)),
)
def test_answers_are_those_of_shapes_one_by_one(
    seed: int, setting: Setting, records: int, restarts: frozenset[int]
) -> None:
    draw = random.Random(seed)
    steps = draw_steps(draw, setting.kind)
    timed = [replace(draw_query(draw, setting), timing=draw_timing(draw, setting)) for _ in range(4)]
    queries = [draw_change(draw, setting, query) for query in timed]
    with (
        tempfile.TemporaryDirectory() as name,
        local_session(
            Path(name) / "home", setting.slots, records, published=setting.published, restarts=restarts
        ) as session,
    ):
        text, asked = script(Path(name), steps, queries, setting)
        output = run_script(session, text)
    told = [json.loads(line) for line in output.splitlines()]
    if setting.east:
        steps = [{key: (shape and cut(shape), v) for key, (shape, v) in now.items()} for now in steps]
    later = len(queries)
    for number, query in enumerate(queries):
        versions = [(query, number)]
        if query.altered:
            versions.append((query.altered[2], later))
            later += 1
        found = [read(told, asked, place) for _, place in versions]
        for (version, _), (rows, counts) in zip(versions, found, strict=True):
            check_answers(version, steps, rows, counts, setting.planar)
        updates = [line for line in told if "op" in line and line["query"][1:] == str(number)]
        check_updates(query, steps, updates, found, setting.kept)


def read(told: list[Any], asked: list[int], place: int) -> tuple[list[Answer], list[Answer]]:
    """The answers of a question's two SELECTs after each step, from 0 on."""
    first: list[Answer] = [{"": {"n": 0, "s": None}}]
    rows, counts = ([answer(told, start + 2 * place + further) for start in asked] for further in (0, 1))
    return [{}, *rows], [*first, *counts]


def check_answers(
    query: Query, steps: list[Objects], rows: list[Answer], counts: list[Answer], planar: bool
) -> None:
    """Raise AssertionError unless the answers of a query's SELECTs after each step are the oracle's."""
    for step, now in enumerate(steps, start=1):
        among = {key for key in now if not is_late(key, steps[:step], query.timing)}
        check(query, now, rows[step], planar, among)
        check_count(query, now, counts[step][""], planar, among)


def check_updates(
    query: Query,
    steps: list[Objects],
    updates: list[Any],
    found: list[tuple[list[Answer], list[Answer]]],
    kept: bool,
) -> None:
    """Raise AssertionError unless updates, folded, are what a reader is to hold after each step.

    `found`: the answers of the SELECTs as they are at first, and after an ALTER. `kept`: whether the stream
    retains what is significant.
    """
    timing = query.timing

    def current(key: str, step: int) -> Any:
        shape, v = steps[step - 1][key]
        return None if shape is None or is_late(key, steps[:step], timing) else {"oid": key, "v": v}

    rows = Reader(timing, query.waits_as_row or (kept and timing.changes))
    counted = Reader(timing, query.waits_as_row or kept)  # only records inside regions are kept
    groups = Reader(replace(timing, dwell=0), waits_as_row=True)
    log: dict[str, Answer] = {"q": {}, "c": {}}
    for step in range(1, len(steps) + 1):
        for update in updates:
            if update["step"] == step:
                take(update, log[update["query"][0]])
        members, counts = found[bool(query.altered and query.altered[0] <= step)]
        about = query.text, timing, query.altered, step
        compare(log["q"], rows.step(step, members, current), timing.changes, about)
        if not timing.dwell:
            compare(log["c"], groups.step(step, counts, current), True, about)
        elif query.first is None and log["c"]:  # with LIMIT other members are counted
            values = [row["v"] for row in counted.step(step, members, current).values()]
            total = {"n": len(values), "s": sum(values) if values else None}
            compare(log["c"], {"": total}, True, about)


def compare(log: Answer, held: Answer, exactly: bool, about: Any) -> None:
    """Raise AssertionError unless updates folded are what a reader is to hold."""
    assert log.keys() == held.keys(), (about, log, held)
    for key, row in held.items() if exactly else ():
        for name, value in row.items():
            found = log[key].get(name)
            same = found == value or (
                isinstance(value, float) and math.isclose(found, value, rel_tol=1e-12, abs_tol=1e-9)
            )
            assert same, (about, key, log[key], row)


def is_late(key: str, steps: list[Objects], timing: Timing) -> bool:
    """Whether the last record of an object is older than the window after some steps."""
    last = max(
        step
        for step, now in enumerate(steps, start=1)
        if key in now and (step == 1 or steps[step - 2].get(key) != now[key])
    )
    return bool(timing.window) and last <= len(steps) - timing.window


def take(update: Any, answer: Answer) -> None:
    """Fold an update into an answer; the row of an aggregate has the key ""."""
    key = update["key"] or ""
    if update["op"] == "+":
        assert key not in answer, update
        answer[key] = update["row"]
    else:
        assert key in answer, update
        del answer[key]


def answer(told: list[Any], statement: int) -> Answer:
    """The rows of a SELECT by key."""
    rows = [line["row"] for line in told if line.get("statement") == statement and "row" in line]
    return {row.get("oid", ""): row for row in rows}
