"""Orders of load shedding to the slots, about the memory of significant streams."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stqsh.spec.command import MemoryCommand


@dataclass(frozen=True, slots=True)
class SheddingOrder:
    """An order to the slots about the memory of significant streams; see `stqsh.core.retention`.

    Attributes:
        factor: the share of the cache distance that is used, 0 to 1 (SOLE section 4.5).
        k: objects that fewer queries want are dropped when they report (section 6.4).
        cache: the remaining share of the cache distance (section 6.3).
        area: the remaining share of regions' areas (section 6.3).
        step: the step after which it was decided; orders that differ only in `step` are the same.
        part: the dropped share of the objects that k - 1 queries want.
    """

    factor: float = 1.0
    k: int = 1
    cache: float = 1.0
    area: float = 1.0
    step: int = 0
    part: float = 1.0

    def same_as(self, other: SheddingOrder) -> bool:
        """Return whether both orders are the same except for `step`."""
        return replace(self, step=0) == replace(other, step=0)

    @property
    def sheds(self) -> bool:
        """Whether the order keeps less than the queries need."""
        return self.k > 1 or self.cache < 1 or self.area < 1

    def command(self) -> MemoryCommand:
        """Return the order as a command to the slots."""
        return MemoryCommand(factor=self.factor, k=self.k, cache=self.cache, area=self.area, part=self.part)
