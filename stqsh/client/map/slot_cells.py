"""Which slot has which part of an event stream's plane, for drawing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from stqsh.client.connection import Connection
from stqsh.routing.grid_routing import CellRouting
from stqsh.sources.replay_store.manifest import read_manifest
from stqsh.storage.control_log import get_meta
from stqsh.storage.rows import StreamRow


@dataclass(frozen=True, slots=True)
class SlotCells:
    """Equal cells over a box.

    Attributes:
        bounds: the box: x1, y1, x2, y2.
        owners: the cells' slots, int32 (rows, columns), with rows upwards.
    """

    bounds: tuple[float, float, float, float]
    owners: NDArray[Any]


def cells_of(link: Connection, stream: StreamRow) -> SlotCells | None:
    """Return the cells of a stream that is routed by them; None for others, and while it is being read."""
    slots = get_meta(link.db, "slots")
    if slots is None or not stream.spec.is_event:
        return None
    manifest = read_manifest(link.home.stream(stream.id))
    if manifest is None or manifest.bounds is None:
        return None
    routing = CellRouting.of(manifest.bounds, manifest.sample, int(slots))
    return SlotCells(routing.bounds, routing.owners)
