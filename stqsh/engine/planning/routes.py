"""Which routings of a stream a batch needs: the one in force, and those by which kept records were dealt.

SSTD (section 5.2) keeps the mapping tables of older versions for as long as events are stored by them.
Records stay where they are when a routing changes; a new query has to be known wherever records in its region
may be. A moving object stays until its next record, or until it is disconnected.
"""

from __future__ import annotations

from itertools import pairwise

from stqsh.engine.planning.planner_state import PlannerState
from stqsh.spec.offset import Offset
from stqsh.spec.stream import StreamSpec
from stqsh.storage.control_log import ControlDb
from stqsh.storage.progress import step_taken

INITIAL = 0
"""Stands for the routing before the first REPARTITION; others have the numbers of their rows in the log."""


def routes_in_use(
    control: ControlDb, ledger: PlannerState, first: Offset, last: Offset
) -> dict[int, tuple[int, ...]]:
    """Return the routings in use of streams that were repartitioned, by stream; the last is in force."""
    found = {}
    for stream_id, changes in ledger.routes.items():
        spec, rows = ledger.streams[stream_id], (INITIAL, *changes)
        kept = [
            row
            for row, following in pairwise(rows)
            if following > first.seq or not _has_expired(control, spec, following, last)
        ]
        found[stream_id] = (*kept, rows[-1])
    return found


def rows_dealt(ledger: PlannerState, offset: Offset) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return from which row on each routing of the moving streams deals records, by stream.

    Args:
        ledger: the log, with the routings that take effect with the step after `offset`.
        offset: the end of the batch before; it has the routings before.
    """
    return {
        stream: (
            *offset.dealt.get(stream, ((INITIAL, 0),)),
            *((row, offset.rows.get(stream, 0)) for row in rows if row > offset.seq),
        )
        for stream, rows in ledger.routes.items()
        if not ledger.streams[stream].is_event
    }


def _has_expired(control: ControlDb, spec: StreamSpec, following: int, last: Offset) -> bool:
    """Return whether all records have expired that were dealt before the routing `following`."""
    step, kept_us = step_taken(control, following), spec.keep_us if spec.is_event else spec.report_every_us
    if kept_us is None or step is None or last.tick_us is None:
        return False
    # A record is at most one tick younger than its step, and goes in the step after its time is over.
    return (last.step - step - 2) * last.tick_us > kept_us
