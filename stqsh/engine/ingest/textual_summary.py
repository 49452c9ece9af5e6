"""The queries of streams that keep no events, as those who deal records know them.

Tornado's textual summaries (section 3.1): a router does not send an evaluator objects that have no keyword of
its queries. That is right only where objects are forgotten once they are matched. A process that deals
records follows the control log, and learns of new queries as it goes. What it knows of queries that are gone,
until they are many, makes it send more than necessary.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stqsh.routing.query_routing import QueryRouting
from stqsh.routing.slot_terms import FOR_EVER, NeededTerms, NewQuery, SlotTerms, ids_of, spec_of
from stqsh.routing.table import RoutingTable
from stqsh.sources.live.decoding import without_collections
from stqsh.spec.chunk import unpack
from stqsh.spec.clock import QueriesInForce
from stqsh.spec.command import DropCommand, RegisterCommand
from stqsh.spec.log import QueryBlock, QueryDropped
from stqsh.spec.query import QuerySpec
from stqsh.spec.query_rows import QueryRows
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue import area_geometry
from stqsh.storage.control_log import ControlDb, read_log
from stqsh.storage.progress import steps_taken
from stqsh.storage.queries.query_commands import commands_of

_MOST_STREAMS = 16
"""Streams that a process remembers."""
_GONE = 8
"""Queries that are gone are forgotten once they are more than one in eight."""


class TextualSummary:
    """What the queries of a stream need, up to a row of the control log.

    Args:
        home: the session's directory.
        stream: the stream.

    Attributes:
        seq: the number of the row.
    """

    def __init__(self, home: Path, stream: StreamSpec) -> None:
        self._home, self._stream, self.seq = home, stream, 0
        self._needs = NeededTerms.of([], np.empty((0, 4)), np.empty(0, np.int64), stream)
        self._gone = np.empty(0, np.bool_)
        self._route: tuple[int, int] | None = None
        self._dealt, self._slots = 0, SlotTerms.of_nothing(0)

    def follow(self, until: QueriesInForce, step: int) -> None:
        """Follow the log; queries that are new in it take effect in a step."""
        if until.seq <= self.seq:
            return
        control = ControlDb(self._home)
        with without_collections():
            mine = [
                row
                for row in read_log(control, self.seq, until.seq)
                if isinstance(row.entry, QuerySpec | QueryBlock | QueryDropped)
                and row.entry.stream_id == self._stream.id
            ]
            commands = commands_of(mine).get(self._stream.id, [])
            new: list[NewQuery] = [one for one in commands if isinstance(one, RegisterCommand | QueryRows)]
            if new:
                self._add(control, new, until.tick_us, step)
        dropped = [one.id for one in commands if isinstance(one, DropCommand)]
        self._gone |= np.isin(self._needs.query, dropped)
        self.seq = until.seq

    def _add(self, control: ControlDb, new: Sequence[NewQuery], tick_us: int | None, step: int) -> None:
        regions = QueryRouting(1, lambda _: [], lambda area: unpack(area_geometry(control, area)))
        boxes = np.concatenate([regions.boxes(self._stream, one) for one in new])
        until = _last_steps(control, new, tick_us, step)
        self._needs = self._needs.and_more(NeededTerms.of(new, boxes, until, self._stream))
        self._gone = np.append(self._gone, np.zeros(len(self._needs.query) - len(self._gone), np.bool_))

    def by_slot(self, route: int, table: RoutingTable | None, step: int) -> SlotTerms:
        """Return what slots need from a step on.

        Args:
            route: the number of the routing.
            table: its table, None if all records are dealt by their keys.
            step: the step.
        """
        self._gone |= self._needs.until < step
        if np.count_nonzero(self._gone) * _GONE > len(self._gone):
            self._needs, self._route = self._needs.those(~self._gone), None
            self._gone = np.zeros(len(self._needs.query), np.bool_)
        table = None if table is None or table.is_hashed else table
        slots = 1 if table is None else table.slots
        if self._route != (route, slots):
            self._route, self._dealt, self._slots = (route, slots), 0, SlotTerms.of_nothing(slots)
        if self._dealt < len(self._needs.query):
            self._slots.add(self._needs.those(slice(self._dealt, None)), table)
            self._dealt = len(self._needs.query)
        return self._slots


_known: dict[tuple[Path, int], TextualSummary] = {}


def summary_at(home: Path, stream: StreamSpec, until: QueriesInForce, step: int) -> TextualSummary:
    """Return the summary of a stream, which the process remembers.

    Args:
        home: the session's directory.
        stream: the stream.
        until: the queries that are in force.
        step: the step in which those that are new take effect.
    """
    found = _known.pop((home, stream.id), None)
    if found is None or found.seq > until.seq:  # a batch is repeated
        found = TextualSummary(home, stream)
    _known[home, stream.id] = found
    if len(_known) > _MOST_STREAMS:
        del _known[next(iter(_known))]
    found.follow(until, step)
    return found


def _last_steps(
    control: ControlDb, queries: Sequence[NewQuery], tick_us: int | None, step: int
) -> NDArray[np.int64]:
    """Return the last step in which each query lives, int64 (n,); those that are new live from a step on."""
    ids = np.concatenate([ids_of(one) for one in queries])
    lengths = np.concatenate([np.full(len(ids_of(one)), spec_of(one).for_us or 0) for one in queries])
    until, ending = np.full(len(ids), FOR_EVER), np.flatnonzero(lengths)
    if len(ending) and tick_us is not None:
        step_of = steps_taken(control)
        begun = [step if (found := step_of(id_)) is None else found for id_ in ids[ending].tolist()]
        until[ending] = np.array(begun) - (-lengths[ending] // tick_us)
    return until
