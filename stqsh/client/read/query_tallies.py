"""The objects that slots keep for each query over significant streams, summed from their published state."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stqsh.client.connection import Connection
from stqsh.client.read.slot_states import SlotStates
from stqsh.spec.stream import StreamSpec
from stqsh.storage.rows import StreamRow

if TYPE_CHECKING:
    from stqsh.core.retention.stream_stats import QueryTallies
    from stqsh.core.state.slot_state import SlotState

PATIENCE_S = 0.5
"""How long to wait for busy slots before giving up without a result."""


@dataclass(frozen=True, slots=True)
class QueryTally:
    """The totals over all slots for a query; see `stqsh.core.retention.stream_stats.QueryTallies`.

    `share` is the kept part of the objects that the query needs in its region and cache area: 1 if none is
    shed.
    """

    inside: int
    cached: int
    shed: int
    area: float
    cache_area: float
    locked: bool
    share: float


def read_tallies(connection: Connection, streams: Iterable[StreamRow]) -> dict[int, QueryTally]:
    """Return the totals over all slots for each active query of these streams.

    The result is empty if their state cannot be read.
    """
    specs = [stream.spec for stream in streams]
    found = SlotStates(connection).read(lambda states: summed(states, specs), lambda: PATIENCE_S)
    return found or {}


def summed(states: list[SlotState], streams: list[StreamSpec]) -> dict[int, QueryTally]:
    """Sum the tallies of all slots by query; take the maximum of areas that every slot measures itself."""
    from stqsh.core.retention.stream_stats import tallies

    rows_by_query: dict[int, list[tuple[QueryTallies, int]]] = {}
    for state in states:
        for stream in streams:
            if str(stream.id) not in state.header.get("streams", {}):
                continue
            found = tallies(state, stream)
            for row, query in enumerate(found.id.tolist()):
                rows_by_query.setdefault(query, []).append((found, row))
    return {query: _sum(rows) for query, rows in rows_by_query.items()}


def _sum(rows: list[tuple[QueryTallies, int]]) -> QueryTally:
    def column(name: str) -> list[Any]:
        return [getattr(found, name)[row].item() for found, row in rows]

    inside, cached, shed = (sum(column(name)) for name in ("inside", "cached", "shed"))
    held = inside + cached
    # A slot that has dropped no object of a query reports the share of the area that remains.
    left = [share for share, gone in zip(column("accuracy"), column("shed"), strict=True) if not gone]
    share = min([held / (held + shed) if shed else 1.0, *left])
    area, beyond = (max(column(name), key=_known) for name in ("area", "cache_area"))
    return QueryTally(inside, cached, shed, area, beyond, any(column("locked")), share)


def _known(area: float) -> float:
    return -1.0 if math.isnan(area) else area
