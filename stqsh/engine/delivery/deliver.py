"""Deliver: write the operators' output for a batch.

The updates are written to the batch's file of the update log first. One transaction then writes the engine's
progress and what the batch changed in the catalogue, so a reader that sees the progress finds the file.
After a crash Spark may repeat a batch: the file is then replaced by the same content, and the transaction is
not repeated.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, structs

from stqsh.arrays import Array
from stqsh.checksums import DamagedFileError
from stqsh.engine.delivery.archive_writer import write_archive
from stqsh.engine.delivery.balancer import Balancer
from stqsh.engine.delivery.log_retention import LogRetention
from stqsh.engine.delivery.moves import MovesInPackages
from stqsh.engine.delivery.shedding_controller import SheddingController
from stqsh.engine.spark.spark_internals import read_offset
from stqsh.engine.state.payload_files import Spool, load_payloads
from stqsh.sources.dead_letters import write_live_letters
from stqsh.spec.chunk import Chunk, ChunkKind, from_table, in_order, pack, unpack, unpack_json, unpack_struct
from stqsh.spec.clock import BatchClock
from stqsh.spec.log import SnapshotAsked
from stqsh.spec.offset import Offset
from stqsh.spec.query import AskSpec, SnapshotSpec, at_places, focal_keys
from stqsh.spec.region import FocalPlace, Key, Place
from stqsh.spec.stats import BatchStats, SiftedRecords, SlotStats, TakenMessages, TaskTiming, TimeSplit
from stqsh.storage.archive_files import ArchiveFile
from stqsh.storage.blobs import checkpoint_blobs
from stqsh.storage.catalogue import NameBook
from stqsh.storage.control_log import ControlDb, wall_clock_us
from stqsh.storage.control_mirror import ControlMirror
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import BatchEffects, FoundRecords, record_batch
from stqsh.storage.rows import Progress
from stqsh.storage.session_settings import session_settings
from stqsh.storage.snapshot_answers import write_answer
from stqsh.storage.turns import Taking, Turn, goes_on, note_turn, taking
from stqsh.storage.update_log.files import LoggedFile
from stqsh.storage.update_log.writer import write_batch
from stqsh.units import parse_size

_SPARSE, _FEW_IDS = 4, 1 << 16
"""The maximum length of the array that sums growth: a multiple of the number of ids, or a constant."""


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The chunks of a batch by kind, decoded; `size` is that of all of them in bytes."""

    clock: BatchClock
    grown: tuple[Array, Array] | None
    ended: frozenset[int]
    found: tuple[FoundRecords, ...]
    answers: dict[int, list[bytes]] = field(default_factory=dict)
    asks: list[SnapshotAsked] = field(default_factory=list)
    stats: list[SlotStats] = field(default_factory=list)
    timings: list[TaskTiming] = field(default_factory=list)
    taken: dict[int, list[TakenMessages]] = field(default_factory=dict)
    archived: dict[int, pa.Table] = field(default_factory=dict)
    sifted: list[SiftedRecords] = field(default_factory=list)
    size: int = 0


