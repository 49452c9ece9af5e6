"""Regions of every type, and what stands by a name: areas and tables."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from support.cases import Area, Polygon, Spec, Table, set_named
from support.oracle import EARTH_M
from support.strategies.streams import EXTRAS, GRID, Scope, keys

DEGREE_M = EARTH_M * math.radians(1.0)


def named_ids(stream_id: int) -> tuple[int, int, int]:
    """The ids of the region, the set of regions and the table that go with a stream."""
    return 100 * stream_id + 1, 100 * stream_id + 2, 100 * stream_id + 3


# --- rectangles ---


def _rect(a: tuple[float, float], b: tuple[float, float]) -> Spec:
    xs, ys = sorted((a[0], b[0])), sorted((a[1], b[1]))
    return {"type": "rect", "x1": xs[0], "y1": ys[0], "x2": xs[1], "y2": ys[1]}


corners = st.tuples(
    st.sampled_from([*GRID, -3.0, 3.0, -200.0, 200.0]), st.sampled_from([*GRID, -3.0, 3.0, -100.0, 100.0])
)
wide = st.sampled_from([-3.0, -1.0, -0.5, 0.0]), st.sampled_from([0.0, 0.5, 1.0, 3.0])
rects = st.one_of(
    st.builds(_rect, corners, corners),
    *[st.builds(lambda x1, y1, x2, y2: _rect((x1, y1), (x2, y2)), wide[0], wide[0], wide[1], wide[1])] * 3,
)


def focals(scope: Scope) -> st.SearchStrategy[Any]:
    """An object, known, unknown, or never heard of."""
    return st.sampled_from([*scope.used, *scope.used, keys(scope.spec)[-1]])


@st.composite
def moving_rects(draw: st.DrawFn, scope: Scope) -> Spec:
    """A rectangle around an object, often with others on its border."""
    unit = 1.0 if scope.spec["planar"] else DEGREE_M
    size = st.sampled_from([0.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 1000.0]).map(lambda n: n * unit)
    return {"type": "moving_rect", "focal": draw(focals(scope)), "xdist": draw(size), "ydist": draw(size)}


# --- circles and points ---

centres = st.one_of(
    *[st.tuples(st.sampled_from(GRID), st.sampled_from(GRID))] * 4,
    st.tuples(st.sampled_from([-180.0, 179.5, 180.0]), st.sampled_from([-90.0, 0.0, 60.0, 89.5, 90.0])),
)


def radii(scope: Scope) -> st.SearchStrategy[float]:
    """Radii with others just on, just within and just beyond the border; none, and the whole earth."""
    sizes = [0.0, 0.5, 0.5, 1.0, 1.0, math.sqrt(0.5), 1.25, 1.5, 2.5, 400.0]
    if scope.spec["planar"]:
        return st.sampled_from(sizes)
    near_border = st.sampled_from([1 - 1e-9, 1 + 1e-9, 1 + 1e-9, 1.5])
    return st.builds(lambda size, by: size * by * DEGREE_M, st.sampled_from(sizes), near_border)


@st.composite
def circles(draw: st.DrawFn, scope: Scope) -> Spec:
    """A circle that stands still."""
    x, y = draw(centres)
    return {"type": "circle", "x": x, "y": y, "radius": draw(radii(scope))}


def moving_circles(scope: Scope) -> st.SearchStrategy[Spec]:
    """A circle around an object."""
    return st.builds(
        lambda focal, radius: {"type": "moving_circle", "focal": focal, "radius": radius},
        focals(scope),
        radii(scope),
    )


@st.composite
def neighbourhoods(draw: st.DrawFn, scope: Scope) -> Spec:
    """The k nearest to a point, or to an object."""
    k = draw(st.sampled_from([1, 1, 2, 2, 3, 20]))
    if scope.moving and draw(st.booleans()):
        return {"type": "nearest", "k": k, "focal": draw(focals(scope))}
    x, y = draw(centres)
    return {"type": "nearest", "k": k, "x": x, "y": y}


# --- polygons ---

SHAPES: list[Polygon] = [
    [[[0, 0], [2, 0], [0, 2], [0, 0]]],
    [[[0, 0], [0, 2], [2, 2], [2, 0], [0, 0]]],
    [[[0, 0], [2, 0], [2, 1], [1, 1], [1, 2], [0, 2], [0, 0]]],
    [[[0, 0], [3, 0], [3, 3], [0, 3], [0, 0]], [[1, 1], [1, 2], [2, 2], [2, 1], [1, 1]]],
    [[[0, 0], [1, 1], [2, 0], [2, 2], [0, 2], [0, 0]]],
    [[[0, 1], [1, 0], [2, 1], [1, 2], [0, 1]]],
    [[[0, 0], [0.25, 3], [0.5, 0.25], [1, 3], [1.5, 0.25], [2, 3], [2.5, 0], [0, 0]]],
]
"""Valid polygons: clockwise and not, concave, with a hole, with thin spikes."""


def _placed(shape: Polygon, dx: float, dy: float, scale: float) -> Polygon:
    return [[[x * scale + dx, y * scale + dy] for x, y in ring] for ring in shape]


corner = st.sampled_from([-1.5, -1.0, -0.5, 0.0, 0.5])
polygons = st.builds(_placed, st.sampled_from(SHAPES), corner, corner, st.sampled_from([0.5, 1.0, 1.0, 20.0]))


ZONES = ["ä", "o'x", "A"]
"""The members of a set of regions, which overlap; they are not in the order of their names."""


@st.composite
def areas(draw: st.DrawFn, spec: Spec) -> dict[int, Area]:
    """A named region and a set of regions, some of several polygons."""
    region_id, set_id, _ = named_ids(spec["id"])
    source = {"type": "file", "glob": "none", "format": "geojson", "options": {}}
    one = {"id": region_id, "name": f"campus{spec['id']}", "set": False, "members": [], "source": None}
    several = {"id": set_id, "name": set_named(spec["name"]), "set": True, "members": ZONES, "source": source}
    apart = [_placed(SHAPES[1], -4.0, -4.0, 1.0)]  # touches no other polygon
    members: dict[str | None, list[Polygon]] = {
        name: [draw(polygons), *draw(st.sampled_from([[], [], apart]))] for name in ZONES
    }
    return {region_id: Area(one, {None: [draw(polygons)]}), set_id: Area(several, members)}


@st.composite
def _named(draw: st.DrawFn, scope: Scope) -> Spec:
    area = draw(st.sampled_from(list(scope.areas.values())))
    member = draw(st.sampled_from(list(area.members)))
    return {"type": "area", "area": area.spec["id"], "name": area.spec["name"], "member": member}


def still_regions(scope: Scope) -> st.SearchStrategy[Spec]:
    """A region that stands still."""
    out = [rects]
    if "circles" in scope.features:
        out.append(circles(scope))
    if "polygons" in scope.features:
        out.append(polygons.map(lambda rings: {"type": "polygon", "rings": rings}))
        out += [_named(scope)] if scope.areas else []
    return st.one_of(*out)


def moving_regions(scope: Scope) -> st.SearchStrategy[Spec]:
    """A region around an object."""
    return st.one_of(moving_rects(scope), moving_circles(scope))


def regions(scope: Scope) -> st.SearchStrategy[Spec]:
    """Any region of a range query."""
    moving = []
    if scope.moving:
        moving = [moving_rects(scope)]
        if "circles" in scope.features:
            moving.append(moving_circles(scope))
    weight = 3 if not scope.features else 1
    still = [rects] * weight if not scope.features else [rects, still_regions(scope), still_regions(scope)]
    return st.one_of(*still, *moving * weight, st.just({"type": "all"}))


# --- tables ---


@st.composite
def tables(draw: st.DrawFn, spec: Spec, used: list[Any], instants: list[int]) -> dict[int, Table]:
    """A table whose key fits a column of the stream, with rows for some of the values that occur.

    No key is empty: a file has no such keys.
    """
    types = dict(spec["columns"])
    fitting = [name for name in ("oid", "oid", "status", "n") if name in types]
    column = draw(st.sampled_from(fitting))
    values = [value for value in (used if column == "oid" else EXTRAS[column][1]) if value != ""]
    chosen = draw(st.lists(st.sampled_from(values), unique=True, max_size=len(values)))
    columns = [["tk", types[column]], ["rank", "BIGINT"], ["label", "STRING"], ["since", "TIMESTAMP"]]
    row = st.fixed_dictionaries(
        {
            "rank": st.sampled_from([None, -1, 0, 1, 2]),
            "label": st.sampled_from([None, "free", "b", "Light street"]),
            "since": st.sampled_from([None, *instants]),
        }
    )
    table_id = named_ids(spec["id"])[2]
    table: Spec = {"id": table_id, "name": f"favs{spec['id']}", "key": "tk"}
    table["columns"] = draw(st.permutations(columns))
    table["source"] = {"type": "file", "glob": "none", "format": None, "options": {}}
    found = {table_id: Table(table | {"joins": column}, [{"tk": key, **draw(row)} for key in chosen])}
    if draw(st.booleans()):
        found |= draw(_further_tables(table_id, ["join", table_id, column, "rank"], instants))
    return found


@st.composite
def _further_tables(draw: st.DrawFn, first: int, joins: Any, instants: list[int]) -> dict[int, Table]:
    """A table whose key fits a column of another table."""
    columns = [["rk", "BIGINT"], ["word", "STRING"], ["until", "TIMESTAMP"], ["level", "INT"]]
    keys = draw(st.lists(st.sampled_from([-1, 0, 1, 2, 5]), unique=True, max_size=5))
    row = st.fixed_dictionaries(
        {
            "word": st.sampled_from([None, "free", "light"]),
            "until": st.sampled_from([None, *instants]),
            "level": st.sampled_from([None, 0, 1]),
        }
    )
    source = {"type": "file", "glob": "none", "format": None, "options": {}}
    table = {"id": first + 1, "name": f"ranks{first}", "key": "rk", "source": source, "joins": joins}
    table["columns"] = draw(st.permutations(columns))
    return {first + 1: Table(table, [{"rk": key, **draw(row)} for key in keys])}
