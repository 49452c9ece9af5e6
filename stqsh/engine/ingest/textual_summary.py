"""Textual summaries: the terms that queries of streams without kept events need, for dealing records.

In Tornado's textual summaries (section 3.1) a router does not send an evaluator objects that have no keyword
of its queries. That is correct only if objects are forgotten once they are matched. The planner's process
follows the control log, and publishes the needs of new queries and the dropped queries in parts. A process
that deals records reads the parts that are new to it. It keeps the terms of ended queries until these are
many, and until then sends more records than necessary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from stqsh.routing.query_routing import QueryRouting
from stqsh.routing.slot_terms import FOR_EVER, NeededTerms, NewQuery, SlotTerms, ids_of, spec_of
from stqsh.routing.table import RoutingTable
from stqsh.sources.live.decoding import without_collections
from stqsh.spec.chunk import pack, unpack
from stqsh.spec.clock import Attachment, TermsPart
from stqsh.spec.command import RegisterCommand
from stqsh.spec.log import QueryAltered, QueryBlock, QueryDropped
from stqsh.spec.query import QuerySpec, slot_query
from stqsh.spec.query_rows import QueryRows
from stqsh.spec.stream import StreamSpec
from stqsh.storage.attachments import AttachmentWriter, read_attachment
from stqsh.storage.blobs import Blobs
from stqsh.storage.catalogue import area_boxes
from stqsh.storage.control_log import ControlDb, read_log
from stqsh.storage.progress import steps_taken
from stqsh.storage.queries.query_commands import commands_of
from stqsh.storage.rows import LogRow

_MOST_STREAMS = 16
"""The number of streams that a process caches."""
_GONE = 8
"""Ended queries are forgotten once they are more than one in eight."""
_WITHIN = 8 << 10
"""Parts of up to this many bytes in total travel inside the tasks of each batch."""
_RATIO = 2
"""A part is at least this many times as large as all later ones together, so there are few."""
_DROPPED = b"dropped"


class SummaryPart(NamedTuple):
    """The effect of some log rows on a stream: the needs of new queries, and the dropped queries."""

    needs: NeededTerms
    dropped: NDArray[np.int64]

    def packed(self) -> bytes:
        """Return the part as bytes."""
        needs = self.needs
        box = {f"box{side}": needs.box[:, side] for side in range(4)}
        columns: dict[str, NDArray[Any]] = {
            "query": needs.query,
            "until": needs.until,
            "term": needs.term,
            "is_open": needs.is_open,
            **box,
        }
        batch = pa.RecordBatch.from_pydict({name: pa.array(some) for name, some in columns.items()})
        return pack(batch.replace_schema_metadata({_DROPPED: self.dropped.astype("<i8").tobytes()}))

    @staticmethod
    def read(content: pa.Buffer) -> SummaryPart:
        """Read the form of `packed`."""
        batch = unpack(content.to_pybytes())
        query, until, term, is_open, *box = (
            column.to_numpy(zero_copy_only=False) for column in batch.columns
        )
        dropped = np.frombuffer((batch.schema.metadata or {})[_DROPPED], "<i8")
        return SummaryPart(NeededTerms(query, np.column_stack(box), until, term, is_open), dropped)


class SummaryWriter:
    """Follows the log for a stream, and writes the needs of its queries in parts.

    Args:
        control: the control log.
        stream: the stream.
        attachments: stores the parts' content.
    """

    def __init__(self, control: ControlDb, stream: StreamSpec, attachments: AttachmentWriter) -> None:
        self._control, self._stream, self._attachments = control, stream, attachments
        self._seq = 0
        self._parts: list[tuple[TermsPart, SummaryPart]] = []
        self._last: dict[int, int] = {}  # the last ALTER of each altered query

    @property
    def attachments(self) -> list[Attachment]:
        """The attachments that hold the parts."""
        return [part.content for part, _ in self._parts]

    def follow(self, up_to: int, tick_us: int | None, step: int) -> tuple[TermsPart, ...]:
        """Follow the log up to a row, and return the parts, which cover consecutive ranges of rows.

        Args:
            up_to: the last row that takes effect in or before the batch.
            tick_us: the length of a tick, None before the first step.
            step: the step in which new queries take effect.
        """
        if up_to < self._seq:  # a batch is repeated
            self._seq, self._parts, self._last = 0, [], {}
        if up_to > self._seq:
            found = self._read(up_to, tick_us, step)
            if len(found.needs.query) or len(found.dropped):
                self._append(self._parts[-1][0].up_to if self._parts else 0, up_to, found)
                self._merge(step)
            self._seq = up_to
        return tuple(part for part, _ in self._parts)

    def _read(self, up_to: int, tick_us: int | None, step: int) -> SummaryPart:
        stream = self._stream
        with without_collections():
            mine = [
                row
                for row in read_log(self._control, self._seq, up_to)
                if isinstance(row.entry, QuerySpec | QueryBlock | QueryDropped | QueryAltered)
                and row.entry.stream_id == stream.id
            ]
            new, gone = self._needing(mine)
            dropped = np.array(gone, np.int64)
            if not new:
                return SummaryPart(_NOTHING, dropped)
            regions = QueryRouting(1, lambda _: [], lambda area: area_boxes(self._control, area))
            boxes = np.concatenate([regions.boxes(stream, one) for one in new])
            until = _last_steps(self._control, new, tick_us, step)
            return SummaryPart(NeededTerms.of(new, boxes, until, stream), dropped)

    def _needing(self, rows: Sequence[LogRow]) -> tuple[list[NewQuery], list[int]]:
        """Return the queries whose needs log rows add, and the ids of those whose needs they remove.

        ALTER removes the old query and adds one with the number of the ALTER row as its id.
        """
        new: list[NewQuery] = []
        gone: list[int] = []
        for row in rows:
            match row.entry:
                case QueryAltered(id=id_, query=query):
                    gone.append(self._last.get(id_, id_))
                    self._last[id_] = row.seq
                    new.append(RegisterCommand(query=replace(slot_query(query), id=row.seq)))
                case QueryDropped(id=id_):
                    gone.append(self._last.pop(id_, id_))
                case _:
                    found = commands_of([row])[self._stream.id]
                    new += [one for one in found if isinstance(one, RegisterCommand | QueryRows)]
        return new, gone

    def _append(self, after: int, up_to: int, part: SummaryPart, least: int = _WITHIN) -> None:
        content = self._attachments.put(part.packed(), least=least)
        self._parts.append((TermsPart(after, up_to, content), part))

    def _merge(self, step: int) -> None:
        """Merge the last parts into one, to keep parts few and the bytes inside tasks small."""
        sizes = [len(part.needs.query) + len(part.dropped) for _, part in self._parts]
        is_within = [not part.content.name for part, _ in self._parts]
        first = len(sizes) - 1
        while first and sizes[first - 1] < _RATIO * sum(sizes[first:]):
            first -= 1
        least = _WITHIN
        if sum(len(part.content.content) for part, _ in self._parts) > _WITHIN:
            first, least = min(first, is_within.index(True)), 0
        if first == len(sizes) - 1 and least:
            return
        merged, self._parts = self._parts[first:], self._parts[:first]
        together = merged[0][1]
        for _, part in merged[1:]:
            together = SummaryPart(
                together.needs.and_more(part.needs), np.append(together.dropped, part.dropped)
            )
        if not first:
            gone = np.isin(together.needs.query, together.dropped) | (together.needs.until < step)
            together = SummaryPart(together.needs.those(~gone), np.empty(0, np.int64))
        self._append(merged[0][0].after, merged[-1][0].up_to, together, least)


class TextualSummary:
    """The needs of a stream's queries up to a row of the control log, in a process that deals records.

    Attributes:
        seq: the number of that row.
    """

    def __init__(self) -> None:
        self.seq = 0
        self._needs, self._gone = _NOTHING, np.empty(0, np.bool_)
        self._route: tuple[int, int] | None = None
        self._dealt, self._slots = 0, SlotTerms.of_nothing(0)

    def follow(self, parts: Sequence[TermsPart], blobs: Blobs) -> None:
        """Read the parts that are not known yet.

        Raises:
            DamagedFileError: the blob of a part is missing or damaged.
        """
        for part in parts:
            if part.up_to > self.seq:
                self._add(part, SummaryPart.read(read_attachment(blobs, part.content)))

    def _add(self, part: TermsPart, found: SummaryPart) -> None:
        known, needs = self._needs, found.needs
        if not part.after:  # a merged part omits dropped queries instead of listing them
            self._gone |= (known.query <= part.up_to) & ~np.isin(known.query, needs.query)
        self._needs = known.and_more(needs.those(needs.query > self.seq))
        self._gone = np.append(self._gone, np.zeros(len(self._needs.query) - len(self._gone), np.bool_))
        self._gone |= np.isin(self._needs.query, found.dropped)
        self.seq = part.up_to

    def by_slot(self, route: int, table: RoutingTable | None, step: int) -> SlotTerms:
        """Return the needs of slots from a step on.

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


