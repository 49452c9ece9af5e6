"""Load adjusters: change a routing when the load of slots changes; one module per adjuster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stqsh.routing.adjusters import border, greedy, shift, splitmerge, sstd
from stqsh.routing.load import Load, balance_of, slot_loads
from stqsh.routing.table import RoutingTable

Adjustment = Callable[..., RoutingTable]
"""Moves load of a table between slots until the largest load is at most a multiple of the mean, if possible.

Arguments are the table, the load, the multiple and, for adjusters that weigh moves, the cost to move a query.
The returned table may be no better. Leaves that are dealt by hash stay unchanged.
"""


@dataclass(frozen=True)
class Adjuster:
    """A load adjuster.

    Attributes:
        name: its name in REBALANCE.
        fits: the strategies whose tables it can adjust.
        adjust: the function that adjusts a table.
        weighs_moves: whether it weighs each change against the cost to move queries, as Tornado does.
    """

    name: str
    fits: frozenset[str]
    adjust: Adjustment
    weighs_moves: bool = False

    def propose(
        self, table: RoutingTable, load: Load, limit: float, transfer: float = 0.0
    ) -> RoutingTable | None:
        """Return a table with a lower ratio of the largest load to the mean; None if there is none.

        Args:
            table: the table in force, of a strategy that fits, over the cells of the load.
            load: the load.
            limit: the ratio that suffices. A table within it is not adjusted.
            transfer: the cost to move a query, in the unit of the load.
        """
        before = ratio(table, load)
        if before <= limit:
            return None
        weighed = (transfer,) if self.weighs_moves else ()
        proposed = self.adjust(table, load, limit, *weighed)
        return proposed if ratio(proposed, load) < before else None


def ratio(table: RoutingTable, load: Load) -> float:
    """Return the largest load of a slot under a table divided by the mean."""
    return balance_of(slot_loads(table, load.cost)).ratio


_RECTANGLES = frozenset({"agrid"})
_SQUARES = frozenset({"quadtree", "qttree"})

ADJUSTERS: dict[str, Adjuster] = {
    adjuster.name: adjuster
    for adjuster in (
        Adjuster("shift", _RECTANGLES, shift.adjust, weighs_moves=True),
        Adjuster("splitmerge", _RECTANGLES, splitmerge.adjust, weighs_moves=True),
        Adjuster("pm", _SQUARES, sstd.adjust_two_slots),
        Adjuster("fm", _SQUARES, sstd.adjust_all_slots),
        Adjuster("fg", _SQUARES | _RECTANGLES, sstd.adjust),
        Adjuster("greedy", _SQUARES | {"grid"}, greedy.adjust),
        Adjuster("border", frozenset({"grid", "quadtree"}), border.adjust),
    )
}
"""Load adjusters by name."""
