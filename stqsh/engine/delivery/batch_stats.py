"""Statistics of a batch: figures by slot, sums, the lag, and where the time went."""

from __future__ import annotations

from stqsh.storage.rows import Spec


def by_slot(stats: list[Spec]) -> list[Spec]:
    """Give the figures of each slot; updates of merged answers, which Aggregate tells apart, are added."""
    slots: dict[int, Spec] = {}
    for entry in sorted(stats, key=lambda entry: (int(entry["slot"]), "objects" not in entry)):
        slot = slots.setdefault(int(entry["slot"]), {**entry, "updates": 0})
        slot["updates"] += int(entry.get("updates", 0))
    return [*slots.values()]


def total(stats: list[Spec], name: str) -> int:
    """Sum one figure over the slots."""
    return sum(int(entry.get(name, 0)) for entry in stats)


def time_split(timings: list[Spec], run_us: int, write_us: int) -> dict[str, int]:
    """Say where a batch's time went, in µs: source, transfer, kernel, state, deliver, total.

    Slots work side by side, so the slowest one counts. `transfer` is what remains of the job: scheduling,
    shuffles, and moving chunks between Spark and Python.
    """
    slowest = {
        operator: max(
            (timing for timing in timings if timing["at"] == operator),
            key=lambda timing: int(timing.get("fold_us", 0)) + int(timing.get("store_us", 0)),
            default={},
        )
        for operator in ("evaluate", "aggregate")
    }
    source = max((int(timing["us"]) for timing in timings if timing["at"] == "source"), default=0)
    kernel = sum(int(timing.get("fold_us", 0)) for timing in slowest.values())
    state = sum(int(timing.get(name, 0)) for timing in slowest.values() for name in ("open_us", "store_us"))
    return {
        "source_us": source,
        "transfer_us": max(0, run_us - source - kernel - state),
        "kernel_us": kernel,
        "state_us": state,
        "deliver_us": write_us,
        "total_us": run_us + write_us,
    }


def lag_s(clock: Spec, now_us: int) -> float | None:
    """Say how long ago the last step of a batch was due by the wall clock, in s.

    None for a batch without steps, and where nothing plays at a pace.
    """
    if clock.get("due_us") is None or not clock.get("playing") or clock["last_step"] < clock["first_step"]:
        return None
    return max(0, now_us - int(clock["due_us"])) / 1e6
