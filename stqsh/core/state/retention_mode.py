"""Which streams keep significant objects only, and what is asked of their memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from stqsh.core.state.slot_state import SlotState

Spec = dict[str, Any]


@dataclass(frozen=True)
class RetentionOrder:
    """What a command "memory" asks of a stream.

    factor: the share of the cache distance that is used, 0 .. 1 (SOLE section 4.5). k: objects that fewer
    queries are interested in are dropped when they report (section 6.4). part: of the objects that k - 1
    queries are interested in only this share is dropped, always the same ones, see `spared`. cache, area: the
    share of the cache distance, and of regions' areas, that query load shedding leaves (section 6.3).
    """

    factor: float = 1.0
    k: int = 1
    cache: float = 1.0
    area: float = 1.0
    part: float = 1.0


def memory_of(state: SlotState, stream: int) -> RetentionOrder:
    """What was last asked of a stream's memory; everything is kept before anything was."""
    return RetentionOrder(**state.header.get("memory", {}).get(str(stream), {}))


def remember(state: SlotState, stream: int, command: Spec) -> RetentionOrder:
    """Take a command in: what it says is in the slot's header, "memory", from here on."""
    memory = RetentionOrder(**command)
    state.header.setdefault("memory", {})[str(stream)] = asdict(memory)
    return memory


def forget_memory(state: SlotState, stream: int) -> None:
    """Forget what was asked of a stream that is dropped."""
    state.header.get("memory", {}).pop(str(stream), None)