class Delivery:
    """Delivers batches, one at a time, each before Spark commits it.

    Args:
        home: the session's home.
        control: its control log.
        spool: the folders of payloads that are passed by name; None if all payloads are inside their chunks.
        on_first: called after the first batch that this object delivers.
        on_timings: called after each batch with the times of its tasks.
        mirror: publishes a batch's changes to control.db; None if the session's storage is its home.

    Attributes:
        retention: is notified of the bytes that each batch adds to the update log.
        shedding: decides the orders of load shedding.
        balancer: balances the loads of slots.
    """

    def __init__(
        self,
        home: SessionHome,
        control: ControlDb,
        *,
        spool: Spool | None = None,
        on_first: Callable[[], None] | None = None,
        on_timings: Callable[[list[TaskTiming]], None] | None = None,
        mirror: ControlMirror | None = None,
    ) -> None:
        self._home, self._control, self._spool, self._on_first = home, control, spool, on_first
        self._on_timings, self._mirror = on_timings, mirror
        self.retention = LogRetention(
            home, control, lambda: parse_size(session_settings(control).text("updates.keep"))
        )
        self._book = NameBook(control)
        self.shedding = SheddingController(control, session_settings(control))
        self.balancer = Balancer(home, control, lambda: session_settings(control))
        self._moves = MovesInPackages(control)
        self._counted = -1
        self._records = self._stale = 0
        self._taking: Taking = ()  # of the previous batch; a batch with another value is a turn
        self._previous_us = 0
        self._mean_bytes = 0.0
        self._failed_calls, self._failure = 0, ""

    def deliver(self, chunks: pa.Table, number: int, run_us: int = 0) -> None:
        """Deliver batch `number`.

        Args:
            chunks: the operators' output, a table of the schema CHUNK.
            number: Spark's number of the batch.
            run_us: how long the operators took, in µs.
        """
        begun = time.perf_counter_ns()
        delivered = read_outcome(load_payloads(small_chunks(chunks), self._spool))
        delivered = replace(delivered, size=chunks.nbytes)
        if self._spool is not None:
            self._spool.bring(chunks)
        logged = write_batch(self._home.updates, number, chunks)
        write_us = (time.perf_counter_ns() - begun) // 1000
        split = time_split(delivered.timings, run_us, write_us)
        progress = self._progress(number, delivered, split)
        for stream, taken in delivered.taken.items():
            letters = "".join(part.letters for part in taken)
            write_live_letters(self._home.stream(stream), number, letters.encode())
        archived = [
            file
            for stream, events in delivered.archived.items()
            for file in write_archive(self._book.stream(stream).spec, number, events)
        ]
        for ask, shares in delivered.answers.items():
            write_answer(self._home, ask, shares, progress)
        self._record(progress, delivered, logged, archived)
        if self._mirror is not None:
            self._mirror.publish()
        if self._on_timings is not None:
            self._on_timings(delivered.timings)
        if logged is not None:
            self.retention.delivered(number, logged.total)
        if delivered.clock.steps:
            self._moves.go_on()
        self.balancer.delivered(delivered.clock)
        if self._spool is not None:
            self._spool.clear()
        if self._on_first is not None:
            self._on_first()
            self._on_first = None

    def _record(
        self,
        progress: Progress,
        delivered: BatchOutcome,
        logged: LoggedFile | None,
        archived: list[ArchiveFile],
    ) -> None:
        """Write progress and effects in one transaction, so that no SET intervenes before the next order."""
        with self._control.transaction():
            self._note_turn(progress.batch)
            order = self.shedding.decision(delivered.stats, delivered.clock)
            effects = BatchEffects(
                delivered.ended,
                delivered.grown,
                delivered.found,
                delivered.asks,
                order=order,
                logged=logged,
                taken=[
                    (stream, sum(part.records for part in taken), sum(part.dead for part in taken))
                    for stream, taken in delivered.taken.items()
                ],
                latest_us=latest_times(delivered.taken),
                archived=archived,
            )
            record_batch(self._control, progress, effects)

    def _note_turn(self, number: int) -> None:
        """Keep the offsets of a batch in which anything happens besides streams advancing."""
        first, last = batch_offset(self._home, number - 1), batch_offset(self._home, number)
        if last is None or first is None or last.live:
            return
        now = taking(first, last, self._taking)
        if now != self._taking or not goes_on(first, last):
            note_turn(self._control, number, Turn(first, last))
        self._taking = now

    def _progress(self, number: int, delivered: BatchOutcome, split: TimeSplit) -> Progress:
        clock = delivered.clock
        return Progress(
            batch=number,
            step=clock.last_step,
            base_tick=clock.base_tick,
            tick_us=clock.tick_us,
            seq=clock.seq,
            run_done=clock.run_done,
            ended=clock.ended,
            wall_us=wall_clock_us(),
            stats=self._stats(number, delivered, split),
        )

    def _stats(self, number: int, delivered: BatchOutcome, split: TimeSplit) -> BatchStats:
        """Return the statistics for status lines and SHOW: counts, rates, and the split of the time.

        The totals already include a batch that is repeated.
        """
        now, clock = wall_clock_us(), delivered.clock
        sifted = delivered.sifted
        records = sum(entry.records for entry in delivered.stats) + sum(one.unsent for one in sifted)
        elapsed = max(1, now - self._previous_us) if self._previous_us else max(1, split.total_us)
        self._previous_us = now
        stale = sum(entry.stale for entry in delivered.stats) + sum(one.stale for one in sifted)
        if number > self._counted:
            self._counted = number
            self._records += records
            self._stale += stale
            self._failed_calls += sum(entry.failed_calls for entry in delivered.stats)
        self._failure = self._failure or next((one.failure for one in delivered.stats if one.failure), "")
        return BatchStats(
            records=records,
            records_total=self._records,
            records_per_s=round(records * 1e6 / elapsed),
            updates=sum(entry.updates for entry in delivered.stats),
            stale=stale,
            stale_total=self._stale,
            steps=clock.steps,
            backlog=clock.backlog,
            room=clock.room,
            lag_s=lag_s(clock, now),
            due_us=clock.due_us,
            running=clock.running,
            playing=clock.playing,
            playback=clock.playback,
            rows=clock.rows,
            slots=tuple(by_slot(delivered.stats, sifted)),
            memory=self.shedding.describe(delivered.stats, clock),
            rebuilt=sum(timing.rebuilt for timing in delivered.timings),
            time=split,
            live=clock.live,
            sifted=by_stream(sifted),
            message_bytes=self._message_bytes(delivered),
            failed_calls=self._failed_calls,
            failure=self._failure,
            result_bytes=delivered.size,
        )

    def _message_bytes(self, delivered: BatchOutcome) -> float:
        """Return the mean size of the messages in the last batch that took any."""
        taken = [part for parts in delivered.taken.values() for part in parts]
        if count := sum(part.records + part.dead for part in taken):
            self._mean_bytes = sum(part.bytes for part in taken) / count
        return self._mean_bytes


