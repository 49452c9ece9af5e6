"""Load adjusters: change a routing when the load of slots changes; one module per adjuster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stqsh.routing.adjusters import border, greedy, shift, splitmerge, sstd
from stqsh.routing.load import Load, balance_of, slot_loads
from stqsh.routing.table import RoutingTable

Adjustment = Callable[[RoutingTable, Load, float], RoutingTable]
"""Moves load between slots until the largest load is at most a multiple of the mean, if possible.

The returned table may be no better. Leaves that are dealt by hash stay unchanged.
"""


@dataclass(frozen=True)
class Adjuster:
    """A load adjuster.

    Attributes:
        name: its name in REBALANCE.
        fits: the strategies whose tables it can adjust.
        adjust: the function that adjusts a table.
    """

    name: str
    fits: frozenset[str]
    adjust: Adjustment

    def propose(self, table: RoutingTable, load: Load, limit: float) -> RoutingTable | None:
        """Return a table with a lower ratio of the largest load to the mean; None if there is none.

        Args:
            table: the table in force, of a strategy that fits, over the cells of the load.
            load: the load.
            limit: the ratio that suffices. A table within it is not adjusted.
        """
        before = ratio(table, load)
        if before <= limit:
            return None
        proposed = self.adjust(table, load, limit)
        return proposed if ratio(proposed, load) < before else None


def ratio(table: RoutingTable, load: Load) -> float:
    """Return the largest load of a slot under a table divided by the mean."""
    return balance_of(slot_loads(table, load.cost)).ratio


_RECTANGLES = frozenset({"agrid"})
_SQUARES = frozenset({"quadtree", "qttree"})

ADJUSTERS: dict[str, Adjuster] = {
    adjuster.name: adjuster
    for adjuster in (
        Adjuster("shift", _RECTANGLES, shift.adjust),
        Adjuster("splitmerge", _RECTANGLES, splitmerge.adjust),
        Adjuster("pm", _SQUARES, sstd.adjust_two_slots),
        Adjuster("fm", _SQUARES, sstd.adjust_all_slots),
        Adjuster("fg", _SQUARES | _RECTANGLES, sstd.adjust),
        Adjuster("greedy", _SQUARES | {"grid"}, greedy.adjust),
        Adjuster("border", frozenset({"grid", "quadtree"}), border.adjust),
    )
}
"""Load adjusters by name."""
