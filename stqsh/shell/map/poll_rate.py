"""How often a map looks: as often as the engine has news, and with a quarter of a core at the most."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

REST = 3.0
"""After each look a map rests for so many times the processor's time that it took, ..."""
LONGEST_S = 2.0
"""... but no longer than that: the first look loads what the later ones need."""


@dataclass
class PollRate:
    """Measures the looks of one thread. `least_s`: the shortest rest."""

    least_s: float
    _began: float = field(default_factory=time.thread_time, init=False)

    def begin(self) -> None:
        """A look begins."""
        self._began = time.thread_time()

    def rest_s(self, least_s: float | None = None) -> float:
        """How long to rest now that the look is over, in seconds."""
        least = self.least_s if least_s is None else least_s
        return min(max(LONGEST_S, least), max(least, (time.thread_time() - self._began) * REST))