_NOTHING = NeededTerms(
    np.empty(0, np.int64),
    np.empty((0, 4)),
    np.empty(0, np.int64),
    np.empty(0, np.uint64),
    np.empty(0, np.bool_),
)
_known: dict[tuple[Blobs, int], TextualSummary] = {}


def summary_at(blobs: Blobs, stream: int, parts: Sequence[TermsPart]) -> TextualSummary:
    """Return the summary of a stream, which the process caches.

    Args:
        blobs: the session's blobs.
        stream: the stream.
        parts: the needs of the queries in force.

    Raises:
        DamagedFileError: the blob of a part is missing or damaged.
    """
    found = _known.pop((blobs, stream), None)
    if found is None or found.seq > (parts[-1].up_to if parts else 0):  # a batch is repeated
        found = TextualSummary()
    found.follow(parts, blobs)
    _known[blobs, stream] = found
    if len(_known) > _MOST_STREAMS:
        del _known[next(iter(_known))]
    return found


def _last_steps(
    control: ControlDb, queries: Sequence[NewQuery], tick_us: int | None, step: int
) -> NDArray[np.int64]:
    """Return the last step in which each query is alive, int64 (n,); new queries start at a given step."""
    ids = np.concatenate([ids_of(one) for one in queries])
    lengths = np.concatenate([np.full(len(ids_of(one)), spec_of(one).timing.for_us or 0) for one in queries])
    until, ending = np.full(len(ids), FOR_EVER), np.flatnonzero(lengths)
    if len(ending) and tick_us is not None:
        step_of = steps_taken(control)
        begun = [step if (found := step_of(id_)) is None else found for id_ in ids[ending].tolist()]
        until[ending] = np.array(begun) - (-lengths[ending] // tick_us)
    return until
