"""Build a small synthetic town: a seeded road network with the quickest ways between all crossings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Floats

EARTH_RADIUS_M = 6_371_008.8
#: The speeds of motorways, arterials and streets in m/s (90, 50 and 30 km/h).
CLASS_SPEEDS = np.array([25.0, 50 / 3.6, 30 / 3.6])
_MOTORWAY, _ARTERIAL, _STREET = range(3)

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TownPlan:
    """The parameters of a town; `bounds` are x1, y1, x2, y2."""

    bounds: tuple[float, float, float, float]
    nodes: int
    seed: int
    geodetic: bool


@dataclass(frozen=True, slots=True, eq=False)
class RoadNetwork:
    """A network of n crossings and m directed edges; every crossing can be reached from every other.

    Attributes:
        x, y: coordinates, float64 (n,).
        source, target: crossings, int32 (m,).
        kind: indices into `CLASSES`, int8 (m,).
        length: metres (or units), float64 (m,).
        next_edge: the first edge of the quickest way by [destination, crossing], int32 (n, n), -1 on the
            diagonal.
        center: the crossing in the middle of the town.
    """

    x: Floats
    y: Floats
    source: Ints
    target: Ints
    kind: NDArray[np.int8]
    length: Floats
    next_edge: Ints
    center: int

    @property
    def nodes(self) -> int:
        """The number of crossings."""
        return len(self.x)


@lru_cache(maxsize=4)
def build_road(town: TownPlan) -> RoadNetwork:
    """Build a town: a grid of streets with displaced crossings and some missing streets.

    Every fifth line is an arterial road, a ring near the border is a motorway.
    """
    random = np.random.default_rng(town.seed)
    side = max(3, round(town.nodes**0.5))
    x, y = _crossings(town, side, random)
    ends, kind = _edges(side, random)
    x, y, ends, kind = _largest_part(x, y, ends, kind)
    scale_x, scale_y = _metres_per_unit(town)
    length = np.hypot((x[ends[0]] - x[ends[1]]) * scale_x, (y[ends[0]] - y[ends[1]]) * scale_y)
    source, target = np.concatenate([ends, ends[::-1]], axis=1).astype(np.int32)
    kind, length = np.tile(kind, 2), np.tile(np.maximum(length, 1e-6), 2)
    next_edge = _next_edges(source, target, length / CLASS_SPEEDS[kind], len(x))
    middle_x, middle_y = (town.bounds[0] + town.bounds[2]) / 2, (town.bounds[1] + town.bounds[3]) / 2
    center = int(np.argmin(np.hypot((x - middle_x) * scale_x, (y - middle_y) * scale_y)))
    return RoadNetwork(x, y, source, target, kind, length, next_edge, center)


def _metres_per_unit(town: TownPlan) -> tuple[float, float]:
    """Return the metres of a degree, east and north, in the middle of the town; 1 if it is planar."""
    if not town.geodetic:
        return 1.0, 1.0
    degree = float(np.radians(1.0)) * EARTH_RADIUS_M
    return degree * float(np.cos(np.radians((town.bounds[1] + town.bounds[3]) / 2))), degree


def _crossings(town: TownPlan, side: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Place side x side crossings within the bounds, each displaced by up to a fifth of a block."""
    x1, y1, x2, y2 = town.bounds
    row, column = np.divmod(np.arange(side * side), side)
    moved = random.uniform(-0.2, 0.2, (2, side * side))
    return x1 + (column + 0.5 + moved[0]) / side * (x2 - x1), y1 + (row + 0.5 + moved[1]) / side * (y2 - y1)


def _edges(side: int, random: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Return the edges of the grid (2, m), one way only, and their classes (m,)."""
    node = np.arange(side * side).reshape(side, side)
    along = np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()])
    across = np.stack([node[:-1].ravel(), node[1:].ravel()])
    line = np.concatenate([along[0] // side, across[0] % side])
    place = np.concatenate([along[0] % side, across[0] // side])
    inset = side // 10
    on_ring = np.isin(line, [inset, side - 1 - inset]) & (place >= inset) & (place < side - 1 - inset)
    kind = np.select([on_ring, line % 5 == 2], [_MOTORWAY, _ARTERIAL], _STREET).astype(np.int8)
    kept = (kind != _STREET) | (random.random(len(kind)) > 0.12)
    return np.concatenate([along, across], axis=1)[:, kept], kind[kept]


def _largest_part(
    x: Floats, y: Floats, ends: NDArray[np.int64], kind: NDArray[np.int8]
) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int8]]:
    """Keep the largest connected set of crossings, and renumber them."""
    # Engines and clients import this module, but few ever build a town, and importing scipy takes 0.3 s.
    from scipy.sparse import csr_array  # type: ignore[import-untyped]
    from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

    graph = csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(len(x), len(x)))
    part = connected_components(graph, directed=False)[1]
    kept = part == np.argmax(np.bincount(part))
    number = np.cumsum(kept) - 1
    inside = kept[ends[0]]
    return x[kept], y[kept], number[ends[:, inside]], kind[inside]


def _next_edges(source: Ints, target: Ints, seconds: Floats, nodes: int) -> Ints:
    """Find the first edge of the quickest way for each destination and crossing (Dijkstra)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    graph = csr_array((seconds, (source, target)), shape=(nodes, nodes))
    # Roads are equally quick both ways: what precedes v on the way from d follows v on the way to d.
    following = dijkstra(graph, directed=True, return_predecessors=True)[1].astype(np.int64)
    codes = source.astype(np.int64) * nodes + target
    order = np.argsort(codes)
    wanted = np.arange(nodes)[None, :] * nodes + following
    edge: Ints = order[np.minimum(np.searchsorted(codes[order], wanted), len(order) - 1)].astype(np.int32)
    edge[following < 0] = -1
    return edge
