"""Objects with an extent: after each step answers are those of plain shapely, however a run is divided."""

from __future__ import annotations

import json
import math
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
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
    distance from the first of them is selected if `measures`.
    """

    text: str
    holds: Callable[[Shape, int, Objects], bool]
    ranking: tuple[Place | str, int] | None = None
    first: int | None = None
    around: tuple[Around, ...] = ()
    measures: bool = False

    @property
    def select(self) -> str:
        """The SELECT of its objects."""
        first = "" if self.first is None else f" ORDER BY v DESC LIMIT {self.first}"
        return f"SELECT oid{', DISTANCE' * (self.measures or bool(self.ranking))} FROM m {self.text}{first}"

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
    """How a case is typed and divided."""

    kind: str
    place: str
    form: str
    slots: int
    published: bool

    @property
    def planar(self) -> bool:
        """Whether coordinates are those of a plane."""
        return self.place == "plane"

    @property
    def east(self) -> float:
        """How far east everything is typed, in degrees."""
        return SEAM if self.place == "meridian" else 0.0


def script(folder: Path, steps: list[Objects], queries: list[Query], setting: Setting) -> str:
    """The script of a case: queries, then a RUN and the same SELECTs for each step."""
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
    selects = [query.select for query in queries]
    counts = [query.count for query in queries]
    registered = [f"REGISTER QUERY q{i} AS {select};" for i, select in enumerate(selects)]
    registered += [f"REGISTER QUERY c{i} AS {count};" for i, count in enumerate(counts)]
    create = (
        f"CREATE {setting.kind} STREAM m (oid STRING, v BIGINT, shape STRING, ts TIMESTAMP) KEY oid"
        f" LOCATION (shape) TIME ts FROM FILE '{folder}/m.jsonl' TICK 1 s{' PLANAR' * setting.planar};"
        f" CREATE REGION zone AS {typed_polygon(ZONE, setting.east)};"
        f" CREATE REGIONS zones FROM FILE '{folder}/z.geojson' NAME zone;"
    )
    asked = [f"{select};" for select in [*selects, *counts]]
    return "\n".join([create, *registered, *["RUN 1 STEPS;", *asked] * len(steps)])


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


def check(query: Query, now: Objects, members: dict[str, float | None], planar: bool) -> None:
    """Raise AssertionError unless the members of an answer are those after a step; with their distances."""
    distances, nearest, is_clear = expected(query, now, planar)
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


def check_count(query: Query, now: Objects, count: Any, planar: bool) -> None:
    """Raise AssertionError unless the number and the sum are those of the members after a step."""
    _, members, is_clear = expected(query, now, planar)
    assert count["n"] == len(members), query.text
    if is_clear:
        assert count["s"] == (sum(now[key][1] for key in members) if members else None), query.text


def expected(query: Query, now: Objects, planar: bool) -> tuple[dict[str, float], list[str], bool]:
    """The distances of those that hold, the members, and whether no other is as near as the last of them."""
    focal = {one.key for one in query.around}
    there = {key: (shape, v) for key, (shape, v) in now.items() if shape is not None and key not in focal}
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


settings = st.builds(
    Setting,
    kind=st.sampled_from(["MOVING", "MOVING", "EVENT"]),
    place=st.sampled_from(["plane", "plane", "sphere", "meridian"]),
    form=st.sampled_from(["wkt", "wkb", "geojson"]),
    slots=st.sampled_from([1, 3]),
    published=st.sampled_from([True, True, False]),  # the log answers a SELECT in twice the time
)


@share(4)
@given(seed=st.integers(0, 2**32), setting=settings, records=st.sampled_from([4, 400_000]))
def test_answers_are_those_of_shapes_one_by_one(seed: int, setting: Setting, records: int) -> None:
    draw = random.Random(seed)
    steps = draw_steps(draw, setting.kind)
    queries = [draw_query(draw, setting) for _ in range(4)]
    with (
        tempfile.TemporaryDirectory() as name,
        local_session(Path(name) / "home", setting.slots, records, published=setting.published) as session,
    ):
        output = run_script(session, script(Path(name), steps, queries, setting))
    told = [json.loads(line) for line in output.splitlines()]
    if setting.east:
        steps = [{key: (shape and cut(shape), v) for key, (shape, v) in now.items()} for now in steps]
    members: list[dict[str, float | None]] = [{} for _ in queries]
    totals: list[dict[str, int | None]] = [{} for _ in queries]
    for step, now in enumerate(steps, start=1):
        for update in (line for line in told if line.get("step") == step):
            take(update, members, totals)
        snapshots, counts = answers(told, step, len(queries))
        for query, snapshot, held in zip(queries, snapshots, members, strict=True):
            check(query, now, snapshot, setting.planar)
            assert snapshot.keys() == held.keys(), query.text
        for query, count, total in zip(queries, counts, totals, strict=True):
            check_count(query, now, count, setting.planar)
            assert count == total, query.text


def take(update: Any, members: list[dict[str, float | None]], totals: list[Any]) -> None:
    """Fold an update into the answers of the queries for objects and of the aggregates."""
    number, is_member = int(update["query"][1:]), update["query"][0] == "q"
    if update["op"] == "+" and is_member:
        members[number][update["key"]] = update["row"].get("distance")
    elif update["op"] == "+":
        totals[number] = update["row"]
    elif is_member:
        del members[number][update["key"]]


def answers(told: list[Any], step: int, queries: int) -> tuple[list[dict[str, float | None]], list[Any]]:
    """The answers of the SELECTs after a step, each by its place in the script."""
    each = 2 * queries
    first = 3 + each + (step - 1) * (each + 1) + 2
    rows = [[line["row"] for line in told if line.get("statement") == first + place] for place in range(each)]
    members = [{row["oid"]: row.get("distance") for row in some} for some in rows[:queries]]
    return members, [total for (total,) in rows[queries:]]