def batch_offset(home: SessionHome, number: int) -> Offset | None:
    """Return the offset at the end of a batch; None if Spark no longer has it."""
    if number < 0:
        return Offset()
    try:
        return Offset.from_json(json.loads(read_offset(checkpoint_blobs(home.path), number)))
    except DamagedFileError:  # the file is missing
        return None


def small_chunks(chunks: pa.Table) -> list[Chunk]:
    """Return the chunks of a batch that Deliver itself reads, without those only for the update log."""
    bulk = pc.is_in(chunks["kind"], value_set=pa.array(["rows", "updates"]))
    return from_table(chunks.filter(pc.invert(bulk)))


def read_outcome(chunks: list[Chunk]) -> BatchOutcome:
    """Decode a batch's chunks by kind.

    Raises:
        ValueError: the batch has no clock, which indicates a bug upstream.
    """
    kinds: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        kinds.setdefault(chunk.kind, []).append(chunk)
    if "clock" not in kinds:
        raise ValueError("a batch came without a clock")
    clock = unpack_struct(kinds["clock"][0].payload, BatchClock)
    answers, asks = collect_answers(clock.asks, kinds.get("answer", []))
    return BatchOutcome(
        clock=clock,
        grown=merge_growth(kinds.get("counts", [])),
        ended=find_ended(kinds.get("notice", [])),
        found=collect_found(kinds.get("found", []), clock.asked),
        answers=answers,
        asks=asks,
        stats=[unpack_struct(chunk.payload, SlotStats) for chunk in kinds.get("stats", [])],
        timings=[unpack_struct(chunk.payload, TaskTiming) for chunk in kinds.get(ChunkKind.TIMING, [])],
        taken=collect_taken(kinds.get(ChunkKind.TAKEN, [])),
        archived=collect_archived(kinds.get(ChunkKind.ARCHIVED, [])),
        sifted=[unpack_struct(chunk.payload, SiftedRecords) for chunk in kinds.get(ChunkKind.SIFTED, [])],
    )


