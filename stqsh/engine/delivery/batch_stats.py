"""Statistics of a batch: figures by slot, the lag, and where the time went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from stqsh.spec.clock import BatchClock
from stqsh.spec.stats import SiftedRecords, SlotStats, TaskTiming, TimeSplit


def by_slot(stats: Sequence[SlotStats], sifted: Sequence[SiftedRecords] = ()) -> list[SlotStats]:
    """Return each slot's figures, with the updates of Aggregate added to those of Evaluate.

    Args:
        stats: the reports of both.
        sifted: what the slots did not get of the batch's records.
    """
    slots: dict[int, SlotStats] = {}
    for entry in sorted(stats, key=lambda entry: (entry.slot, entry.objects is None)):
        known = slots.get(entry.slot)
        slots[entry.slot] = entry if known is None else replace(known, updates=known.updates + entry.updates)
    unsent = Counter[int]()
    for one in sifted:
        unsent[one.slot] += one.unsent
    return [replace(entry, unsent=unsent[slot]) if unsent else entry for slot, entry in slots.items()]


def by_stream(sifted: Sequence[SiftedRecords]) -> dict[int, tuple[int, int]]:
    """Return how many records slots had use for and how many not, by stream."""
    counts: dict[int, tuple[int, int]] = {}
    for one in sifted:
        used, unused = counts.get(one.stream, (0, 0))
        counts[one.stream] = used + one.sent - one.emptied, unused + one.unsent + one.emptied
    return counts


def time_split(timings: Sequence[TaskTiming], run_us: int, write_us: int) -> TimeSplit:
    """Return where a batch's time went.

    Slots work side by side, so the slowest one counts. `transfer_us` is what remains of the job: scheduling,
    shuffles, and moving chunks between Spark and Python.

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
    """Return how many seconds ago the last step of a batch was due by the wall clock.

    Return None for a batch without steps, and where nothing plays at a pace.
    """
    if clock.due_us is None or not clock.playing or clock.steps < 1:
        return None
    return max(0, now_us - clock.due_us) / 1e6


def _work_us(timing: TaskTiming) -> int:
    return timing.fold_us + timing.store_us
