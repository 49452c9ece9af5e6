"""The queries of a significant stream, of all kinds, with their extended regions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.matching.region_scaling import scale
from stqsh.core.queries.query_polygons import assign_polygons, release_polygons
from stqsh.core.queries.query_table import ACTIVE, CIRCLE, QueryTable, columns_of, set_focals
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, Specs

Array = npt.NDArray[Any]

CIRCLING = 3
"""The mode of active kNN queries: their circles change with each step, so no index has them."""

FOCAL, LOCKED = 1, 2
"""Flags of objects: focal object of an active query; needed by a locked query."""


class InterestTable(QueryTable):
    """A `QueryTable` of all queries of a stream that has a region or k neighbours, in the order of ids.

    Column "c" of a moving region is the distance by which it is extended, "d" of a moving circle its own
    radius, "radius" the sum of what is left of that and "c". "least" is the least accuracy. held
    and shed are the kept and the dropped objects in the extended region; 0 unless active.
    """

    specs: ClassVar[Specs] = {**QueryTable.specs, "held": ArraySpec(np.int64), "shed": ArraySpec(np.int64)}

    def __init__(self, state: SlotState, stream: int) -> None:
        super().__init__(state, f"s{stream}/interest")

    @property
    def active(self) -> Array:
        """The positions of the queries that are not paused."""
        return np.flatnonzero((self["mode"] == ACTIVE) | (self["mode"] == CIRCLING))

    def remove(self, positions: Array) -> None:
        """Remove the queries at these positions, and their polygons; the positions of others change."""
        release_polygons(self.state, self["area"][positions])
        super().remove(positions)

    def register(self, batch: StreamBatch) -> Array:
        """Add a batch's new queries, their regions not extended yet; return their positions."""
        commands, new = batch.commands, batch.commands.registered
        columns = columns_of(new, commands.still, batch.timing)
        set_focals(columns, new, batch.focal.table)
        assign_polygons(self.state, columns, new)
        columns = {name: np.asarray(values) for name, values in columns.items()}
        rounds = (columns["shape"] == CIRCLE) & (columns["focal"] >= 0)
        columns["d"] = np.where(rounds, columns["radius"], columns["d"])
        at = self.append(columns)
        self.circle(at)
        return at

    def circle(self, positions: Array) -> None:
        """Set the mode of the active kNN queries among these."""
        mine = positions[(self["k"][positions] > 0) & (self["mode"][positions] == ACTIVE)]
        self["mode"][mine] = CIRCLING

    def extend(self, reach: float, area: float) -> None:
        """Scale all regions to a share of their area, and extend the moving ones by a distance.

        A static region is not extended (unlike those of kNN queries). The radius r of a moving circle becomes
        r * sqrt(share) plus the distance.
        """
        moving = (self["focal"] >= 0) & (self["k"] == 0)
        rounds = np.flatnonzero(moving & (self["shape"] == CIRCLE))
        scale(self, 1.0)
        self["c"][moving] = reach
        self["radius"][rounds] = self["d"][rounds]
        scale(self, area)
        self["radius"][rounds] += reach
