"""Choose a strategy by the expected cost of each for the slots, in time and memory.

Times are in records, as in `load`: the unit is a slot's time for a record without queries, 0.46 µs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stqsh.arrays import Floats
from stqsh.routing.load import Load, balance_of, slot_loads
from stqsh.routing.strategies import LEAVES_A_SLOT, STRATEGIES, lay
from stqsh.routing.table import RoutingTable
from stqsh.routing.text_leaves import SoughtTerms

HELD = 0.025
"""The fixed time per query on a slot in a batch: 12 ns (measured with 300,000 queries)."""
DEALT = 0.02
"""The extra time to find the slot of a record by its place instead of its key: 10 ns."""
CROSSED = 1.0
"""The time to deal a record of an object that may cross between slots, 0.31 µs, and to copy it, 0.16 µs."""
QUERY_BYTES = 250
"""The memory of a query on each slot in bytes, with its part of the index."""

_STEEP = 10.0
"""The relative surcharge on a strategy for each further time that its queries fill the room for them."""


class Prediction(NamedTuple):
    """The expected cost of a strategy.

    Attributes:
        strategy: its name.
        table: its table.
        ratio: the largest load of a slot divided by the mean.
        copies: the mean number of slots per query; 0 without queries.
        makespan: the time of the busiest slot, in records.
        memory: the bytes of all copies of queries.
    """

    strategy: str
    table: RoutingTable
    ratio: float
    copies: float
    makespan: float
    memory: float

    def cost(self, room: float = float("inf")) -> float:
        """Return the makespan, multiplied if all copies of queries take more bytes than there is room for."""
        return self.makespan * (1 + _STEEP * max(self.memory / room - 1, 0.0))


class AskedQueries(NamedTuple):
    """The queries of a stream.

    Attributes:
        boxes: float64 (m, 4), their boxes.
        sought: the terms that the queries need, if leaves may be split by texts.
        is_moving: whether the stream's objects cross between slots.
    """

    boxes: Floats
    sought: SoughtTerms | None = None
    is_moving: bool = False


def predict(table: RoutingTable, load: Load, asked: AskedQueries) -> Prediction:
    """Predict the cost of a routing table under the load of a batch."""
    count = len(asked.boxes)
    on_slots = table.slots_touching(asked.boxes, asked.sought).sum(axis=0)
    loads = slot_loads(table, load.cost) + HELD * on_slots
    dealing = 0.0 if table.is_hashed else CROSSED if asked.is_moving else DEALT
    makespan = float(loads.max()) + dealing * float(load.records.sum()) / table.slots
    copies = int(on_slots.sum())
    per_query = copies / count if count else 0.0
    return Prediction(
        table.strategy, table, balance_of(loads).ratio, per_query, makespan, QUERY_BYTES * copies
    )


def predictions(load: Load, slots: int, asked: AskedQueries, leaves: int = LEAVES_A_SLOT) -> list[Prediction]:
    """Predict the cost of each strategy under the load of a batch; a qttree gets `leaves` per slot."""
    return [predict(lay(strategy, load, slots, leaves), load, asked) for strategy in STRATEGIES]


def chosen(found: Sequence[Prediction], room: float = float("inf")) -> Prediction:
    """Return the cheapest strategy, if copies of queries may take `room` bytes."""
    return min(found, key=lambda one: one.cost(room))
