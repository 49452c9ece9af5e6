"""Regions with their caches, and what query shedding leaves of regions (SOLE 4.4, 4.5, 6.3)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from support.cases import Clock, Polygon, Spec
from support.oracle.expressions import World
from support.oracle.geometry import EARTH_M, Place, around, distance, in_polygon, in_rectangle, is_around

MICROS = 1_000_000


class Memory(NamedTuple):
    """What a stream's memory is told: the cache's factor, least references, shares of cache and area, and of
    the objects with one reference less than the least the share that goes.
    """

    factor: float = 1.0
    k: int = 1
    cache: float = 1.0
    area: float = 1.0
    part: float = 1.0


FULL = Memory()


class Past(NamedTuple):
    """Of a kNN query after the step before: how far the k-th neighbour was, and who they all were."""

    radius: float = math.inf
    members: frozenset[Any] = frozenset()


class Caches(NamedTuple):
    """The regions of a stream's queries.

    reach: D, how far a query's place and an object's may come apart between their reports. area: the share
    of its area that is left to each query.
    """

    world: World
    reach: float
    area: float

    @staticmethod
    def of(world: World, spec: Spec, clock: Clock, memory: Memory) -> Caches:
        """Those of a stream whose memory was told so much."""
        span_us = 2 * spec["report_every_us"] + 3 * clock.tick_us
        reach = spec["max_speed"] * span_us / MICROS * memory.factor * memory.cache
        return Caches(world, reach, memory.area)

    def share(self, query: Spec) -> float:
        """How much of its area is left to a query."""
        return max(self.area, least(query))

    def inside(self, query: Spec, place: Place | None, centre: Place | None, *, full: bool = False) -> bool:
        """Whether a place is in what is left of a range query's region, or (`full`) in all of it."""
        region, root = query["region"], 1.0 if full else math.sqrt(self.share(query))
        if place is None or ("focal" in region and centre is None):
            return False
        if root < 1:
            region = self._shrunk(region, root)
        if region["type"] == "polygons":
            return any(in_polygon(place, rings) for rings in region["polygons"])
        if centre is None or "focal" not in region:
            return self.world.inside(place, region)
        if region["type"] == "moving_circle":
            return distance(centre, place, self.world.planar) <= region["radius"]
        return is_around(place, centre, region["xdist"], region["ydist"], self.world.planar)

    def near(self, query: Spec, place: Place, centre: Place | None) -> bool:
        """Whether a place is in a range query's region or in its cache."""
        region, root = query["region"], math.sqrt(self.share(query))
        if "focal" not in region:
            return self.inside(query, place, None)
        if centre is None:
            return False
        if region["type"] == "moving_circle":
            return distance(centre, place, self.world.planar) <= region["radius"] * root + self.reach
        x, y = (region[name] * root for name in ("xdist", "ydist"))
        if self.reach == 0:
            return is_around(place, centre, x, y, self.world.planar)
        sides = (x / 2 + self.reach, y / 2 + self.reach)
        return in_rectangle(place, *grown(centre, *sides, self.reach, self.world.planar))

    def near_neighbours(self, query: Spec, place: Place, centre: Place | None, past: Past) -> bool:
        """Whether a place is in a kNN query's circle, or in its cache."""
        if centre is None:
            return False
        steps = 3 if "focal" in query["region"] else 1
        return distance(centre, place, self.world.planar) <= past.radius + steps * self.reach

    def _shrunk(self, region: Spec, root: float) -> Spec:
        """A region with its sides so much shorter, around the same centre; "all" stays."""
        match region["type"]:
            case "rect":
                x1, x2 = _shorter([region["x1"], region["x2"]], root)
                y1, y2 = _shorter([region["y1"], region["y2"]], root)
                return region | {"x1": x1, "x2": x2, "y1": y1, "y2": y2}
            case "polygon":
                return {"type": "polygons", "polygons": shrunk([region["rings"]], root)}
            case "area":
                polygons = self.world.areas[region["area"]].members[region["member"]]
                return {"type": "polygons", "polygons": shrunk(polygons, root)}
        sizes = {name: region[name] * root for name in ("radius", "xdist", "ydist") if name in region}
        return region | sizes


def least(query: Spec) -> float:
    """The accuracy that a query must not go below."""
    return float(query["options"].get("min_accuracy", 0.0))


def grown(centre: Place, x: float, y: float, reach: float, planar: bool) -> tuple[float, float, float, float]:
    """The rectangle of twice x by twice y, wide enough for wherever `reach` may take its centre.

    On the sphere that is at the latitude farthest from the equator; it goes all around where that is a pole,
    and where it comes to the line at which longitudes begin anew.
    """
    if planar:
        return around(centre, 2 * x, 2 * y, planar)
    high = math.degrees(y / EARTH_M)
    latitude = math.radians(abs(centre[1])) + reach / EARTH_M
    wide = math.inf if latitude >= math.pi / 2 else math.degrees(x / (EARTH_M * math.cos(latitude)))
    if abs(centre[0]) + wide >= 180:
        wide = math.inf
    return centre[0] - wide, centre[1] - high, centre[0] + wide, centre[1] + high


def shrunk(polygons: list[Polygon], root: float) -> list[Polygon]:
    """Polygons scaled towards the centre of the box that holds all of them."""
    points = [point for rings in polygons for ring in rings for point in ring]
    xs, ys = sorted({point[0] for point in points}), sorted({point[1] for point in points})
    new_x, new_y = (
        dict(zip(xs, _shorter(xs, root), strict=True)),
        dict(zip(ys, _shorter(ys, root), strict=True)),
    )
    return [[[[new_x[x], new_y[y]] for x, y in ring] for ring in rings] for rings in polygons]


def _shorter(values: list[float], root: float) -> list[float]:
    """Numbers drawn towards the middle of their range."""
    middle = (min(values) + max(values)) / 2
    return [middle + (value - middle) * root for value in values]
