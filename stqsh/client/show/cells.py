"""SHOW CELLS: the number of objects in each cell of each slot (CheetahGIS's metadata, section V-C)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from stqsh.client.connection import Connection
from stqsh.client.read.snapshots import SnapshotReader
from stqsh.client.results import Message, Rows
from stqsh.core.objects.presence import CountedCell, counted_cells
from stqsh.core.state.slot_state import SlotState
from stqsh.storage.catalogue import live_streams

MOST_CELLS = 1_000
"""The maximum number of cells shown of a stream: the fullest ones."""
_COLUMNS = ("stream", "slot", "x1", "y1", "x2", "y2", "count", "records since")
_Found: TypeAlias = tuple[int, CountedCell]


def show_cells(
    connection: Connection, snapshots: SnapshotReader, name: str | None
) -> Iterator[Rows | Message]:
    """Yield SHOW CELLS: a row for each cell of a slot that has objects, the fullest first.

    Args:
        connection: The session.
        snapshots: Reads the slots.
        name: The stream; None for all.
    """
    for stream in live_streams(connection.db):
        if name not in (None, stream.name):
            continue

        def counted(states: list[SlotState], id_: int = stream.id) -> list[_Found]:
            return [(slot, cell) for slot, state in enumerate(states) for cell in counted_cells(state, id_)]

        found = snapshots.read(counted, connection.progress().step)
        if found is None:
            yield Message(f"{stream.name}: there are no slots on this machine that count its objects")
            continue
        found.sort(key=lambda one: (-one[1].objects, one[0], one[1].place))
        shown = tuple(
            (stream.name, slot, *cell.bounds, cell.objects, cell.noted) for slot, cell in found[:MOST_CELLS]
        )
        more = f"the fullest {len(shown):,} of {len(found):,} cells" if len(shown) < len(found) else "cells"
        yield Rows(f"{more} of {stream.name}", _COLUMNS, shown)
