"""What the last command "memory" of a stream says: how much caches and load shedding may do."""

from __future__ import annotations

from typing import Any, NamedTuple

from stqsh.core.slot.state import SlotState


class Memory(NamedTuple):
    """How memory is to be saved on a stream.

    factor: of the caches of queries, 0 .. 1, 1 where nothing may be missed (SOLE's c). k: how many queries
    have to be interested in an object, or it is dropped when it reports (object load shedding). cache, area:
    shares of the caches' distance and of the regions' areas that are left (query load shedding).
    """

    factor: float = 1.0
    k: int = 1
    cache: float = 1.0
    area: float = 1.0

    @property
    def reach(self) -> float:
        """The share of the caches' full distance that is left."""
        return self.factor * self.cache


def memory_of(state: SlotState, stream: int) -> Memory:
    """What holds for a stream since the last command."""
    said = state.header.get("memory", {}).get(str(stream))
    return Memory() if said is None else Memory(**said)


def note_memory(state: SlotState, stream: int, memory: dict[str, Any] | None) -> Memory:
    """Take in what a batch's commands say, None for nothing new; what holds from then on."""
    if memory is not None:
        said = Memory(
            float(memory["factor"]), int(memory["k"]), float(memory["cache"]), float(memory["area"])
        )
        state.header.setdefault("memory", {})[str(stream)] = said._asdict()
    return memory_of(state, stream)


def forget_memory(state: SlotState, stream: int) -> None:
    """The stream is dropped."""
    state.header.get("memory", {}).pop(str(stream), None)