def collect_archived(chunks: list[Chunk]) -> dict[int, pa.Table]:
    """Return the events that go to the archive of each stream, by id."""
    events: dict[int, list[pa.RecordBatch]] = {}
    for chunk in chunks:
        events.setdefault(chunk.stream, []).append(unpack(chunk.payload))
    return {stream: pa.Table.from_batches(batches) for stream, batches in events.items()}


def latest_times(taken: dict[int, list[TakenMessages]]) -> dict[int, int]:
    """Return the latest time in the records of live streams, in µs, by stream id, if they have records."""
    times = {
        stream: [part.latest_us for part in parts if part.latest_us is not None]
        for stream, parts in taken.items()
    }
    return {stream: max(found) for stream, found in times.items() if found}


def collect_taken(chunks: list[Chunk]) -> dict[int, list[TakenMessages]]:
    """Return the messages taken from live streams, by stream id, in the order of their slices."""
    taken: dict[int, list[TakenMessages]] = {}
    for chunk in in_order(chunks):
        taken.setdefault(chunk.stream, []).append(unpack_struct(chunk.payload, TakenMessages))
    return taken


def merge_growth(chunks: list[Chunk]) -> tuple[Array, Array] | None:
    """Return the growth of answers in rows over all slots: ascending query ids and int64 (n,), or None."""
    if not chunks:
        return None
    batches = [unpack(chunk.payload) for chunk in chunks]
    named, grown = (np.concatenate([batch.column(place).to_numpy() for batch in batches]) for place in (0, 1))
    first = int(named.min(initial=0))
    span = int(named.max(initial=0)) - first + 1
    if span <= max(_SPARSE * len(named), _FEW_IDS):  # ids repeat across slots: a tenth of the time of sorting
        is_named = np.zeros(span, np.bool_)
        is_named[named - first] = True
        queries = np.flatnonzero(is_named)
        # Sums of whole numbers below 2^53 are exact.
        sums = np.bincount(named - first, weights=grown, minlength=span)[queries]
        return queries + first, sums.astype(np.int64)
    queries, position = np.unique(named, return_inverse=True)
    deltas = np.zeros(len(queries), np.int64)
    np.add.at(deltas, position, grown)
    return queries, deltas


def find_ended(chunks: list[Chunk]) -> frozenset[int]:
    """Return the queries whose FOR has passed. Every slot that holds such a query reports it."""
    notices = (notice for chunk in chunks for notice in unpack_json(chunk.payload))
    return frozenset(int(notice["query"]) for notice in notices if notice["event"] == "ended")


def collect_found(chunks: list[Chunk], asked: int) -> tuple[FoundRecords, ...]:
    """Return the answers to look-ups, one for each stream; empty if nothing was found."""
    if not asked:
        return ()
    streams: dict[int, list[pa.RecordBatch]] = {}
    for chunk in chunks:
        streams.setdefault(chunk.stream, []).append(unpack(chunk.payload))
    if not streams:
        return (FoundRecords(0, asked, b""),)
    return tuple(
        FoundRecords(stream, asked, pack(concat_batches(batches)))
        for stream, batches in sorted(streams.items())
    )


