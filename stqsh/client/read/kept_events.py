"""What event streams are to keep, and what of it they have kept."""

from __future__ import annotations

from stqsh.spec.stats import KeptEvents
from stqsh.spec.stream import StreamSpec
from stqsh.storage.rows import Progress
from stqsh.units import format_duration, format_instant, format_size


def keep_text(spec: StreamSpec) -> str | None:
    """Return what follows KEEP in a stream's statement: `1 day, 2 GB`; None if it keeps everything."""
    if spec.keeps_none:
        return "none"
    size = None if spec.keep_bytes is None else format_size(spec.keep_bytes)
    return ", ".join(filter(None, (format_duration(spec.keep_us), size))) or None


def kept_text(progress: Progress, spec: StreamSpec) -> str:
    """Return how much a stream that keeps a number of bytes has kept, and since when; "" for others."""
    kept = _kept(progress, spec)
    if spec.keep_bytes is None or kept is None:
        return ""
    since = kept_since(progress, spec)
    text = f"{format_size(kept.bytes)} of {format_size(spec.keep_bytes)} kept"
    return text if since is None else f"{text}, since {format_instant(since)}"


def kept_since(progress: Progress, spec: StreamSpec) -> int | None:
    """Return the time before which a stream's events are gone, µs; None while none are."""
    kept, now_us = _kept(progress, spec), progress.at_us()
    by_age = None if spec.keep_us is None or now_us is None else now_us - spec.keep_us
    by_size = None if kept is None else kept.floor_us
    return max((time for time in (by_age, by_size) if time is not None), default=None)


def _kept(progress: Progress, spec: StreamSpec) -> KeptEvents | None:
    """Return what all slots together have kept, which each of them reports."""
    return next((slot.kept[spec.id] for slot in progress.stats.slots if spec.id in slot.kept), None)
