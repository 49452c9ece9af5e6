"""The queries of a significant stream, of all kinds, with their extended regions."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.matching.region_scaling import scale
from stqsh.core.queries.query_table import ACTIVE, CIRCLE, QueryTable
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import Alias, ArraySpec

CIRCLING = 3
"""The mode of active kNN queries, which no index contains because their circles change with each step."""

FOCAL, LOCKED = 1, 2
"""Flags of objects: focal object of an active query; needed by a locked query."""


class InterestTable(QueryTable):
    """A `QueryTable` of all queries of a stream with a region or k neighbours, ordered by id.

    The radius of a moving circle is its own radius after load shedding, plus its reach.
    """

    held = ArraySpec(np.int64)  # kept objects in the extended region, 0 unless active
    shed = ArraySpec(np.int64)  # dropped objects in the extended region, 0 unless active
    own_radius = Alias("y2")  # of a moving circle, before it is extended

    def __init__(self, state: SlotState, stream: int) -> None:
        super().__init__(state, f"s{stream}/interest")

    @property
    def active(self) -> Array:
        """The positions of the queries that are not paused."""
        return np.flatnonzero((self.mode == ACTIVE) | (self.mode == CIRCLING))

    def register_all(self, batch: StreamBatch) -> Array:
        """Add a batch's new queries with regions that are not extended yet; return their positions."""
        commands = batch.commands
        at = self.register(commands.registered, commands.still, batch.timing, batch.focal.table)
        rounds = at[(self.shape[at] == CIRCLE) & (self.focal[at] >= 0)]
        for own_radius in (self.own_radius, self.whole("y2")):
            own_radius[rounds] = self.radius[rounds]
        self.circle(at)
        return at

    def circle(self, positions: Array) -> None:
        """Set the mode of the active kNN queries among these queries."""
        mine = positions[(self.k[positions] > 0) & (self.mode[positions] == ACTIVE)]
        self.mode[mine] = CIRCLING

    def set_reach(self, reach: float, area: float) -> None:
        """Scale all regions to a share of their area, and extend moving regions by a distance.

        Static regions are not extended (unlike the circles of static kNN queries). The radius r of a moving
        circle becomes r * sqrt(share) plus the distance.
        """
        moving = (self.focal >= 0) & (self.k == 0)
        rounds = np.flatnonzero(moving & (self.shape == CIRCLE))
        scale(self, 1.0)
        self.reach[moving] = reach
        self.radius[rounds] = self.own_radius[rounds]
        scale(self, area)
        self.radius[rounds] += reach
