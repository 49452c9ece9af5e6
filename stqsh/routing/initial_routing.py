"""The routing of an event stream before its first REPARTITION: a grid, by a sample of the records.

A replay has such a sample beforehand. The result depends only on bounds, sample and the number of slots, so
it is the same in every process.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stqsh.routing.cells import Bounds, Cells, z_order
from stqsh.routing.table import RoutingTable

#: Cells a side.
SIDE = 64
#: Cells without a record in the sample together weigh as much as this share of the sample.
_EMPTY_SHARE = 0.1


def sampled_grid(bounds: Bounds, sample: Sequence[Sequence[float]], slots: int) -> RoutingTable:
    """Deal the cells of `bounds` to slots, along the Z curve, by the number of sampled places in them.

    Near cells are mostly on one slot, so that a small region touches few.

    Args:
        bounds: x1, y1, x2, y2.
        sample: places, (x, y) each.
        slots: the number of slots.
    """
    cells, places = Cells(bounds, SIDE), np.array(sample, np.float64).reshape(-1, 2)
    counts = np.bincount(cells.of_places(places[:, 0], places[:, 1]), minlength=SIDE * SIDE)
    weights = counts + max(len(places), 1) * _EMPTY_SHARE / len(counts)
    along = z_order(SIDE)
    middles = np.cumsum(weights[along]) - weights[along] / 2
    slot = np.empty(SIDE * SIDE, np.int16)
    slot[along] = np.minimum(middles * slots / weights.sum(), slots - 1)
    leaf = np.arange(SIDE * SIDE, dtype=np.int32).reshape(SIDE, SIDE)
    return RoutingTable("grid", cells, leaf, slot, slots)
