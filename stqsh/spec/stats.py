"""Statistics of a batch: what tasks and slots report, and what Deliver makes of it. Times are in µs."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class TaskTiming(Struct, frozen=True):
    """The content of a `timing` chunk: where the time of one task went.

    at: the source, or an operator. slot: the operator's slot. us: the time of a task of the source. open_us,
    fold_us, store_us: an operator's time to find its state, to fold the batch into it, and to store it.
    rebuilt: the state had to be rebuilt from its log.
    """

    at: Literal["source", "evaluate", "aggregate"] | str
    slot: int = 0
    us: int = 0
    open_us: int = 0
    fold_us: int = 0
    store_us: int = 0
    rebuilt: bool = False


class StreamMemory(Struct, frozen=True):
    """What a significant stream holds on one slot.

    objects: kept ones; focal: focal objects among them; shadow: dropped objects that still report. histogram:
    [S[1], ..., S[63], S[64] and more], kept objects that are not locked, by their reference counts (SOLE
    section 6.4); dropped: the same of the shadow. locked: queries that cannot lose an object more;
    approximate: queries with an accuracy below 1; least: the least accuracy. k, part: of the order in force.
    bytes: of the stream's arrays.
    """

    objects: int = 0
    focal: int = 0
    shadow: int = 0
    locked: int = 0
    approximate: int = 0
    histogram: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    least: float = 1.0
    k: int = 1
    part: float = 1.0
    bytes: int = 0


class SlotStats(Struct, frozen=True):
    """The content of a `stats` chunk: what one slot did in a batch.

    objects: present ones, None where Aggregate reports. memory: significant streams, by id.
    """

    slot: int
    objects: int | None = None
    records: int = 0
    stale: int = 0
    updates: int = 0
    decode_us: int = 0
    kernel_us: int = 0
    state_us: int = 0
    queries: int = 0
    bytes: int = 0
    total_us: int = 0
    memory: dict[int, StreamMemory] = {}


class TimeSplit(Struct, frozen=True):
    """Where a batch's time went; `transfer_us` is scheduling, shuffles, and moving chunks."""

    source_us: int
    transfer_us: int
    kernel_us: int
    state_us: int
    deliver_us: int
    total_us: int
