"""All hypothesis strategies: streams, queries, schedules, and the ways to cut a run into batches."""

from support.strategies.streams import EVERY
from support.strategies.whole import (
    BATCHES,
    SLOTS,
    cases,
    chosen,
    cores,
    cut,
    cuts,
    drawn_until,
    in_slices,
    looks,
    restarts,
    sampled,
    script_cases,
    sessions,
    slots,
)

__all__ = [
    "BATCHES",
    "EVERY",
    "SLOTS",
    "cases",
    "chosen",
    "cores",
    "cut",
    "cuts",
    "drawn_until",
    "in_slices",
    "looks",
    "restarts",
    "sampled",
    "script_cases",
    "sessions",
    "slots",
]
