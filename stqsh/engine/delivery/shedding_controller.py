"""Load shedding between batches: read the slots' load and the orders in the log, and decide the next order.

A query over a significant stream that is registered or resumed finds only objects that other queries have
kept. A region that grows back has no objects in its new parts. Both warm up: they are exact once every object
has reported, one REPORT EVERY later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from stqsh.engine.config import TUNING
from stqsh.engine.delivery.shedding_policy import decide, load_of
from stqsh.profile import Profile
from stqsh.spec.clock import BatchClock
from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stats import MemoryStats, SlotStats, StreamMemory, Warmup
from stqsh.storage.catalogue import stream_by_id
from stqsh.storage.control_log import ControlDb
from stqsh.storage.progress import read_progress
from stqsh.storage.session_settings import session_settings
from stqsh.storage.shedding_orders import MemorySettings, look_after, memory_settings, orders_after

MOST = 64
"""Maximum number of batches with entries of their own; queries of earlier batches share the oldest entry."""


@dataclass(frozen=True, slots=True)
class WarmupBatch:
    """One batch: its steps, the log rows that it applied, and their effect.

    Attributes:
        first: its first step.
        last: its last step.
        before: it applied the log's rows `before < row <= seq`.
        seq: see `before`.
        report_steps: after this many steps every object has reported.
        grows: whether an order among the rows lets regions or their caches grow.
    """

    first: int
    last: int
    before: int
    seq: int
    report_steps: int
    grows: bool = False


def warmup_after(before: Warmup, batch: WarmupBatch) -> Warmup:
    """Return the warm-up after a batch with steps."""
    recent = [entry for entry in before.recent if entry[1] > batch.last]
    due = batch.first + batch.report_steps
    if batch.seq > batch.before and due > batch.last:
        recent.append((batch.before, due))
    grown = batch.grows and due > batch.last
    return Warmup(tuple(_merge_oldest(recent)), max(before.all_until, due) if grown else before.all_until)


def ask_for_more(orders: Iterable[SheddingOrder]) -> bool:
    """Return whether any of these orders lets regions or caches grow compared with the order before it.

    The first of them was in force before the others.
    """
    areas = [(order.factor * order.cache, order.area) for order in orders]
    return any(later[0] > first[0] or later[1] > first[1] for first, later in pairwise(areas))


def _merge_oldest(recent: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge the oldest entries if there are more than MOST."""
    spare = len(recent) - MOST
    if spare <= 0:
        return recent
    return [(recent[0][0], recent[spare][1]), *recent[spare + 1 :]]


class SheddingController:
    """Follows the orders of a session and decides new ones.

    `profile` has the settings that SET overrides. The load is checked every `every` steps.
    """

    every = TUNING.shedding_steps

    def __init__(self, control: ControlDb, profile: Profile) -> None:
        self._control, self._profile = control, profile
        self._orders: list[tuple[int, SheddingOrder]] = [(0, SheddingOrder())]
        self._report_steps: dict[int, int] = {}
        progress = read_progress(control)
        self._seq = progress.seq
        memory = progress.stats.memory
        self._settling = Warmup() if memory is None else memory.settling

    def describe(self, stats: Iterable[SlotStats], clock: BatchClock) -> MemoryStats | None:
        """Return the figures for status lines: the order in force, sums, and the queries that are warming up.

        Args:
            stats: of the slots' Evaluate.
            clock: of the batch.

        Returns:
            None while no stream is significant.
        """
        streams = _by_slot_and_stream(stats)
        if not streams:
            self._seq = clock.seq
            return None
        in_force = self._observe(streams, clock)
        return MemoryStats(
            factor=in_force.factor,
            k=in_force.k,
            part=in_force.part,
            cache=in_force.cache,
            area=in_force.area,
            objects=sum(held.objects for _, held in streams),
            shadow=sum(held.shadow for _, held in streams),
            bytes=sum(held.bytes for _, held in streams),
            approximate=max(held.approximate for _, held in streams),
            least=min(held.least for _, held in streams),
            settling=self._settling,
        )

    def decision(self, stats: Iterable[SlotStats], clock: BatchClock) -> SheddingOrder | None:
        """Return the order to issue after a batch; None if the last one stays, or has yet to take effect.

        The load is checked only every `every` steps, where the planner ends batches. A repeated batch gets
        the same order. Call this in the transaction that appends the order.
        """
        streams = _by_slot_and_stream(stats)
        if not streams or look_after(clock.first_step - 1, self.every) > clock.last_step:
            return None
        self._follow(clock.seq)
        seq, standing = self._orders[-1]
        if seq > clock.seq:
            return None
        load = load_of((memory for _, memory in streams), clock.last_step, self._steps_of(streams, clock))
        order = decide(self._settings(), load, standing)
        return None if order is standing else order

    def _observe(self, streams: list[tuple[int, StreamMemory]], clock: BatchClock) -> SheddingOrder:
        """Record the load after a batch, and return the order that was in force in it."""
        self._follow(self._seq)
        orders = [order for number, order in self._orders if number <= max(clock.seq, self._orders[0][0])]
        batch = WarmupBatch(
            clock.first_step,
            clock.last_step,
            self._seq,
            clock.seq,
            self._steps_of(streams, clock),
            ask_for_more(orders),
        )
        self._settling, self._seq = warmup_after(self._settling, batch), clock.seq
        return orders[-1]

    def _follow(self, seq: int) -> None:
        """Read new orders. The first one kept is the order in force once the log's row `seq` is applied."""
        self._orders += orders_after(self._control, self._orders[-1][0])
        past = sum(number <= seq for number, _ in self._orders)
        del self._orders[: max(0, past - 1)]

    def _settings(self) -> MemorySettings:
        return memory_settings(session_settings(self._control, self._profile))

    def _steps_of(self, streams: list[tuple[int, StreamMemory]], clock: BatchClock) -> int:
        """Return the number of steps after which every object of these streams has reported."""
        for stream in {stream for stream, _ in streams} - self._report_steps.keys():
            report_us = stream_by_id(self._control, stream).spec.report_every_us
            assert report_us is not None, "RETAIN SIGNIFICANT needs REPORT EVERY"
            self._report_steps[stream] = -(-report_us // (clock.tick_us or 1)) + 1
        return max(self._report_steps[stream] for stream, _ in streams)


def _by_slot_and_stream(stats: Iterable[SlotStats]) -> list[tuple[int, StreamMemory]]:
    """Return the memory of significant streams on all slots: (stream, memory on one slot)."""
    return [(stream, memory) for one in stats for stream, memory in one.memory.items()]
