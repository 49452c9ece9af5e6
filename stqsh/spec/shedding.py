"""Orders of load shedding: what slots have to do about the memory of significant streams."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stqsh.spec.command import MemoryCommand


@dataclass(frozen=True, slots=True)
class SheddingOrder:
    """What slots are told about the memory of significant streams; see `stqsh.core.retention`.

    factor: the share of the cache distance that is used, 0 to 1 (SOLE section 4.5). k: objects that fewer
    queries want are dropped as they report (section 6.4). cache, area: the shares of the cache distance and
    of regions' areas that are left (section 6.3). step: the step after which it was decided; an order is the
    same order at whatever step it was given. part: the share of the objects that k - 1 queries want which is
    dropped, too.
    """

    factor: float = 1.0
    k: int = 1
    cache: float = 1.0
    area: float = 1.0
    step: int = 0
    part: float = 1.0

    def same_as(self, other: SheddingOrder) -> bool:
        """Return whether both ask for the same."""
        return replace(self, step=0) == replace(other, step=0)

    @property
    def sheds(self) -> bool:
        """Whether less is kept than the queries need."""
        return self.k > 1 or self.cache < 1 or self.area < 1

    def command(self) -> MemoryCommand:
        """Return the order as a command to the slots."""
        return MemoryCommand(factor=self.factor, k=self.k, cache=self.cache, area=self.area, part=self.part)