def collect_answers(
    asks: Iterable[AskSpec], chunks: list[Chunk]
) -> tuple[dict[int, list[bytes]], list[SnapshotAsked]]:
    """Return the slots' shares of each snapshot's answer, and the second questions of moving snapshots.

    A snapshot around focal objects is sent twice, see `stqsh.engine.planning.pending_log`: the first time the
    slots return the locations of the objects. A snapshot that no slot can answer gets an empty list.
    """
    shares: dict[int, list[bytes]] = {}
    for chunk in chunks:
        shares.setdefault(chunk.order.number, []).append(chunk.payload)
    answers: dict[int, list[bytes]] = {}
    again: list[SnapshotAsked] = []
    for ask in asks:
        found = shares.get(ask.ask, [])
        if focal_keys(ask.spec) and ask.place is UNSET:
            again.append(SnapshotAsked(*with_places(ask.spec, found), ask.ask))
        else:
            answers[ask.ask] = found
    return answers, again


def with_places(spec: SnapshotSpec, shares: Iterable[bytes]) -> tuple[SnapshotSpec, Place | None]:
    """Return a snapshot with moving regions at the reported locations, and the centre of its own region."""
    keys, places = focal_keys(spec), dict[Key, FocalPlace]()
    for share in map(unpack, shares):
        for row in share.to_pylist():
            places[keys[row["focal"]]] = FocalPlace(row["x"], row["y"], row["extent"])
    return at_places(spec, places)


def concat_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return record batches of one schema as one."""
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches() or batches[:1]
    return batch


def by_slot(stats: Sequence[SlotStats], sifted: Sequence[SiftedRecords] = ()) -> list[SlotStats]:
    """Return each slot's figures, with the updates of Aggregate added to those of Evaluate.

    Args:
        stats: the reports of both.
        sifted: counts of the batch's records that were not sent to slots.
    """
    slots: dict[int, SlotStats] = {}
    for entry in sorted(stats, key=lambda entry: (entry.slot, entry.objects is None)):
        known = slots.get(entry.slot)
        slots[entry.slot] = (
            entry if known is None else structs.replace(known, updates=known.updates + entry.updates)
        )
    unsent = Counter[int]()
    for one in sifted:
        unsent[one.slot] += one.unsent
    return [structs.replace(entry, unsent=unsent[slot]) if unsent else entry for slot, entry in slots.items()]


def by_stream(sifted: Sequence[SiftedRecords]) -> dict[int, tuple[int, int]]:
    """Count the records that slots could use and those that they could not, by stream."""
    counts: dict[int, tuple[int, int]] = {}
    for one in sifted:
        used, unused = counts.get(one.stream, (0, 0))
        counts[one.stream] = used + one.sent - one.emptied, unused + one.unsent + one.emptied
    return counts


def time_split(timings: Sequence[TaskTiming], run_us: int, write_us: int) -> TimeSplit:
    """Return the split of a batch's time.

    Slots work in parallel, so the slowest one counts. `transfer_us` is the remaining time of the job:
    scheduling, shuffles, and moving chunks between Spark and Python.

    Args:
        timings: of all tasks.
        run_us: how long the operators took.
        write_us: how long the update log took.
    """
    slowest = [
        max((timing for timing in timings if timing.at == operator), key=_work_us, default=None)
        for operator in ("evaluate", "aggregate")
    ]
    planned = sum(timing.us for timing in timings if timing.at == "plan")  # before the operators run
    source = max((timing.us for timing in timings if timing.at == "source"), default=0)
    kernel = sum(timing.fold_us for timing in slowest if timing)
    state = sum(timing.open_us + timing.store_us for timing in slowest if timing)
    return TimeSplit(
        source_us=planned + source,
        transfer_us=max(0, run_us - source - kernel - state),
        kernel_us=kernel,
        state_us=state,
        deliver_us=write_us,
        total_us=planned + run_us + write_us,
    )


def lag_s(clock: BatchClock, now_us: int) -> float | None:
    """Return the lag: how many seconds ago the last step of a batch was due by the wall clock.

    Return None for a batch without steps, and if nothing plays at a pace.
    """
    if clock.due_us is None or not clock.playing or clock.steps < 1:
        return None
    return max(0, now_us - clock.due_us) / 1e6


def _work_us(timing: TaskTiming) -> int:
    return timing.fold_us + timing.store_us
