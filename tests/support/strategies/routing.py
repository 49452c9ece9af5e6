"""Routing tables, when they change, and what goes wrong in between."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from stqsh.engine.config import TUNING, EngineTuning
from stqsh.routing.cells import Cells
from stqsh.routing.table import HASHED, RoutingTable
from support.deaths import Death
from support.strategies.whole import cuts, restarts, slots

BOUNDS = [(-1.0, -1.0, 1.0, 1.0), (0.0, 0.0, 4.0, 2.0), (-180.0, -90.0, 180.0, 90.0)]


@dataclass(frozen=True)
class Routing:
    """How a case is run: cut into batches, over slots, under routings that change.

    Attributes:
        size: how many eventful steps a batch has, None for all of them.
        slots: how many slots there are at first.
        routes: by batch, the routing that holds from it on.
        restarts: the batches before which all of a replay restarts.
        deaths: by batch, where it dies.
        is_endless: whether a replay is of a generator without an end.
        by_slot: whether batches that bring no queries are read by slot, those among them in which a routing
            begins; none is otherwise.
    """

    size: int | None
    slots: int
    routes: dict[int, RoutingTable]
    restarts: set[int]
    deaths: dict[int, Death]
    is_endless: bool
    by_slot: bool

    @property
    def tuning(self) -> EngineTuning:
        """The tunables of the engine."""
        if self.by_slot:
            return replace(TUNING, by_slot_routed=self.slots)
        return replace(TUNING, by_slot_records=0, by_slot_messages=0)


@st.composite
def tables(draw: st.DrawFn) -> RoutingTable:
    """Arbitrary tables, not only those that strategies make."""
    side = draw(st.sampled_from([1, 2, 4, 8]))
    count = draw(st.integers(1, 9))
    leaves = draw(st.integers(1, 12))
    leaf = draw(st.lists(st.integers(0, leaves - 1), min_size=side * side, max_size=side * side))
    slot = draw(st.lists(st.integers(HASHED, count - 1), min_size=leaves, max_size=leaves))
    if draw(st.integers(0, 3)) == 0:
        slot = [HASHED] * leaves
    bounds = draw(st.sampled_from(BOUNDS))
    cells = np.array(leaf, np.int32).reshape(side, side)
    return RoutingTable("grid", Cells(bounds, side), cells, np.array(slot, np.int16), count)


def routings(
    changes: st.SearchStrategy[dict[int, RoutingTable]],
) -> st.SearchStrategy[Routing]:
    """Runs whose routing changes so."""
    deaths = st.builds(Death, st.integers(0, 20), st.booleans(), st.booleans())
    return st.builds(
        Routing,
        cuts,
        slots,
        changes,
        restarts,
        st.dictionaries(st.integers(0, 20), deaths, max_size=4),
        st.booleans(),
        st.booleans(),
    )


changing = routings(st.dictionaries(st.integers(0, 8), tables(), max_size=4))
early = routings(st.dictionaries(st.integers(0, 3), tables(), min_size=1, max_size=3))
"""Runs whose routing changes within the first batches, and at least once."""
