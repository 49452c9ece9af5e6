"""The routing of an event stream before its first REPARTITION: a grid balanced by a sample of the records.

A replay has such a sample in advance. The result depends only on bounds, sample and the number of slots, so
it is the same in every process.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from stqsh.routing.cells import Bounds, Cells, z_order
from stqsh.routing.load import Load
from stqsh.routing.strategies import grid_table
from stqsh.routing.table import RoutingTable

SIDE = 256
"""The number of cells per side."""

_QUERY_SHARE, _REACH = 0.5, 2
"""The expected cost of queries, as a multiple of the cost of records, and their reach in cells.

On 8 slots the most expensive then costs at most 1.23 times the optimum without queries, instead of 1.21, and
1.64 instead of 2.4 with queries around the records (by the model of `choice`, four maps).
"""

_COARSE_SIDE = 64
"""The number of cells per side of older versions' initial grids."""

_EMPTY_SHARE = 0.1
"""The total weight of cells without a record in the sample in these grids, as a share of the sample."""

Sample = tuple[tuple[float, float], ...]
"""Places, (x, y) each."""


@lru_cache(maxsize=64)
def sampled_grid(bounds: Bounds, sample: Sample, slots: int) -> RoutingTable:
    """Return a grid over bounds that deals a sample's places evenly, and queries if they are at these places.

    It is cached, because tasks need it in each batch and computing it takes some milliseconds.
    """
    x, y = np.array(sample, np.float64).reshape(-1, 2).T
    load = Load.of(Cells(bounds, SIDE), x, y, np.empty((0, 4)))
    return grid_table(load.with_likely_queries(_QUERY_SHARE, _REACH), slots)


@lru_cache(maxsize=64)
def coarse_grid(bounds: Bounds, sample: Sample, slots: int) -> RoutingTable:
    """Return the initial grid of older versions, for sessions that these created.

    Its cells are larger, and a cell with most of the records is on a single slot.
    """
    cells, places = Cells(bounds, _COARSE_SIDE), np.array(sample, np.float64).reshape(-1, 2)
    counts = np.bincount(cells.of_places(places[:, 0], places[:, 1]), minlength=_COARSE_SIDE**2)
    weights = counts + max(len(places), 1) * _EMPTY_SHARE / len(counts)
    along = z_order(_COARSE_SIDE)
    middles = np.cumsum(weights[along]) - weights[along] / 2
    slot = np.empty(_COARSE_SIDE**2, np.int16)
    slot[along] = np.minimum(middles * slots / weights.sum(), slots - 1)
    leaf = np.arange(_COARSE_SIDE**2, dtype=np.int32).reshape(_COARSE_SIDE, _COARSE_SIDE)
    return RoutingTable("grid", cells, leaf, slot, slots)
