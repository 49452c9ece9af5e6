"""The streams that retain only significant objects, and the memory that they may use."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from stqsh.core.state.slot_state import SlotState


@dataclass(frozen=True)
class RetentionOrder:
    """The parameters of a command "memory" for a stream.

    Attributes:
        factor: The share of the cache distance that is used, 0 .. 1 (SOLE section 4.5).
        k: Objects that fewer than k queries need are dropped when they report (section 6.4).
        cache: The share of the cache distance that query load shedding leaves (section 6.3).
        area: The share of regions' areas that query load shedding leaves.
        part: The share to drop of the objects that k - 1 queries need, always the same objects, see
            `stqsh.core.retention.object_shedding.is_spared`.
    """

    factor: float = 1.0
    k: int = 1
    cache: float = 1.0
    area: float = 1.0
    part: float = 1.0


def memory_of(state: SlotState, stream: int) -> RetentionOrder:
    """Return the last order for a stream's memory; the default order keeps everything."""
    return RetentionOrder(**state.entry("memory").get(str(stream), {}))


def remember(state: SlotState, stream: int, order: RetentionOrder) -> None:
    """Store an order in the slot's header, as "memory"."""
    state.entry("memory")[str(stream)] = asdict(order)


def forget_memory(state: SlotState, stream: int) -> None:
    """Remove the order for a dropped stream."""
    state.entry("memory").pop(str(stream), None)
