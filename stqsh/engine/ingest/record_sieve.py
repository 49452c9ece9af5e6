"""The sieve of a stream that keeps no events: do not send a slot records that it cannot use.

It changes no update. Replay of a slot's log that refers to the slice includes all its records; those that
were not sent then match nothing. Tornado (section 3.1) filters like this in its routers. Splitting a text
into terms costs as much here as on the slot, which has to split the texts that it gets again. So a slot gets
a whole slice if it can use most of it.

Of live records with one key in a tick only the first counts, in whichever slice it is. If a batch has several
slices, of which a task reads one, a useless record is therefore sent without its content instead of left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Mask
from stqsh.checksums import DamagedFileError
from stqsh.engine.ingest.textual_summary import summary_at
from stqsh.engine.planning.tasks import SourceTask
from stqsh.routing.slot_terms import SlotTerms
from stqsh.routing.table import RoutingTable
from stqsh.spec.chunk import ROLE, Chunk, ChunkKind, ChunkOrder, Phase, RecordRole, pack_json
from stqsh.spec.clock import DealOrder
from stqsh.spec.stats import SiftedRecords
from stqsh.spec.stream import StreamSpec
from stqsh.storage.blobs import Blobs
from stqsh.storage.stream_routes import INITIAL

_SAMPLE = 256
"""The number of records of a slice that are tested first, as a sample."""
_WORTH_IT = 0.6
"""A slot gets a whole slice if it can use more than this share of it."""


class RecordSieve:
    """Chooses the records of a slice that go to their slots, and counts them.

    Args:
        stream: the stream.
        terms: the terms that slots need.
        sees_all: whether a slice contains all records of its ticks, so that it contains all duplicates.
    """

    def __init__(self, stream: StreamSpec, terms: SlotTerms, *, sees_all: bool = True) -> None:
        self._stream, self._terms, self._sees_all = stream, terms, sees_all
        self._counts: list[SiftedRecords] = []

    def sent(self, slot: int, records: pa.RecordBatch) -> Mask | None:
        """Return the mask of a slot's records to send, bool (n,); None if all.

        Of records with one key in a tick only the first counts. If the slot has to find it, all of them are
        sent if one is. If a dealer has found it, its duplicates are sent, too, to be counted.

        Args:
            slot: the slot.
            records: its records, with `_hash`; for a live stream, all of the batch's records for the slot.
        """
        useful = self._are_useful(slot, records)
        if useful is None:
            return None
        hashes, stale = records.column("_hash").to_numpy(), 0
        if ROLE in records.schema.names:
            useful |= records.column(ROLE).to_numpy() == RecordRole.STALE
        elif self._stream.is_live:
            useful = np.isin(hashes, hashes[useful])
            left = hashes[~useful]
            stale = len(left) - len(np.unique(left))
        sent = int(np.count_nonzero(useful))
        self._counts.append(SiftedRecords(slot, self._stream.id, sent, len(useful) - sent, stale))
        return useful

    def sift(self, slot: int, records: pa.RecordBatch) -> tuple[pa.RecordBatch, Mask | None]:
        """Return the records of a slot in a slice, and the mask of those to send, bool (n,); None if all."""
        if not self._sees_all:
            return self._emptied(slot, records), None
        return records, self.sent(slot, records)

    def _emptied(self, slot: int, records: pa.RecordBatch) -> pa.RecordBatch:
        """Return a slot's records; useless ones have NULL in all columns but key, location and time."""
        useful = self._are_useful(slot, records)
        if useful is None:
            return records
        used = int(np.count_nonzero(useful))
        self._counts.append(SiftedRecords(slot, self._stream.id, len(useful), 0, emptied=len(useful) - used))
        stream, there = self._stream, pa.array(useful)
        kept = {stream.key, stream.x, stream.y, stream.time}
        for at, name in enumerate(records.schema.names):
            if name in stream.types and name not in kept:
                column = records.column(at)
                some: Any = pc.if_else(there, column, pa.scalar(None, column.type))
                records = records.set_column(at, records.schema.field(at), some)
        return records

    def counts(self, span: tuple[int, int], piece: int) -> Iterator[Chunk]:
        """Yield the counts for Deliver.

        Args:
            span: the batch's first and last step.
            piece: the number of the slice.
        """
        for one in self._counts:
            order = ChunkOrder(Phase.COMMANDS, piece)
            yield Chunk(one.slot, one.stream, ChunkKind.SIFTED, order, *span, 0, pack_json(one))

    def _are_useful(self, slot: int, records: pa.RecordBatch) -> Mask | None:
        """Return the mask of useful records, bool (n,); None, after counting them, if all are to be sent."""
        texts: Any = records.column(self._stream.text or "")
        if len(texts) and not self._terms.needs_all(slot):
            sample = self._terms.are_useful(slot, texts[:_SAMPLE])
            if np.count_nonzero(sample) <= _WORTH_IT * len(sample):
                return np.append(sample, self._terms.are_useful(slot, texts[_SAMPLE:]))
        self._counts.append(SiftedRecords(slot, self._stream.id, records.num_rows, 0))
        return None


def sieve_of_task(
    task: SourceTask, stream: StreamSpec, table: RoutingTable | None, *, sees_all: bool = True
) -> RecordSieve | None:
    """Return the sieve for the records that a task deals by a table; None if all are sent.

    `sees_all` is as for `RecordSieve`.
    """
    if not task.is_sifted(stream.id):
        return None
    summary = summary_at(task.blobs, stream.id, task.terms[stream.id])
    route = task.routes.get(stream.id, (INITIAL,))[-1]
    return RecordSieve(stream, summary.by_slot(route, table, task.first_step), sees_all=sees_all)


def sieve_of_dealer(
    blobs: Blobs, stream: StreamSpec, order: DealOrder, table: RoutingTable
) -> RecordSieve | None:
    """Return the sieve for the records that a dealer deals by a table; None if all are sent.

    A replayed log refers to terms that may be deleted. The dealer's output is discarded then.
    """
    if order.terms is None or not stream.is_sifted:
        return None
    try:
        summary = summary_at(blobs, stream.id, order.terms)
    except DamagedFileError:
        return None
    return RecordSieve(stream, summary.by_slot(order.route, table, order.first_step))
